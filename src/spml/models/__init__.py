"""Models: a backbone that maps samples to features, and a top that maps features to logits."""

from .backbones import Backbone, build_backbone
from .classifier import Classifier, load_classifier, save_classifier
from .closed_form import (
    CLOSED_FORM,
    MEAN_DIFFERENCE,
    PENALTIES,
    RIDGE,
    check_width,
    fill_head,
    mean_difference,
    moments,
    ridge,
)
from .heads import BOOSTED_CAM, CORRELATED, GAUSSIAN, LINEAR
from .scaling import RAW, SQRT_L2, STANDARD, Standardise, default_scaling
from .spec import BackboneSpec, describe_backbone
from .top import LOG_SOFTMAX, LOGITS, Top, start_bias

__all__ = [
    "BOOSTED_CAM",
    "CLOSED_FORM",
    "CORRELATED",
    "GAUSSIAN",
    "LINEAR",
    "LOGITS",
    "LOG_SOFTMAX",
    "MEAN_DIFFERENCE",
    "PENALTIES",
    "RAW",
    "RIDGE",
    "SQRT_L2",
    "STANDARD",
    "Backbone",
    "BackboneSpec",
    "Classifier",
    "Standardise",
    "Top",
    "build_backbone",
    "check_width",
    "default_scaling",
    "describe_backbone",
    "fill_head",
    "load_classifier",
    "mean_difference",
    "moments",
    "ridge",
    "save_classifier",
    "start_bias",
]
