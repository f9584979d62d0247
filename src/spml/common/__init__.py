"""Basics for every room: errors and phrases of messages, files and locks, documents with limits, plug-ins.

- `errors`, `phrases`, `messages`: messages and their parts, and where they appear
- `files`, `locks`, `safe`: writing, locking and naming files
- `documents`: JSON, XML and YAML, read with limits
- `web`, `signals`: servers of web pages, and how processes end
- `spreadsheets`, `notebook`: text of CSV files, and results at the prompt
- `numerics`: minimisation, and the spread of features along axes
- `plugins`: registries that other packages add to
- `draws`, `torch_draws`: random numbers that are the same everywhere, and those of torch's generators
- `label_checks`, `budget`: checks of labels, and the time that a training may take
"""
