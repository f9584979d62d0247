"""A run by its life, from its configuration to its folder and to what is done with it.

- `settle`: every setting, completed and checked in one visit; `recipes` names those of a purpose
- `fit`: objective, backbone and head, trained or solved; `spml train` and `spml bench` share it
- `folder`: what a run leaves on disk
- `predict`: from samples to logits, here or on a cluster, and files of predictions
- `judge`: runs on labelled data, and their comparison
- `decide`, `audits`: thresholds of a run, and what it says of the labels of data
- `train`, `run`, `api`: the order of all this, a finished run, and both in Python
"""
