"""An objective is one published method: losses + schedule + memory + hooks, in one `nn.Module`.

The engine calls, in this order: `on_fit_start`, `param_groups`, and then, for each epoch, `on_epoch_start`,
for each step `extra_inputs`, `forward` and `after_step`, and at the end `on_epoch_end`. A checkpoint is
loaded after `on_fit_start`, so that buffers which it allocates receive their saved values. Nothing that an
objective is given holds a true label that the user did not observe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

from torch import Tensor, nn

from ..labels import ObservedLabels

Strength = Literal["weak", "strong"]
"""How much a further view of a sample differs from it."""


class Outputs(NamedTuple):
    """What a model gives for a batch. What an objective does not need (`Needs`) is left out.

    Attributes:
        logits: (B, C), float32.
        features: (B, D), what the head was given.
        views: logits (B, C) of each further view, in the order of `Needs.views`.
        latent: mean and standard deviation, both (B, Z), of the code of a head with a random code.
        class_maps: (B, C, h, w), where in the image each class is seen: the head at every place of the
            backbone's last feature map. In `extra_inputs` only; without gradient.
        extra: logits (B, C) of the inputs that `extra_inputs` made.
        extra_target: what `extra_inputs` gave with them.
    """

    logits: Tensor
    features: Tensor
    views: tuple[Tensor, ...] = ()
    latent: tuple[Tensor, Tensor] | None = None
    class_maps: Tensor | None = None
    extra: Tensor | None = None
    extra_target: Tensor | None = None

    def map(self, change: Callable[[Tensor], Tensor]) -> Outputs:
        """The same outputs with every tensor changed."""

        def changed(part: Any) -> Any:
            if isinstance(part, tuple):
                return tuple(change(tensor) for tensor in part)
            return None if part is None else change(part)

        return Outputs(*(changed(part) for part in self))


class Extra(NamedTuple):
    """Inputs for one further forward pass.

    Attributes:
        inputs: like the inputs of the batch, one row for each of its rows.
        target: what else the objective wants back in `Outputs.extra_target`, (B, ...).
    """

    inputs: Tensor
    target: Tensor | None = None


@dataclass(frozen=True)
class Batch:
    """What an objective knows of a batch.

    Attributes:
        target: int64 (B,) class indices, or int8 (B, C) in {-1, 0, +1}.
        index: int64 (B,), the position of each sample in the training set.
        seed: for what is drawn at random in this step; the same on all processes and after a resumption.
    """

    target: Tensor
    index: Tensor
    seed: int = 0


@dataclass(frozen=True)
class Facts:
    """What an objective knows of the training set.

    Attributes:
        observed: labels as the user gave them (or as `observe` left them).
        ids: one name per sample.
        classes: class names.
        mean_labels: mean labels per sample K, if the user stated it; never computed from hidden labels.
    """

    observed: ObservedLabels
    ids: tuple[str, ...]
    classes: tuple[str, ...]
    mean_labels: float | None = None


@dataclass(frozen=True)
class Progress:
    """Where training stands: `epoch` of `epochs`, counted from 0."""

    epoch: int
    epochs: int


@dataclass(frozen=True)
class Needs:
    """What an objective needs beyond a batch.

    Attributes:
        train_pass: `on_epoch_end` uses the model's predictions for the training set.
        batch_coupled: a sample's loss depends on the rest of the batch, so that the outputs of all processes
            are gathered before `forward`.
        views: further views of each sample, augmented at random and each independently; every one costs a
            forward pass.
        class_maps: `extra_inputs` uses `Outputs.class_maps`.
        latent: `forward` uses `Outputs.latent`.
    """

    train_pass: bool = False
    batch_coupled: bool = False
    views: tuple[Strength, ...] = ()
    class_maps: bool = False
    latent: bool = False


@dataclass(frozen=True)
class Card:
    """What a reader wants to know of a method. Plain data.

    Attributes:
        title: name of the method.
        paper: authors, title, venue.
        year: of the paper.
        equations: which equations of the paper are implemented.
        formula: the loss in plain characters: P = known positives, U = unknown labels, z = logit,
            p = sigmoid(z), l+ = -log p, l- = -log(1 - p).
        state: what it keeps besides the model's weights; `none` if nothing.
        head_bias: bias that the head starts with unless the user chooses, `zero` or `prior`.
        head: kind of head unless the user chooses.
        scores: what a model answers unless the user chooses, `logits` or `log_softmax`.
        defaults: published hyper-parameters per benchmark.
        deviations: where paper and released code differ, and which of the two is the default.
    """

    title: str
    paper: str
    year: int
    equations: str
    formula: str = ""
    state: str = "none"
    head_bias: str = "zero"
    head: str = "linear"
    scores: str = "logits"
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    deviations: tuple[str, ...] = ()


class Objective(nn.Module):
    """Base class of all methods. Hyper-parameters are the keyword arguments of `__init__`.

    A subclass defines `card` and `forward`; everything else has a default that does nothing.
    """

    card: ClassVar[Card]
    needs: Needs = Needs()
    warmup: int = 0
    """Epochs without what the method infers from its own predictions; if there are no more, it never does."""

    @property
    def remembers(self) -> bool:
        """Whether a loss depends on earlier steps or epochs, apart from a schedule.

        True of every subclass that writes to a memory in `after_step` or `on_epoch_end`, unless it says
        otherwise for its hyper-parameters.
        """
        cls = type(self)
        return any(
            getattr(cls, hook) is not getattr(Objective, hook) for hook in ("after_step", "on_epoch_end")
        )

    def param_groups(self) -> list[dict[str, Any]]:
        """Parameters of the method's own, as `{"params": [...], "lr_factor": float}`."""
        own = list(self.parameters())
        return [{"params": own, "lr_factor": 1.0}] if own else []

    def on_fit_start(self, facts: Facts) -> None:
        """Check that the data suits the method, allocate buffers.

        Raises:
            InputError: the data or what the user stated does not suit; the message says what to do.
        """

    def on_epoch_start(self, progress: Progress) -> None:
        """Set what is scheduled. A function of `progress` alone, so that a resumed run has the same."""

    def extra_inputs(self, inputs: Tensor, outputs: Outputs, batch: Batch) -> Extra | None:
        """Inputs for one further forward pass of this step, if any; called without gradient.

        What is random must follow from `batch.seed`. With `needs.batch_coupled` it is given the whole batch
        of all processes.

        Args:
            inputs: of the batch: uint8 images (B, channels, H, W) or float features (B, D).
            outputs: of these inputs.
            batch: their labels.
        """
        return None

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        """Named scalar terms whose sum is the loss, each a mean over the samples of the batch.

        Has no side effects. An empty batch gives zero.
        """
        raise NotImplementedError

    def after_step(self, outputs: Outputs, batch: Batch) -> None:
        """Write to the method's memory after a step; called without gradient."""

    def on_epoch_end(self, progress: Progress, train_pass: Callable[[], Tensor] | None) -> None:
        """Update what changes between epochs.

        Args:
            progress: the epoch that has just ended.
            train_pass: gives the logits (N, C) of all training samples in evaluation mode, on the CPU, when
                called; None unless `needs.train_pass`.
        """
