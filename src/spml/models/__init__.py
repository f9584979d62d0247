"""Models: a backbone that turns samples into features, and a top that turns features into logits."""

from .backbones import Backbone, build_backbone
from .classifier import (
    LOG_SOFTMAX,
    Classifier,
    Standardise,
    Top,
    load_classifier,
    save_classifier,
    start_bias,
)
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
from .heads import BOOSTED_CAM, GAUSSIAN, LINEAR
from .spec import BackboneSpec, describe_backbone

__all__ = [
    "BOOSTED_CAM",
    "CLOSED_FORM",
    "GAUSSIAN",
    "LINEAR",
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
    "ridge",
    "save_classifier",
    "start_bias",
]
