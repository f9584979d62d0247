"""Models: a backbone that turns samples into features, and a top that turns features into logits."""

from .backbones import Backbone, build_backbone
from .classifier import Classifier, Standardise, Top, load_classifier, save_classifier, start_bias
from .spec import BackboneSpec, describe_backbone

__all__ = [
    "Backbone",
    "BackboneSpec",
    "Classifier",
    "Standardise",
    "Top",
    "build_backbone",
    "describe_backbone",
    "load_classifier",
    "save_classifier",
    "start_bias",
]
