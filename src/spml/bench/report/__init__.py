"""Report of a comparison: from the rows of a store to numbers, files and the screen."""

from .results import build_report
from .write import print_report, write_report

__all__ = ["build_report", "print_report", "write_report"]
