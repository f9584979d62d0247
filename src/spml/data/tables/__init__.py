"""Tables of images: the only reader of rows and columns, from files and from memory.

- `table`: a table as a stream of blocks; `delimited`, `json_lines`, `parquet`: files as tables
- `columns`, `class_columns`: which column is what
- `cells`, `evidence`, `values`: what the cells of labels mean
- `rows`, `read`: from rows to the images and their labels
"""
