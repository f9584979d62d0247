"""Servers of web pages: `connections` and their limits, and what all `pages` share."""
