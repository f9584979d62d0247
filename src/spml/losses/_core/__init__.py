"""Building blocks of the losses: terms in closed form, and the single pass that evaluates them."""
