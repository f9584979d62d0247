"""Metrics of finished runs, and their comparison."""
