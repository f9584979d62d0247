"""What losses are made of: terms in closed form, and the one pass that evaluates them."""
