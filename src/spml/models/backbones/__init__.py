"""Backbones: a small network for small images, networks of three libraries, and networks of the user's
own."""

from .backbone import Backbone, SmallCNN
from .choose import build_backbone, create_backbone, describe_backbone
from .own import OwnNetwork, at_hand, needed
from .weights import check_fit

__all__ = [
    "Backbone",
    "OwnNetwork",
    "SmallCNN",
    "at_hand",
    "build_backbone",
    "check_fit",
    "create_backbone",
    "describe_backbone",
    "needed",
]
