"""From settled settings to a fitted model: building, training, solving, fine-tuning, recording."""
