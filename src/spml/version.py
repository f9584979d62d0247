"""The version of spml; the package is built from it."""

__version__ = "0.1.0"
