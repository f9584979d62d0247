"""The trained part on a frozen backbone: scaled features, dropout and head; its initial bias."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional

from ..common.errors import InputError
from ..data.dataset import Inputs
from ..methods.base import Outputs
from .heads import (
    BETA,
    BOOSTED_CAM,
    CORRELATED,
    GAUSSIAN,
    GAUSSIAN_PER_CLASS,
    HEADS,
    LINEAR,
    MLP,
    QUERIES,
    BetaHead,
    BoostedCAM,
    CodeSettings,
    CorrelatedHead,
    GaussianHead,
    GaussianPerClassHead,
    HeadOutputs,
    QueryHead,
    QuerySettings,
    last_layer,
)
from .local import LocalScores, LocalSettings, variants
from .scaling import RAW, STANDARD, make_scaling
from .solved.ensemble import Ensemble, EnsembleSettings

SCORES = LOGITS, LOG_SOFTMAX = "logits", "log_softmax"
ENSEMBLE = "ensemble"
_CHUNK = 256  # rows at a time; ten times faster than chunks that do not fit into the CPU's cache
_WINDOW_SCORES = 1 << 24  # scores of windows (samples x windows x classes) that are computed at a time


class Top(nn.Module):
    """Network that maps features to logits: scaling, dropout and head.

    This is all that is trained on a frozen backbone. The initial weights of the head are drawn from torch's
    global random state (uniform, +- 1 / sqrt(D); of `queries` see `QueryHead`); for its bias see
    `start_bias`. All computation is in float32, also under autocast.

    Args:
        num_features: Number of features D.
        num_classes: Number of classes C.
        head: Kind of head: `linear`; `mlp` with one hidden layer and ReLU; `boosted_cam`, which takes feature
            maps (see `BoostedCAM`); `gaussian` with a random code (see `GaussianHead`);
            `gaussian_per_class` with one of each class (see `GaussianPerClassHead`); `beta`, which also
            predicts a distribution of each label (see `BetaHead`); `correlated`, where the probabilities of
            the other classes correct a logit (see `CorrelatedHead`); `queries`, where a query per class
            attends to the positions of feature maps (see `QueryHead`); `ensemble`, solved instead of trained
            (see `Ensemble`).
        hidden: Width of the hidden layer of `mlp`, of that of each class of `gaussian_per_class`, and of the
            code of `gaussian` and `beta`.
        dropout: Share of features dropped before the head in training; of `queries`, share dropped inside of
            its layers instead.
        scaling: Fixed map of the features (see `make_scaling`), fitted by `fit_scaling`. Feature maps are
            never scaled.
        scores: Output of the head, its `logits` or their `log_softmax` over the classes.
        ensemble: Structure of the head `ensemble`; None for other heads.
        codes: Code of each class of the head `gaussian_per_class`; None = its defaults.
        queries: Sizes of the head `queries`; None = its defaults.
        local: Structure of what combines scores of windows with those of the whole image; None = the whole
            image alone is scored.

    Raises:
        ValueError: There is no such head, scaling or output, or the structure of an ensemble is missing.
        InputError: The sizes of the head `queries` do not go together, or `gaussian_per_class` is too large.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        *,
        head: str = LINEAR,
        hidden: int = 512,
        dropout: float = 0.0,
        scaling: str = STANDARD,
        scores: str = LOGITS,
        ensemble: EnsembleSettings | None = None,
        codes: CodeSettings | None = None,
        queries: QuerySettings | None = None,
        local: LocalSettings | None = None,
    ) -> None:
        super().__init__()
        if scores not in SCORES:
            raise ValueError(f"scores must be one of {', '.join(SCORES)}, got {scores!r}")
        self.scores = scores
        self.num_features, self.num_classes = num_features, num_classes
        if head == ENSEMBLE and ensemble is None:
            raise ValueError("the head ensemble needs its structure")
        sizes = num_features, num_classes
        makers: dict[str, Callable[[], nn.Module]] = {
            LINEAR: lambda: nn.Linear(*sizes),
            MLP: lambda: nn.Sequential(
                nn.Linear(num_features, hidden), nn.ReLU(), nn.Linear(hidden, num_classes)
            ),
            BOOSTED_CAM: lambda: BoostedCAM(*sizes),
            GAUSSIAN: lambda: GaussianHead(*sizes, hidden),
            GAUSSIAN_PER_CLASS: lambda: GaussianPerClassHead(*sizes, hidden, codes or CodeSettings()),
            BETA: lambda: BetaHead(*sizes, hidden),
            CORRELATED: lambda: CorrelatedHead(*sizes),
            QUERIES: lambda: QueryHead(*sizes, queries or QuerySettings(), dropout),
        }
        if ensemble is not None:
            makers[ENSEMBLE] = partial(Ensemble, *sizes, ensemble)
        if head not in makers:
            raise ValueError(f"head must be one of {', '.join(HEADS)}, got {head!r}")
        self.head = makers[head]()
        scaling = RAW if self.takes_maps else scaling
        self.scaling = make_scaling(scaling, num_features)
        self.dropout: nn.Module
        if isinstance(self.head, QueryHead):
            self.dropout = nn.Identity()
        else:  # a feature of a map is dropped at all positions
            self.dropout = nn.Dropout2d(dropout) if self.takes_maps else nn.Dropout(dropout)
        self.local = LocalScores(num_classes, local) if local else None
        self._settings = {"head": head, "hidden": hidden, "dropout": dropout, "scaling": scaling}

    @property
    def takes_maps(self) -> bool:
        """Whether the input is feature maps (B, D, h, w) instead of features (B, D)."""
        return isinstance(self.head, (BoostedCAM, QueryHead))

    @property
    def scale(self) -> Literal["sigmoid", "exp"]:
        """How scores in [0, 1] follow from the output, as `spml.decisions.Scale`: its exponential where it is
        log-probabilities over the classes, otherwise its sigmoid. Combined windows give logits."""
        return "exp" if self.scores == LOG_SOFTMAX and not self.local else "sigmoid"

    def settings(self) -> dict[str, Any]:
        """Return the arguments that create a top like this one."""
        sizes = {"num_features": self.num_features, "num_classes": self.num_classes}
        settings = {**sizes, **self._settings, "scores": self.scores}
        if isinstance(self.head, Ensemble):
            settings["ensemble"] = msgspec.to_builtins(self.head.settings)
        if isinstance(self.head, GaussianPerClassHead):
            settings["codes"] = msgspec.to_builtins(self.head.settings)
        if isinstance(self.head, QueryHead):
            settings["queries"] = msgspec.to_builtins(self.head.settings)
        if self.local:
            settings["local"] = msgspec.to_builtins(self.local.settings)
        return settings

    def fit_scaling(self, inputs: Inputs) -> None:
        """Fit the scaling to the features of the training samples."""
        starts = range(0, len(inputs), _CHUNK)
        self.scaling.fit(
            inputs.fetch(range(start, min(start + _CHUNK, len(inputs))), None) for start in starts
        )

    def forward(self, features: Tensor, windows: Sequence[Tensor] = ()) -> Outputs:
        """Compute the outputs of the head in float32.

        Args:
            features: Features (B, D), or maps (B, D, h, w) for a head that takes maps.
            windows: Features of the windows of each size, each (B, n, D), where `local` combines their scores
                with those of `features`.

        Returns:
            Logits or log-probabilities (B, C), and the input of the head before dropout (B, D); of maps the
            mean over positions; code and embeddings of a head that has them.
        """
        if not self.local:
            return self.whole(features)
        with torch.autocast(features.device.type, enabled=False):
            scores, numbers = self.variants(features, windows)
            chosen = self.local.strongest(scores, numbers)
            return Outputs(self.local(scores), self.scaling(features.float()), windows=chosen)

    def whole(self, features: Tensor) -> Outputs:
        """Compute the outputs of the head of features as in `forward`, without windows."""
        with torch.autocast(features.device.type, enabled=False):
            features = self.scaling(features.float())
            found = self.head(self.dropout(features))
            found = found if isinstance(found, HeadOutputs) else HeadOutputs(found)
            logs = self.scores == LOG_SOFTMAX
            return Outputs(
                functional.log_softmax(found.logits, 1) if logs else found.logits,
                features.mean((2, 3)) if self.takes_maps else features,
                latent=found.latent,
                posterior=found.posterior,
                embeddings=() if found.embeddings is None else (found.embeddings,),
            )

    def variants(self, features: Tensor, windows: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Scores (V, B, C) of images and of their windows, and the best window (B, C) of each size, as
        `LocalScores` takes them.

        Those of a head with logits are the logarithms of their sigmoids.

        Args:
            features: Features (B, D).
            windows: Features of the windows of each size, each (B, n, D).
        """
        best, numbers = [], []
        for of_size in windows:
            whole = torch.compiler.is_compiling()  # an exported batch has any size
            rows = max(1, _WINDOW_SCORES // (self.num_classes * of_size.shape[1]))
            parts = [of_size] if whole else torch.split(of_size, rows)
            found = [self._of_windows(part).max(1) for part in parts]
            best.append(torch.cat([values for values, _ in found]))
            numbers.append(torch.cat([number for _, number in found]))
        return variants(self._log_scores(features), best), numbers

    @property
    def _by_position(self) -> Callable[[Tensor], Tensor]:
        """The head as it is applied to one position of a map."""
        head: Callable[[Tensor], Tensor] = getattr(self.head, "scores_by_position", self.head)
        return head

    def _of_windows(self, features: Tensor) -> Tensor:
        """Scores (..., C) of windows with features (..., D), each by itself."""
        scores = self._log_scores(features.flatten(0, -2))
        return scores.view(*features.shape[:-1], self.num_classes)

    def _log_scores(self, features: Tensor) -> Tensor:
        """Scores (B, C) of features (B, D): of a head that is trained, log-probabilities."""
        scores = self._by_position(self.scaling(features.float()))
        if self.scores == LOG_SOFTMAX:
            scores = functional.log_softmax(scores, 1)
        elif not isinstance(self.head, Ensemble):
            scores = functional.logsigmoid(scores)
        return scores

    def correlate(self, logits: Tensor) -> None:
        """Replace a linear head by a correlated one that keeps its weights.

        Args:
            logits: Logits (N, C) of the linear head, of whose co-occurrence the correlations start; see
                `CorrelatedHead.start_from_co_occurrence`.
        """
        linear = self.head
        assert isinstance(linear, nn.Linear)
        head = CorrelatedHead(self.num_features, self.num_classes)
        head.start_from_co_occurrence(logits)
        head.last = linear
        self.head = head.to(linear.weight.device).train(self.training)
        self._settings["head"] = CORRELATED

    def set_ensemble(self, head: Ensemble) -> None:
        """Replace the head by a solved ensemble, which scales the features itself."""
        device = next(self.parameters()).device
        self.head = head.to(device).train(self.training)
        self.scaling = make_scaling(RAW, self.num_features)
        self._settings |= {"head": ENSEMBLE, "scaling": RAW}

    def linear_start(self) -> Top:
        """The best linear member of an ensemble, from which training may go on; other tops as they are.

        Raises:
            InputError: The ensemble has no linear member, because there are too many features, or names
                alone.
        """
        if not isinstance(self.head, Ensemble):
            return self
        ensemble = self.head
        if ensemble.start is None or ensemble.start_scaling is None:
            raise InputError(
                "the auto head has no linear member to start from, because it has names alone or "
                f"{self.num_features:,} features: name a run with a linear head (model.head=linear)."
            )
        top = Top(self.num_features, self.num_classes, scaling=ensemble.settings.start)
        weight, bias = ensemble.linear_start()
        top.head.load_state_dict({"weight": weight, "bias": bias})
        top.scaling.load_state_dict(ensemble.start_scaling.state_dict())
        return top

    def class_maps(self, maps: Tensor) -> Tensor:
        """Apply the head to each position of feature maps (B, D, h, w) separately.

        Returns:
            Logits, float32 of shape (B, C, h, w), without dropout and random codes.
        """
        with torch.autocast(maps.device.type, enabled=False):
            features = maps.float().permute(0, 2, 3, 1)
            # A position is treated like the pooled features, so the rows of the scaling are positions.
            features = self.scaling(features.flatten(0, -2)).view_as(features)
            scores = self._by_position(features)
            return scores.permute(0, 3, 1, 2).contiguous()


def start_bias(top: Top, start: str, mean_labels: float) -> None:
    """Set the bias of the last layer of the head.

    Args:
        top: Scaling, dropout and head.
        start: Initial bias: `zero`, or `prior` = logit(K / C), so that every class starts with probability K
            / C.
        mean_labels: Mean labels per sample K; used by `prior` only.

    Raises:
        InputError: K does not lie between 0 and C.
    """
    value, classes = 0.0, top.num_classes
    if start == "prior":
        if not 0 < mean_labels < classes:
            raise InputError(
                f"a head bias of logit(K / C) needs mean labels per sample K between 0 and the {classes} "
                f"classes, got {mean_labels:g}: change `mean_labels`, or pass model.head_bias=zero."
            )
        value = math.log(mean_labels / (classes - mean_labels))
    nn.init.constant_(last_layer(top.head).bias, value)
