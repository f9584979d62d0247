"""Training, checkpoints, prediction."""

from .distributed import make_fabric
from .predict import predict_logits
from .train import Interrupted, Trainer

__all__ = ["Interrupted", "Trainer", "make_fabric", "predict_logits"]
