"""Every setting of a run, its default and its meaning. Does not import torch, so that `--help` is quick."""

from .read import check, differences, flat, from_dict, read_yaml, to_yaml
from .settings import AUTO, LBFGS, Config, DataConfig, ModelConfig, OptimConfig

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
