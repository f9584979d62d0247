"""Random and damaged inputs for everything that reads what others wrote; see `tests.faults.fuzz.__main__`."""
