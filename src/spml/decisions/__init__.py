"""From scores to decisions: selection of a model, and thresholds."""
