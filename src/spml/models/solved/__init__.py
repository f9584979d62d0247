"""Heads that are solved instead of trained: ridge, LDA, class-mean difference, and the auto head."""
