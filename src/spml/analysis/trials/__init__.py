"""Figures on the trials of comparisons."""
