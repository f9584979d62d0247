"""The training loop, checkpoints, prediction."""

from .distributed import find_device, make_fabric
from .loop import AFTER_LAST_EPOCH, Interrupted, Trainer
from .predict import predict_logits, predict_scores

__all__ = [
    "AFTER_LAST_EPOCH",
    "Interrupted",
    "Trainer",
    "find_device",
    "make_fabric",
    "predict_logits",
    "predict_scores",
]
