"""The training loop, checkpoints, prediction."""

from .distributed import make_fabric
from .loop import Interrupted, Trainer
from .predict import predict_logits

__all__ = ["Interrupted", "Trainer", "make_fabric", "predict_logits"]
