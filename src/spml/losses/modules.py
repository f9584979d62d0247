"""The losses as `torch.nn.Module`, for loops that expect one. Hyper-parameters are attributes.

criterion = GRLoss(q2=0.5)
loss = criterion(model(images), positive_class)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from torch import Tensor, nn

from .assume_negative import an_loss, an_ls_loss, iu_loss, n_ls_loss, wan_loss
from .csl import csl_loss
from .em_apl import em_apl_loss
from .entropy import em_loss, entmin_loss
from .expected import epr_loss, role_loss
from .focal import asl_loss, focal_loss
from .hill import hill_loss, splc_loss
from .large import ll_loss
from .las import cost_sensitive_loss, las_loss, lasd_full_loss, lasd_loss
from .logsum import opml_loss, soft_opml_loss, zlpr_loss
from .mime import mime_loss
from .pairwise import pr_loss
from .pseudo import gpr_loss, vlpl_loss
from .pu import crisp_loss, pu_loss
from .pumlc import pumlc_loss
from .robust import gr_loss
from .show import show_loss
from .smile import smile_image_loss, smile_loss
from .softmax import softmax_loss
from .views import ignore_loss, plc_loss


class LossModule(nn.Module):
    """A loss as a module. Its tensors are arguments of the call, and its hyper-parameters are attributes.

    A hyper-parameter may be set between two calls, for example by a schedule. One that is an `nn.Parameter`
    is learned with the model, where the loss has a derivative with respect to it; another tensor is a buffer.

    Args:
        hyper: Keyword arguments of the function, with the same defaults.

    Attributes:
        function: The loss function, whose documentation holds for the module.

    Raises:
        TypeError: A hyper-parameter is unknown, or one without a default is missing. Values are checked when
            the loss is computed.
    """

    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, **hyper: Any) -> None:
        super().__init__()
        given = inspect.signature(type(self)).bind(**hyper)
        given.apply_defaults()
        for name, value in given.arguments.items():
            if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)
        self._names = tuple(given.arguments)

    def forward(self, logits: Tensor, *tensors: Tensor | None) -> Tensor:
        """Compute the loss.

        Args:
            logits: Logits, float of shape (B, C).
            tensors: The other positional arguments of the function; the first of them is the target.

        Returns:
            What the function returns.
        """
        return self.function(logits, *tensors, **{name: getattr(self, name) for name in self._names})

    def extra_repr(self) -> str:
        """Hyper-parameters that differ from their defaults."""
        default = {name: each.default for name, each in inspect.signature(type(self)).parameters.items()}
        values = {name: getattr(self, name) for name in self._names}
        return ", ".join(
            f"{name}={value!r}"
            for name, value in values.items()
            if isinstance(value, Tensor) or value != default[name]
        )


def _module(name: str, function: Callable[..., Tensor]) -> type[LossModule]:
    """The class of a loss, with the signature of its constructor."""
    parameters = inspect.signature(function).parameters.values()
    hyper = [each for each in parameters if each.kind is each.KEYWORD_ONLY]
    about = f"`{function.__name__}` as a module: its keyword arguments are those of the constructor."
    content = {"function": staticmethod(function), "__doc__": about, "__module__": __name__}
    made = type(name, (LossModule,), content)
    made.__signature__ = inspect.Signature(hyper)  # type: ignore[attr-defined]
    return made


ANLoss = _module("ANLoss", an_loss)
ANLSLoss = _module("ANLSLoss", an_ls_loss)
ASLLoss = _module("ASLLoss", asl_loss)
CostSensitiveLoss = _module("CostSensitiveLoss", cost_sensitive_loss)
CRISPLoss = _module("CRISPLoss", crisp_loss)
CSLLoss = _module("CSLLoss", csl_loss)
EMAPLLoss = _module("EMAPLLoss", em_apl_loss)
EMLoss = _module("EMLoss", em_loss)
EntMinLoss = _module("EntMinLoss", entmin_loss)
EPRLoss = _module("EPRLoss", epr_loss)
FocalLoss = _module("FocalLoss", focal_loss)
GPRLoss = _module("GPRLoss", gpr_loss)
GRLoss = _module("GRLoss", gr_loss)
HillLoss = _module("HillLoss", hill_loss)
IgnoreLoss = _module("IgnoreLoss", ignore_loss)
IULoss = _module("IULoss", iu_loss)
LASDFullLoss = _module("LASDFullLoss", lasd_full_loss)
LASDLoss = _module("LASDLoss", lasd_loss)
LASLoss = _module("LASLoss", las_loss)
LLLoss = _module("LLLoss", ll_loss)
MIMELoss = _module("MIMELoss", mime_loss)
NLSLoss = _module("NLSLoss", n_ls_loss)
OPMLLoss = _module("OPMLLoss", opml_loss)
PLCLoss = _module("PLCLoss", plc_loss)
PRLoss = _module("PRLoss", pr_loss)
PULoss = _module("PULoss", pu_loss)
PUMLCLoss = _module("PUMLCLoss", pumlc_loss)
ROLELoss = _module("ROLELoss", role_loss)
SHOWLoss = _module("SHOWLoss", show_loss)
SMILEImageLoss = _module("SMILEImageLoss", smile_image_loss)
SMILELoss = _module("SMILELoss", smile_loss)
SoftmaxLoss = _module("SoftmaxLoss", softmax_loss)
SoftOPMLLoss = _module("SoftOPMLLoss", soft_opml_loss)
SPLCLoss = _module("SPLCLoss", splc_loss)
VLPLLoss = _module("VLPLLoss", vlpl_loss)
WANLoss = _module("WANLoss", wan_loss)
ZLPRLoss = _module("ZLPRLoss", zlpr_loss)
