"""Fair comparisons of methods: specification, runs, store, statistics, report."""
