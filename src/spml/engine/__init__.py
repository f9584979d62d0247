"""Training, checkpoints, prediction."""

from .predict import predict_logits
from .train import Interrupted, Trainer

__all__ = ["Interrupted", "Trainer", "predict_logits"]
