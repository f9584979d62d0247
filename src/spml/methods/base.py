"""Base class of all methods, and the types it exchanges with the engine.

An objective is one published method: losses, schedule, memory and hooks in one `nn.Module`. The engine calls
`on_fit_start`, `on_features` and `param_groups` once; in each epoch `on_epoch_start`, then for each step
`extra_inputs`, `forward` and `after_step`, and finally `on_epoch_end`. A checkpoint is loaded after
`on_features`, so that the buffers allocated before receive their saved values. No argument of these hooks
contains a true label that the user did not observe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

from torch import Tensor, nn

from ..common.errors import InputError
from ..labels import ObservedLabels
from ..losses._core.domains import check_choice
from ..losses._core.terms import KnownNegatives

ChoiceOfNegatives = Literal["auto", "plain", "own"]

Strength = Literal["weak", "strong"]
"""Strength of the random augmentation that makes a further view of a sample."""


class Outputs(NamedTuple):
    """Outputs of a model for one batch. Outputs that an objective does not need (`Needs`) are left out.

    Attributes:
        logits: Logits, float32 of shape (B, C).
        features: Input of the head, of shape (B, D).
        views: Logits (B, C) of each further view, in the order of `Needs.views`.
        latent: Mean and standard deviation of the code of a head with a random code: both (B, Z), or (B, C,
            Z) where each class has a code.
        posterior: Parameters alpha and beta of the Beta distribution of each label, and a draw from it, each
            (B, C), of a head that predicts distributions.
        class_maps: Score of each class at each position of the image, of shape (B, C, h, w): the head applied
            to every position of the backbone's last feature map. In `extra_inputs` only and without gradient,
            unless `Needs.trained_maps`.
        extra: Logits (B, C) of the inputs that `extra_inputs` returned.
        extra_target: Target that `extra_inputs` returned with these inputs.
        windows: Number of the window of the feature map that speaks most for each class, int64 of shape
            (B, C), where the model scores windows.
        embeddings: Embeddings of the classes, each (B, C, `Needs.embedding`) with rows of length 1: of the
            batch, then of each further view.
    """

    logits: Tensor
    features: Tensor
    views: tuple[Tensor, ...] = ()
    latent: tuple[Tensor, Tensor] | None = None
    posterior: tuple[Tensor, Tensor, Tensor] | None = None
    class_maps: Tensor | None = None
    extra: Tensor | None = None
    extra_target: Tensor | None = None
    windows: Tensor | None = None
    embeddings: tuple[Tensor, ...] = ()

    def map(self, change: Callable[[Tensor], Tensor]) -> Outputs:
        """Apply a function to every tensor."""

        def changed(part: Any) -> Any:
            if isinstance(part, tuple):
                return tuple(change(tensor) for tensor in part)
            return None if part is None else change(part)

        return Outputs(*(changed(part) for part in self))


class Extra(NamedTuple):
    """Inputs of one further forward pass.

    Attributes:
        inputs: Inputs of the same shape as those of the batch, one row for each of its rows.
        target: Values of shape (B, ...) that the objective receives back as `Outputs.extra_target`.
    """

    inputs: Tensor
    target: Tensor | None = None


@dataclass(frozen=True)
class Batch:
    """Labels and positions of the samples in a batch.

    Attributes:
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, int8 of shape (B, C).
        index: Position of each sample in the training set, int64 of shape (B,).
        seed: Seed for everything drawn at random in this step; the same on all processes and after a
            resumption.
        regions: Part of each image that the batch shows, float32 of shape (B, 5): its left, top, right and
            bottom edge as shares of width and height, and 1 if it is mirrored afterwards, else 0. None where
            whole images are shown as they are, or `Needs.regions` is not set.
    """

    target: Tensor
    index: Tensor
    seed: int = 0
    regions: Tensor | None = None


@dataclass(frozen=True)
class Facts:
    """Properties of the training set that an objective may use.

    Attributes:
        observed: Labels as the user gave them, or as hiding (`--data.observe`) left them.
        ids: Name of each sample.
        classes: Class names.
        mean_labels: Mean labels per sample K if the user stated it; never computed from hidden labels.
        inferred_negatives: Whether a batch may contain negatives that are inferred during training, and so
            are not in `observed`.
        width: Number of features of a sample if they do not change during training, as in a table or with a
            frozen backbone; otherwise None.
    """

    observed: ObservedLabels
    ids: Sequence[str]
    classes: tuple[str, ...]
    mean_labels: float | None = None
    inferred_negatives: bool = False
    width: int | None = None

    def stated_mean_labels(self, method: str) -> float:
        """Mean labels per sample K, which must be stated: at least 1 and less than the number of classes.

        Args:
            method: Quoted name of the method, with the setting that requires K if it is not always required;
                used in the message.

        Raises:
            InputError: K is not stated, or outside this range.
        """
        mean_labels, classes = self.mean_labels, len(self.classes)
        if mean_labels is None or not 1 <= mean_labels < classes:
            raise InputError(
                f"method {method} needs the mean number of labels per sample, at least 1 and less than the "
                f"number of classes, {classes}: state it with `mean_labels` (got {mean_labels})."
            )
        return mean_labels


@dataclass(frozen=True)
class Progress:
    """Position in training.

    Attributes:
        epoch: Number of the epoch, counted from 0.
        epochs: Number of epochs in all.
    """

    epoch: int
    epochs: int


@dataclass(frozen=True)
class Needs:
    """Inputs that an objective needs in addition to logits and labels.

    Attributes:
        train_pass: `on_epoch_end` uses the model's predictions for the training set.
        batch_coupled: The loss of a sample depends on the rest of the batch, so the outputs of all processes
            are gathered before `forward`.
        views: Further views of each sample, each augmented at random and independently; every view costs a
            forward pass.
        class_maps: `extra_inputs` uses `Outputs.class_maps`.
        trained_maps: `forward` and `after_step` use them, too, and they have a gradient; with `class_maps`.
        regions: `Batch.regions` is used.
        latent: `forward` uses `Outputs.latent`.
        posterior: `forward` uses `Outputs.posterior`.
        features: The features of the training samples are used if they do not change during training, so
            that `on_features` is called.
        embedding: Elements of the embeddings of the classes that `forward` uses, `Outputs.embeddings`; 0 = it
            does not.
        names: What a model knows of the names of the classes is used, if the user names one, so that
            `on_names` is called.
    """

    train_pass: bool = False
    batch_coupled: bool = False
    views: tuple[Strength, ...] = ()
    class_maps: bool = False
    trained_maps: bool = False
    regions: bool = False
    latent: bool = False
    posterior: bool = False
    features: bool = False
    embedding: int = 0
    names: bool = False


@dataclass(frozen=True)
class Card:
    """Description of a method as plain data.

    Attributes:
        title: Name of the method.
        paper: Authors, title and venue of the paper.
        year: Year of the paper.
        equations: Equations of the paper that are implemented.
        formula: Loss in plain characters, with P = known positives, U = unknown labels, z = logit,
            p = sigmoid(z), l+ = -log p, l- = -log(1 - p).
        state: State that the method keeps in addition to the model's weights, or `none`.
        head_bias: Default initial bias of the head, `zero` or `prior`.
        head: Default kind of head.
        scores: Default output of the model, `logits` or `log_softmax`.
        defaults: Published hyper-parameters per benchmark.
        source: Where `defaults` stand: a table of the paper, or the released code.
        printed: Values that the paper prints where the default is another one, that of the released code.
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
    source: str = ""
    printed: Mapping[str, Any] = field(default_factory=dict)


class Objective(nn.Module):
    """Base class of all methods. Hyper-parameters are the keyword arguments of `__init__`.

    A subclass defines `card` and `forward`. All other hooks do nothing by default.
    """

    card: ClassVar[Card]
    needs: Needs = Needs()
    hp: dict[str, Any]
    """Hyper-parameters that the method passes on to its loss as they are."""
    warmup: int = 0
    """Epochs before the method starts to use labels inferred from its own predictions. If training is not
    longer than this, it never does."""

    @property
    def remembers(self) -> bool:
        """Whether the loss depends on earlier steps or epochs, apart from a schedule.

        True of every subclass that overrides `after_step` or `on_epoch_end`. A subclass overrides this
        property where the answer depends on its hyper-parameters.
        """
        cls = type(self)
        return any(
            getattr(cls, hook) is not getattr(Objective, hook) for hook in ("after_step", "on_epoch_end")
        )

    def param_groups(self) -> list[dict[str, Any]]:
        """Return the method's own parameters as `{"params": [...], "lr_factor": float}`."""
        own = list(self.parameters())
        return [{"params": own, "lr_factor": 1.0}] if own else []

    def on_fit_start(self, facts: Facts) -> None:
        """Check that the data suits the method and allocate buffers.

        Raises:
            InputError: The data or the stated mean labels do not suit the method.
        """

    def on_features(self, features: Tensor) -> None:
        """Receive the features of the training samples. Called if `needs.features` and `Facts.width` is set.

        Args:
            features: Inputs of the head (N, D), float32, on the device of the model.
        """

    def on_names(self, probabilities: Tensor) -> None:
        """Receive what the names of the classes say of the training samples. Called if `needs.names` and the
        user names a model that knows them.

        Args:
            probabilities: Softmax over the classes of the similarity of image and name, at the temperature of
                the model, float32 (N, C), on the CPU; 0 for classes without a name.
        """

    def on_epoch_start(self, progress: Progress) -> None:
        """Update scheduled values, from `progress` alone, so that a resumed run gets the same values."""

    def extra_inputs(self, inputs: Tensor, outputs: Outputs, batch: Batch) -> Extra | None:
        """Return inputs for one further forward pass of this step, or None. Called without gradient.

        Random draws must follow from `batch.seed`. With `needs.batch_coupled` the arguments hold the whole
        batch of all processes.

        Args:
            inputs: Inputs of the batch: uint8 images (B, channels, H, W) or float features (B, D).
            outputs: Outputs of the model for these inputs.
            batch: Labels of these inputs.
        """
        return None

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        """Return named scalar terms whose sum is the loss, each a mean over the samples of the batch.

        Has no side effects. An empty batch has loss zero.
        """
        raise NotImplementedError

    def after_step(self, outputs: Outputs, batch: Batch) -> None:
        """Write to the method's memory after a step. Called without gradient."""

    def on_epoch_end(self, progress: Progress, train_pass: Callable[[], Tensor] | None) -> None:
        """Update the method's state between epochs.

        Args:
            progress: The epoch that has just ended.
            train_pass: Function that computes the logits (N, C) of all training samples in evaluation mode
                and returns them on the CPU; None unless `needs.train_pass`.
        """


class WithOwnNegatives(Objective):
    """Base class of methods whose papers define a negative term of their own for labels that are known.

    They have the hyper-parameter `known_negatives`. Others have no choice: terms for unknown labels that
    express doubt about them (a small weight, smoothing, a soft pseudo-label, entropy) have no meaning for a
    label that is known, and log-sum-exp losses and CSL treat known negatives as published in any case.

    Attributes:
        known_negatives: Loss of a known negative, `plain` or `own`. The choice `auto` is `own` if every label
            of the training set is known, else `plain`.
    """

    def __init__(self, known_negatives: ChoiceOfNegatives) -> None:
        super().__init__()
        check_choice("known_negatives", known_negatives, ("auto", "plain", "own"))
        self.choice = known_negatives
        self.known_negatives: KnownNegatives = "own" if known_negatives == "own" else "plain"

    def on_fit_start(self, facts: Facts) -> None:
        if self.choice == "auto":
            self.known_negatives = "own" if facts.observed.full else "plain"
