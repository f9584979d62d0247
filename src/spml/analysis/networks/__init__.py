"""Figures on trained models: where they look, what they predict, the loss around their weights."""
