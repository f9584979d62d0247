"""Losses as pure functions of logits and observed labels, for use in any training loop. Imports torch only.

    from spml.losses import gr_loss

    loss = gr_loss(model(images), positive_class)
    loss.backward()

Each of them is an `nn.Module`, too (`GRLoss(q2=0.5)`), for loops that expect one.

Notation in the docstrings: B samples, C classes, logit z, p = sigmoid(z), l+ = -log p, l- = -log(1 - p).
"""

from .assume_negative import *
from .csl import *
from .entropy import *
from .expected import *
from .focal import *
from .fused import *
from .hill import *
from .large import *
from .las import *
from .modules import *
from .penalty import *
from .pseudo import *
from .pu import *
from .pumlc import *
from .ranking import *
from .robust import *
from .smile import *
from .softmax import *
from .views import *

__all__ = sorted(
    name for name, each in globals().items() if getattr(each, "__module__", "").startswith(__name__)
)
