"""The auto head as a network: a weighted sum of linear heads on several spaces of features, and perhaps of a
forest and of the names of classes."""

from __future__ import annotations

import math
from typing import Annotated, Any

import msgspec
import torch
from torch import Tensor, nn

from ..scaling import RAW, SCALINGS, make_scaling
from .forest import FOREST, Forest, ForestSettings
from .linear import LDA, MULTINOMIAL, RIDGE, head_scores
from .names import NAME_FORMS, NameScores

_NOT_LINEAR = (FOREST, *NAME_FORMS)
_Count = Annotated[int, msgspec.Meta(ge=1)]
_HEADS = (RIDGE, LDA, MULTINOMIAL, *_NOT_LINEAR)
_ENTRIES = 1 << 26  # outputs of members (members x samples x columns) that are computed at a time


class SpaceSettings(msgspec.Struct, forbid_unknown_fields=True):
    """A space of features.

    Attributes:
        scaling: Scaling of the features (see `make_scaling`).
        features: Number of features in the space, the inputs of its heads.
        width: 0 for the scaled features themselves, else w of the kernel exp(-d^2 / (2 w median d^2)).
        folded: Whether the heads of the space have taken in the projection of its kernel map, so that their
            inputs are the similarities to the landmarks.
    """

    scaling: str
    features: _Count
    width: Annotated[float, msgspec.Meta(ge=0, le=100)] = 0.0
    folded: bool = False

    def __post_init__(self) -> None:
        if self.scaling not in SCALINGS:
            raise ValueError(f"scaling must be one of {', '.join(SCALINGS)}, got {self.scaling!r}")


class MemberSettings(msgspec.Struct, forbid_unknown_fields=True):
    """A linear head on one of the spaces, the forest, or the names of classes.

    Attributes:
        space: Position of its space; of the forest and of names, that of the features as they are.
        head: `ridge`, `lda`, `multinomial`, `forest`, `names`, `names_softmax` or
            `names_lda`.
        penalty: Penalty lambda; None = infinity, or no linear head.
        score: Score by which it was selected, the SP-score or mAP on full labels, in [0, 1].
        weight: Weight in the sum; all weights sum to 1.
    """

    space: Annotated[int, msgspec.Meta(ge=0)]
    head: str
    penalty: Annotated[float, msgspec.Meta(gt=0)] | None
    score: float
    weight: Annotated[float, msgspec.Meta(ge=0, le=1)]

    def __post_init__(self) -> None:
        if self.head not in _HEADS:
            raise ValueError(f"head must be one of {', '.join(_HEADS)}, got {self.head!r}")


class EnsembleSettings(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Structure of an `Ensemble`, as in model.json.

    Attributes:
        spaces: Spaces of features.
        members: Linear heads, and perhaps a forest and names of classes.
        landmarks: Number of samples that kernels compare with.
        start: Scaling in front of the linear head from which training may go on; empty if there is none.
        columns: Number of columns K of the linear heads, the last of which stands for all classes that share
            a solution; 0 = one column per class.
        forest: Sizes of the forest; None if there is none.
    """

    spaces: Annotated[list[SpaceSettings], msgspec.Meta(min_length=1, max_length=100)]
    members: Annotated[list[MemberSettings], msgspec.Meta(min_length=1, max_length=100)]
    landmarks: Annotated[int, msgspec.Meta(ge=0)]
    start: str
    columns: Annotated[int, msgspec.Meta(ge=0)] = 0
    forest: ForestSettings | None = None

    def __post_init__(self) -> None:
        if max(member.space for member in self.members) >= len(self.spaces):
            raise ValueError("a member names a space that does not exist")
        folded = [space for space in self.spaces if space.folded]
        if any(not space.width or space.features != self.landmarks for space in folded):
            raise ValueError("a folded space must have a kernel and as many features as there are landmarks")
        if self.start and self.start not in SCALINGS:
            raise ValueError(f"start must be one of {', '.join(SCALINGS)}, got {self.start!r}")
        others = [member for member in self.members if member.head in _NOT_LINEAR]
        if sum(member.head == FOREST for member in others) != (self.forest is not None):
            raise ValueError(
                "there must be as many forests among the members as sizes of a forest, at most one"
            )
        spaces = [self.spaces[member.space] for member in others]
        if any(space.scaling != RAW or space.width for space in spaces) or (self.columns and others):
            raise ValueError(
                "a forest and names must be on the features as they are, with a column for each class"
            )


class KernelMap(nn.Module):
    """Nystroem features of a Gaussian kernel: phi(x) = k(x, L) U v^-1/2, with landmarks L and eigenvalues v
    and eigenvectors U of k(L, L).

    Args:
        landmarks: Number of landmarks M.
        features: Number of features R.
        folded: Whether linear heads take in the projection.

    Attributes:
        features: Number of features.
        gamma: Factor of the kernel exp(-gamma d^2), float32 scalar.
        projection: U v^-1/2, float32 of shape (M, R) for M landmarks; None where linear heads have taken it
            in, and the map returns k(x, L).

    Source:
        Williams, Seeger. Using the Nystroem Method to Speed Up Kernel Machines. NIPS 2000.
    """

    gamma: Tensor
    projection: Tensor | None

    def __init__(self, landmarks: int, features: int, *, folded: bool = False) -> None:
        super().__init__()
        self.features = features
        self.register_buffer("gamma", torch.ones(()))
        self.register_buffer("projection", None if folded else torch.zeros(landmarks, features))

    def forward(self, squared_distances: Tensor) -> Tensor:
        """Return the features (B, R) of samples with these squared distances (B, M) to the landmarks."""
        kernel: Tensor = (squared_distances * -self.gamma).exp_()
        return kernel if self.projection is None else kernel @ self.projection


def squared_distances(rows: Tensor, landmarks: Tensor) -> Tensor:
    """Squared Euclidean distances (B, M) between rows (B, D) and landmarks (M, D)."""
    lengths = rows.square().sum(1)[:, None] + landmarks.square().sum(1)
    return torch.addmm(lengths, rows, landmarks.T, alpha=-2).clamp_(min=0)


def solved_layer(inputs: int, outputs: int) -> nn.Linear:
    """Linear layer on torch's default device that a solution is going to fill, so no weights are drawn."""
    return nn.Linear(inputs, outputs, device="meta").to_empty(device=torch.empty(0).device)


class Ensemble(nn.Module):
    """Weighted sum of linear heads on several spaces of features, and perhaps of a forest and the names of
    classes, each standardised by class.

    With the outputs z_mc of member m for class c (log-softmax of them for LDA and softmax regression):
    logit_c = offset_c + scale_c sum_m weight_m (z_mc - centre_mc) / spread_mc.

    A member that says nothing about a class has an infinite spread there. Offset and scale make the logits of
    different classes comparable; they change no ranking within a class.
    Of many classes, those without a known positive have the same solution and share one column of all this
    (see `Columns`); their logits are written out last. Nothing in it is trained.

    Args:
        num_features: Number of features D.
        num_classes: Number of classes C.
        settings: Its structure.

    Attributes:
        heads: Linear layer, `Forest` or `NameScores` of each member.
        start, start_scaling: Linear layer and the scaling in front of it, from which training may go on; None
            if there are too many features. It has the columns of the heads.
        of_class: Column of each class, int64 (C,); None where each class has its own column.
        log_sizes: Logarithm of the number of classes of each column, float32 (K,); None likewise.
    """

    weight: Tensor
    centre: Tensor
    spread: Tensor
    offset: Tensor
    scale: Tensor
    of_class: Tensor | None
    log_sizes: Tensor | None

    def __init__(self, num_features: int, num_classes: int, settings: EnsembleSettings) -> None:
        super().__init__()
        self.settings, self.num_classes = settings, num_classes
        shared, columns = bool(settings.columns), settings.columns or num_classes
        used = dict.fromkeys(space.scaling for space in settings.spaces)
        self.scalings = nn.ModuleDict({name: make_scaling(name, num_features) for name in used})
        with_kernel = {space.scaling for space in settings.spaces if space.width}
        self.landmarks = nn.ParameterDict(
            {name: torch.zeros(settings.landmarks, num_features) for name in used if name in with_kernel}
        )
        self.maps = nn.ModuleList(
            KernelMap(settings.landmarks, space.features, folded=space.folded)
            if space.width
            else nn.Identity()
            for space in settings.spaces
        )
        self.heads = nn.ModuleList()
        for member in settings.members:
            if settings.forest and member.head == FOREST:
                self.heads.append(Forest(num_features, num_classes, settings.forest))
            elif member.head in NAME_FORMS:
                self.heads.append(NameScores(num_features, num_classes, member.head))
            else:
                self.heads.append(solved_layer(settings.spaces[member.space].features, columns))
        self.start = solved_layer(num_features, columns) if settings.start else None
        self.start_scaling = make_scaling(settings.start, num_features) if settings.start else None
        self.register_buffer("weight", torch.tensor([member.weight for member in settings.members]))
        for name in ("centre", "spread"):
            self.register_buffer(name, torch.ones(len(settings.members), columns))
        for name in ("offset", "scale"):
            self.register_buffer(name, torch.ones(columns))
        self.register_buffer("of_class", torch.zeros(num_classes, dtype=torch.int64) if shared else None)
        self.register_buffer("log_sizes", torch.zeros(columns) if shared else None)
        self.requires_grad_(False)

    def describe(self) -> list[dict[str, Any]]:
        """Describe each member: its space, head, penalty (None if it is not linear), score and weight."""
        return [
            {
                "space": space_name(space.scaling, space.width),
                "head": member.head,
                "penalty": None if member.head in _NOT_LINEAR else penalty_name(member.penalty or math.inf),
                "score": member.score,
                "weight": member.weight,
            }
            for member in self.settings.members
            for space in [self.settings.spaces[member.space]]
        ]

    @property
    def by_name(self) -> Tensor:
        """Classes that are scored by their names alone, bool (C,); none where columns are shared."""
        others = torch.tensor([member.head not in NAME_FORMS for member in self.settings.members])
        if self.settings.columns or others.all():
            return torch.zeros(self.num_classes, dtype=torch.bool)
        return self.spread.cpu()[others].isinf().all(0)

    @property
    def named(self) -> Tensor:
        """Classes about which names say something, bool (C,)."""
        own = [scores.named.cpu() for scores in self.heads if isinstance(scores, NameScores)]
        return own[0] if own else torch.zeros(self.num_classes, dtype=torch.bool)

    @classmethod
    def of_names(cls, scores: NameScores) -> Ensemble:
        """What the names of the classes say by themselves: `scores` as they are, whatever they were
        standardised by as a member."""
        classes, features = scores.texts.shape
        member, space = MemberSettings(0, scores.form, None, 0.0, 1.0), SpaceSettings(RAW, features)
        alone = cls(features, classes, EnsembleSettings([space], [member], 0, ""))
        alone.heads[0].load_state_dict(scores.state_dict())
        alone.offset.zero_()
        alone.centre.zero_()
        return alone

    def names_alone(self) -> Ensemble | None:
        """What the names of the classes say by themselves; None if they are no member."""
        own = [scores for scores in self.heads if isinstance(scores, NameScores)]
        return Ensemble.of_names(own[0]) if own else None

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        stored = state_dict.get(f"{prefix}of_class")
        if stored is not None and not 0 <= int(stored.min()) <= int(stored.max()) < len(self.offset):
            raise ValueError(f"{prefix}of_class names a column that does not exist")
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def linear_start(self) -> tuple[Tensor, Tensor]:
        """Weight (C, D) and bias (C,) of the linear layer from which training may go on."""
        assert self.start is not None
        if self.of_class is None:
            return self.start.weight, self.start.bias
        return self.start.weight[self.of_class], self.start.bias[self.of_class]

    def member_scores(self, features: Tensor) -> Tensor:
        """Outputs of the members, of shape (members, B, K), for features (B, D)."""
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
                        outputs = self.heads[number](inputs)
                        scores[number] = head_scores(member.head, outputs, self.log_sizes)
        return torch.stack(scores)

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits (..., C) of features (..., D)."""
        flat = features.flatten(0, -2)
        if self.of_class is None or torch.compiler.is_compiling():  # an exported batch has any size
            logits = self._logits(flat)
        else:
            rows = max(1, _ENTRIES // self.centre.numel())
            logits = torch.cat([self._logits(part) for part in torch.split(flat, rows)])
        if self.of_class is not None:
            logits = logits.index_select(1, self.of_class)
        return logits.view(*features.shape[:-1], logits.shape[1])

    def _logits(self, features: Tensor) -> Tensor:
        """Logits (B, K) of so few samples that the outputs of all members fit into memory."""
        scores = self.member_scores(features)
        standardised = (scores - self.centre[:, None]) / self.spread[:, None]
        total = torch.einsum("m,mbc->bc", self.weight, standardised)
        logits: Tensor = self.offset + self.scale * total
        return logits


def space_name(scaling: str, width: float) -> str:
    """Name of a space for people; a width of 0 means the scaled features themselves."""
    if scaling == RAW:
        return scaling
    return f"{scaling}, " + (f"Gaussian kernel, width {width:g}" if width else "linear")


def penalty_name(penalty: float) -> float | str:
    """A penalty as JSON has it, which knows no infinity."""
    return "infinity" if math.isinf(penalty) else penalty
