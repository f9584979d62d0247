"""Slow float64 references in plain loops, written from the papers' formulas, one file per paper.

Each file also assigns records of reference values to our losses: `GOLDENS`, a list of (pattern of the name
of the case, function). The function takes a case and returns our loss as a function of the logits, or of the
tensor with respect to which the gradient of the record is taken. A third element corrects a wrong record.
"""
