"""Slow float64 references in plain loops, written from the papers' formulas, one file per paper.

Each file also maps its records of the reference values to our losses: `GOLDENS`, a list of (pattern of the
record's case, function). The function takes the record and the inputs and returns our loss for logits (or for
whatever the record's gradient is taken with respect to). A third element replaces a record that is wrong.
"""
