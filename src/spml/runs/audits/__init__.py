"""Audits of the data of a run: scores by models that did not see a sample, lists, random samples."""
