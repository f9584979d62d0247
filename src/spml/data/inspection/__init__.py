"""Content of a data set, and what is odd about it, before anything is trained on it."""
