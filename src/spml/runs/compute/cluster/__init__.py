"""Prediction and feature extraction on the machines of a Ray cluster."""
