"""Random and damaged inputs for everything that reads what others wrote: `python -m tests.hostile.fuzz`."""
