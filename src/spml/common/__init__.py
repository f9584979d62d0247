"""Basics for every room: errors and phrases of messages, files and locks, documents with limits, plug-ins.

- `errors`, `phrases`: messages and their parts
- `files`, `locks`, `safe`: writing, locking and naming files
- `documents`, `parsing`: JSON, XML and YAML, read with limits
- `web`: servers of web pages
- `spreadsheets`: text of CSV files
- `covariance`: principal axes of features
- `plugins`: registries that other packages add to
- `draws`, `torch_draws`, `label_checks`: random numbers that are the same everywhere, those of torch's global
  generators, and checks of labels
"""
