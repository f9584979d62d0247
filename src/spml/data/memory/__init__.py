"""Data in memory, turned into the same records as data in files.

- `read`: samples and labels together
- `samples`: arrays, matrices, lists of paths or images, data sets of PyTorch
- `labels`: names, indices, lists of these, matrices
- `frames`: tables of pandas and polars
"""

from .read import read_memory

__all__ = ["read_memory"]
