"""From the rows of a store to numbers, and from numbers to files and the screen."""

from .screen import print_report
from .write import write_report

__all__ = ["print_report", "write_report"]
