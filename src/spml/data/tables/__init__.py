"""Tables of images and texts: the only reader of rows and columns, from files and from memory.

- `formats`: files as tables, which are streams of blocks of rows
- `names`, `columns`: what the name of a column may mean, and which column is what
- `cells`: what the cells of labels hold
- `rows`: from rows to samples and their labels
"""
