"""Figures on the scores that a run recorded during training (`--record scores`)."""
