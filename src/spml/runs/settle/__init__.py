"""Settings of a run, completed and checked."""
