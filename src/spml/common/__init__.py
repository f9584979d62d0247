"""What every room may use: errors and phrases of messages, files and locks, documents with limits, plug-ins.

- `errors`, `phrases`: messages and their parts
- `files`, `locks`, `safe`: writing, locking and naming files
- `documents`, `parsing`, `web`: JSON, XML, YAML and requests, read with limits
- `plugins`: registries that other packages add to
- `draws`, `label_checks`: random numbers that are the same everywhere, and checks of labels
"""
