"""One training run, from its configuration to its folder."""
