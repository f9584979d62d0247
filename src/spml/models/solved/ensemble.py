"""The auto head as a network: a weighted sum of linear heads on several spaces of features."""

from __future__ import annotations

import math
from typing import Annotated, Any

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional

from ..scaling import SCALINGS, make_scaling
from .linear import LDA, RIDGE

_Count = Annotated[int, msgspec.Meta(ge=1)]


class SpaceSettings(msgspec.Struct, forbid_unknown_fields=True):
    """A space of features.

    Attributes:
        scaling: Scaling of the features (see `make_scaling`).
        features: Number of features in the space.
        width: 0 for the scaled features themselves, else w of the kernel exp(-d^2 / (2 w median d^2)).
    """

    scaling: str
    features: _Count
    width: Annotated[float, msgspec.Meta(ge=0, le=100)] = 0.0

    def __post_init__(self) -> None:
        if self.scaling not in SCALINGS:
            raise ValueError(f"scaling must be one of {', '.join(SCALINGS)}, got {self.scaling!r}")


class MemberSettings(msgspec.Struct, forbid_unknown_fields=True):
    """A linear head on one of the spaces.

    Attributes:
        space: Position of its space.
        head: `ridge` or `lda`.
        penalty: Penalty lambda; None = infinity.
        score: Score by which it was selected, the SP-score or mAP on full labels, in [0, 1].
        weight: Weight in the sum; all weights sum to 1.
    """

    space: Annotated[int, msgspec.Meta(ge=0)]
    head: str
    penalty: Annotated[float, msgspec.Meta(gt=0)] | None
    score: float
    weight: Annotated[float, msgspec.Meta(ge=0, le=1)]

    def __post_init__(self) -> None:
        if self.head not in (RIDGE, LDA):
            raise ValueError(f"head must be {RIDGE} or {LDA}, got {self.head!r}")


class EnsembleSettings(msgspec.Struct, forbid_unknown_fields=True):
    """Structure of an `Ensemble`, as in model.json.

    Attributes:
        spaces: Spaces of features.
        members: Linear heads.
        landmarks: Number of samples that kernels compare with.
        start: Scaling in front of the linear head from which training may go on; empty if there is none.
    """

    spaces: Annotated[list[SpaceSettings], msgspec.Meta(min_length=1, max_length=100)]
    members: Annotated[list[MemberSettings], msgspec.Meta(min_length=1, max_length=100)]
    landmarks: Annotated[int, msgspec.Meta(ge=0)]
    start: str

    def __post_init__(self) -> None:
        if max(member.space for member in self.members) >= len(self.spaces):
            raise ValueError("a member names a space that does not exist")
        if self.start and self.start not in SCALINGS:
            raise ValueError(f"start must be one of {', '.join(SCALINGS)}, got {self.start!r}")


class KernelMap(nn.Module):
    """Nystroem features of a Gaussian kernel: phi(x) = k(x, L) U v^-1/2, with landmarks L and eigenvalues v
    and eigenvectors U of k(L, L).

    Attributes:
        gamma: Factor of the kernel exp(-gamma d^2), float32 scalar.
        projection: U v^-1/2, float32 of shape (M, R) for M landmarks.

    Source:
        Williams, Seeger. Using the Nystroem Method to Speed Up Kernel Machines. NIPS 2000.
    """

    gamma: Tensor
    projection: Tensor

    def __init__(self, landmarks: int, features: int) -> None:
        super().__init__()
        self.register_buffer("gamma", torch.ones(()))
        self.register_buffer("projection", torch.zeros(landmarks, features))

    def forward(self, squared_distances: Tensor) -> Tensor:
        """Return the features (B, R) of samples with these squared distances (B, M) to the landmarks."""
        kernel: Tensor = (squared_distances * -self.gamma).exp_()
        return kernel @ self.projection


def squared_distances(rows: Tensor, landmarks: Tensor) -> Tensor:
    """Squared Euclidean distances (B, M) between rows (B, D) and landmarks (M, D)."""
    lengths = rows.square().sum(1)[:, None] + landmarks.square().sum(1)
    return torch.addmm(lengths, rows, landmarks.T, alpha=-2).clamp_(min=0)


class Ensemble(nn.Module):
    """Weighted sum of linear heads, each standardised by class, on several spaces of features.

    With the outputs z_mc of member m for class c (log-softmax of them for LDA):
    logit_c = offset_c + scale_c sum_m weight_m (z_mc - centre_mc) / spread_mc.

    Offset and scale make the logits of different classes comparable; they change no ranking within a class.
    Nothing in it is trained.

    Args:
        num_features: Number of features D.
        num_classes: Number of classes C.
        settings: Its structure.

    Attributes:
        heads: Linear layer of each member.
        start, start_scaling: Linear layer and the scaling in front of it, from which training may go on; None
            if there are too many features.
    """

    weight: Tensor
    centre: Tensor
    spread: Tensor
    offset: Tensor
    scale: Tensor

    def __init__(self, num_features: int, num_classes: int, settings: EnsembleSettings) -> None:
        super().__init__()
        self.settings = settings
        used = dict.fromkeys(space.scaling for space in settings.spaces)
        self.scalings = nn.ModuleDict({name: make_scaling(name, num_features) for name in used})
        with_kernel = {space.scaling for space in settings.spaces if space.width}
        self.landmarks = nn.ParameterDict(
            {name: torch.zeros(settings.landmarks, num_features) for name in used if name in with_kernel}
        )
        self.maps = nn.ModuleList(
            KernelMap(settings.landmarks, space.features) if space.width else nn.Identity()
            for space in settings.spaces
        )
        self.heads = nn.ModuleList(
            nn.Linear(settings.spaces[member.space].features, num_classes) for member in settings.members
        )
        self.start = nn.Linear(num_features, num_classes) if settings.start else None
        self.start_scaling = make_scaling(settings.start, num_features) if settings.start else None
        self.register_buffer("weight", torch.tensor([member.weight for member in settings.members]))
        for name in ("centre", "spread"):
            self.register_buffer(name, torch.ones(len(settings.members), num_classes))
        for name in ("offset", "scale"):
            self.register_buffer(name, torch.ones(num_classes))
        self.requires_grad_(False)

    def describe(self) -> list[dict[str, Any]]:
        """Describe each member: its space, head, penalty, score and weight."""
        return [
            {
                "space": space_name(*self._space(member)),
                "head": member.head,
                "penalty": penalty_name(member.penalty or math.inf),
                "score": member.score,
                "weight": member.weight,
            }
            for member in self.settings.members
        ]

    def _space(self, member: MemberSettings) -> tuple[str, float]:
        space = self.settings.spaces[member.space]
        return space.scaling, space.width

    def member_scores(self, features: Tensor) -> Tensor:
        """Outputs of the members, of shape (members, B, C), for features (B, D)."""
        scores: list[Tensor] = [features] * len(self.settings.members)
        for name, scaling in self.scalings.items():
            scaled = scaling(features)
            distances = None
            if name in self.landmarks:
                distances = squared_distances(scaled, self.landmarks[name])
            for position, space in enumerate(self.settings.spaces):
                if space.scaling != name:
                    continue
                inputs = self.maps[position](distances if space.width else scaled)
                for number, member in enumerate(self.settings.members):
                    if member.space == position:
                        scores[number] = head_scores(member.head, self.heads[number](inputs))
        return torch.stack(scores)

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits (..., C) of features (..., D)."""
        scores = self.member_scores(features.flatten(0, -2))
        standardised = (scores - self.centre[:, None]) / self.spread[:, None]
        total = torch.einsum("m,mbc->bc", self.weight, standardised)
        logits: Tensor = self.offset + self.scale * total
        return logits.view(*features.shape[:-1], logits.shape[1])


def space_name(scaling: str, width: float) -> str:
    """Name of a space for people; a width of 0 means the scaled features themselves."""
    return f"{scaling}, " + (f"Gaussian kernel, width {width:g}" if width else "linear")


def penalty_name(penalty: float) -> float | str:
    """A penalty as JSON has it, which knows no infinity."""
    return "infinity" if math.isinf(penalty) else penalty


def head_scores(head: str, outputs: Tensor) -> Tensor:
    """What a head predicts from the outputs (B, C) of its linear layer: LDA gives log-probabilities."""
    return functional.log_softmax(outputs, 1) if head == LDA else outputs
