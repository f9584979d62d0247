"""From scores to decisions: which model, where to cut."""
