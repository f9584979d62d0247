"""Models: a backbone that maps samples to features, and a top that maps features to logits."""

from .backbones import Backbone, OwnNetwork, at_hand, build_backbone, describe_backbone
from .classifier import Classifier, load_classifier, save_classifier
from .heads import BOOSTED_CAM, CORRELATED, GAUSSIAN, LINEAR
from .scaling import RAW, SQRT_L2, STANDARD, Standardise, default_scaling
from .scores import probabilities
from .solved import (
    CLOSED_FORM,
    FEW,
    FINITE_PENALTIES,
    LDA,
    MEAN_DIFFERENCE,
    MOST_SCORES,
    PENALTIES,
    RIDGE,
    ClosedForm,
    Columns,
    HeldOutLogits,
    check_width,
    fit_auto,
    keep_all,
    moments,
)
from .spec import BackboneSpec
from .top import LOG_SOFTMAX, LOGITS, Top, start_bias

__all__ = [
    "BOOSTED_CAM",
    "CLOSED_FORM",
    "CORRELATED",
    "FEW",
    "FINITE_PENALTIES",
    "GAUSSIAN",
    "LDA",
    "LINEAR",
    "LOGITS",
    "LOG_SOFTMAX",
    "MEAN_DIFFERENCE",
    "MOST_SCORES",
    "PENALTIES",
    "RAW",
    "RIDGE",
    "SQRT_L2",
    "STANDARD",
    "Backbone",
    "BackboneSpec",
    "Classifier",
    "ClosedForm",
    "Columns",
    "HeldOutLogits",
    "OwnNetwork",
    "Standardise",
    "Top",
    "at_hand",
    "build_backbone",
    "check_width",
    "default_scaling",
    "describe_backbone",
    "fit_auto",
    "keep_all",
    "load_classifier",
    "moments",
    "probabilities",
    "save_classifier",
    "start_bias",
]
