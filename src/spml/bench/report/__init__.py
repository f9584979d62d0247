"""Report of a comparison: from the rows of a store to numbers and files."""

from .results import build_report
from .write import write_report

__all__ = ["build_report", "write_report"]
