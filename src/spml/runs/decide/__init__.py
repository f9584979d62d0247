"""Where the scores of a run are cut, and what predicted labels say."""
