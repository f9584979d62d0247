"""Report of a comparison: from the rows of a store to numbers, files and the screen."""

from .write import print_report, write_report

__all__ = ["print_report", "write_report"]
