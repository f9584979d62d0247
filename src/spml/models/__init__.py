"""Models: a backbone that maps samples to features, and a top that maps features to logits."""

from .backbones import Backbone, build_backbone
from .classifier import Classifier, load_classifier, save_classifier
from .closed_form import (
    CLOSED_FORM,
    PENALTIES,
    RIDGE,
    check_width,
    fill_head,
    mean_difference,
    moments,
    ridge,
)
from .heads import BOOSTED_CAM, CORRELATED, GAUSSIAN, LINEAR
from .scores import probabilities
from .spec import BackboneSpec, describe_backbone
from .top import LOG_SOFTMAX, LOGITS, Standardise, Top, start_bias

__all__ = [
    "BOOSTED_CAM",
    "CLOSED_FORM",
    "CORRELATED",
    "GAUSSIAN",
    "LINEAR",
    "LOGITS",
    "LOG_SOFTMAX",
    "PENALTIES",
    "RIDGE",
    "Backbone",
    "BackboneSpec",
    "Classifier",
    "Standardise",
    "Top",
    "build_backbone",
    "check_width",
    "describe_backbone",
    "fill_head",
    "load_classifier",
    "mean_difference",
    "moments",
    "probabilities",
    "ridge",
    "save_classifier",
    "start_bias",
]
