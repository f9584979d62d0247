"""One training run, from its configuration to its folder.

- `resolve`: completes and checks the settings, in one visit
- `build`: builds objective, backbone and head, and fits them; `spml train` and `spml bench` share it
- `solve`: heads that are solved instead of trained
- `init_from`: starts a run from a finished one
- `train`, `folder`, `summary`: the run of `spml train`, its files, what is written at its end
- `api`: trained runs in Python
- `evaluate`, `full_labels`, `common_classes`, `compare`, `comparison_files`: runs on labelled data
- `recording`: scores of samples in every epoch, kept for figures
- `console`: progress
"""
