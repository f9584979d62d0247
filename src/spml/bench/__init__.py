"""Fair comparison of methods: specification, runs, store, statistics, report."""
