"""Hiding: which labels of fully labelled data stay observed, for experiments with single positives."""

from .from_config import check_observe, hide

__all__ = ["check_observe", "hide"]
