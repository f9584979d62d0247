"""Every setting of a run, its default and its meaning. Does not import torch, so that `--help` is quick."""

from .data import DataConfig
from .model import ModelConfig
from .read import check, differences, flat, from_dict, read_yaml, to_yaml
from .training import AUTO, LBFGS, Config, OptimConfig

__all__ = [
    "AUTO",
    "LBFGS",
    "Config",
    "DataConfig",
    "ModelConfig",
    "OptimConfig",
    "check",
    "differences",
    "flat",
    "from_dict",
    "read_yaml",
    "to_yaml",
]
