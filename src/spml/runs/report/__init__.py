"""The report of a run: one page that tells what was learned, for people who do not know the field."""
