"""Models: a backbone that maps samples to features, and a top that maps features to logits."""

from .backbones import Backbone, OwnNetwork, at_hand, build_backbone, describe_backbone
from .backbones.texts import Tfidf
from .backbones.timm_models import takes_any_size
from .classifier import (
    Classifier,
    Located,
    Outline,
    SizeSettings,
    load_classifier,
    read_outline,
    save_classifier,
)
from .heads import (
    BETA,
    CORRELATED,
    GAUSSIAN,
    GAUSSIAN_PER_CLASS,
    LINEAR,
    MAP_HEADS,
    QUERIES,
    CodeSettings,
    GaussianPerClassHead,
    QueryHead,
    QuerySettings,
)
from .local import LocalScores, Windows, crops, fit_local, weigh_alike, windows_of
from .names import NameEvidence, read_name_evidence
from .scaling import RAW, SQRT_L2, STANDARD, UNIT, Standardise, default_scaling
from .solved.auto import FEW, MOST_JUDGED, AutoHead, HeldOutLogits, fit_auto, keep_all
from .solved.ensemble import Ensemble
from .solved.linear import CLOSED_FORM, FINITE_PENALTIES, LDA, MEAN_DIFFERENCE, PENALTIES, RIDGE, ClosedForm
from .solved.moments import Columns, check_size, is_wide, moments, solves_sparse, sparse_scaling
from .solved.names import LEAST_PER_NAME, MOST_WINDOWS, NAMES_LDA, NAMES_SOFTMAX, NameScores, fit_names
from .spec import LARGEST_SIZE, TFIDF, BackboneSpec
from .top import LOG_SOFTMAX, LOGITS, Top, start_bias

__all__ = [
    "BETA",
    "CLOSED_FORM",
    "CORRELATED",
    "FEW",
    "FINITE_PENALTIES",
    "GAUSSIAN",
    "GAUSSIAN_PER_CLASS",
    "LARGEST_SIZE",
    "LDA",
    "LEAST_PER_NAME",
    "LINEAR",
    "LOGITS",
    "LOG_SOFTMAX",
    "MAP_HEADS",
    "MEAN_DIFFERENCE",
    "MOST_JUDGED",
    "MOST_WINDOWS",
    "NAMES_LDA",
    "NAMES_SOFTMAX",
    "PENALTIES",
    "QUERIES",
    "RAW",
    "RIDGE",
    "SQRT_L2",
    "STANDARD",
    "TFIDF",
    "UNIT",
    "AutoHead",
    "Backbone",
    "BackboneSpec",
    "Classifier",
    "ClosedForm",
    "CodeSettings",
    "Columns",
    "Ensemble",
    "GaussianPerClassHead",
    "HeldOutLogits",
    "LocalScores",
    "Located",
    "NameEvidence",
    "NameScores",
    "Outline",
    "OwnNetwork",
    "QueryHead",
    "QuerySettings",
    "SizeSettings",
    "Standardise",
    "Tfidf",
    "Top",
    "Windows",
    "at_hand",
    "build_backbone",
    "check_size",
    "crops",
    "default_scaling",
    "describe_backbone",
    "fit_auto",
    "fit_local",
    "fit_names",
    "is_wide",
    "keep_all",
    "load_classifier",
    "moments",
    "read_name_evidence",
    "read_outline",
    "save_classifier",
    "solves_sparse",
    "sparse_scaling",
    "start_bias",
    "takes_any_size",
    "weigh_alike",
    "windows_of",
]
