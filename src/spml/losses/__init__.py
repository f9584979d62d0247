"""Losses as pure functions of logits and observed labels. Needs torch only; take them into any loop.

from spml.losses import gr_loss
loss = gr_loss(model(images), positive_class)
loss.backward()
"""

from .assume_negative import an_loss
from .entropy import em_loss
from .robust import gr_loss

__all__ = ["an_loss", "em_loss", "gr_loss"]
