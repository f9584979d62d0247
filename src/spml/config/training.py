"""Settings of a training: all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

from .data import DataConfig
from .domains import Amount, Count, Fraction, Positive, Rate
from .model import ModelConfig

AUTO = "auto"
"""The method that solves an ensemble of heads in closed form."""

LBFGS = "lbfgs"
"""The optimiser that solves a head instead of training it."""


@dataclass
class OptimConfig:
    """Settings of the optimiser.

    Attributes:
        name: `adamw`, `adam`, `adamax` or `sgd` (momentum .9). `lbfgs` solves a linear head instead of
            training it, on features of a pretrained, frozen backbone or of a file: to the minimum of the loss
            of the method on the whole training set with an L2 penalty, for 13 penalties, of which the best by
            the validation score is kept. `epochs` says where a schedule ends; the other settings here have no
            effect. For methods without a memory, views or parameters of their own.
        lr: Learning rate; default 1e-4 when a pretrained backbone is fine-tuned, 1e-2 on features whose
            samples have length 1 (`model.scaling` is `sqrtl2`, `unit` or `tfidf`), else 1e-3.
        weight_decay: Weight decay, decoupled for adamw, added to the gradient for the others.
        l1: Adds l1 * sum |w| over the weights of the model (without biases and norms) to the loss.
        l2: Adds l2 * sum w^2 over the same weights. The optimiser sees the gradient of both, so that the
            minimum is that of the penalised loss, unlike with `weight_decay` and adamw, which can be set to
            0.
        head_lr_factor: Learning rate of the head relative to `lr`; default 10 when a pretrained backbone is
            fine-tuned with a new head, else 1.
        warmup_epochs: Number of epochs over which the learning rate rises linearly from zero.
        schedule: `constant`; `cosine` down to zero at the last step; or `one_cycle`, from lr / 25 up to lr in
            the first fifth of the steps, then down to lr / 250,000, both along a cosine.
        clip: Largest norm of the gradient; 0 = no clipping.
        ema: Decay per step of a moving average of the weights, used for validation and prediction; 0 = none.
    """

    name: Literal["adamw", "adam", "adamax", "sgd", "lbfgs"] = "adamw"
    lr: Rate | None = None
    weight_decay: Amount = 1e-4
    l1: Amount = 0.0
    l2: Amount = 0.0
    head_lr_factor: Rate | None = None
    warmup_epochs: Amount = 0.0
    schedule: Literal["constant", "cosine", "one_cycle"] = "constant"
    clip: Amount = 0.0
    ema: Fraction = 0.0


@dataclass
class Config:
    """Settings of one training run.

    Attributes:
        data: Settings of the data.
        model: Settings of the model.
        optim: Settings of the optimiser.
        method: Registered method; `spml methods` lists them. `auto` solves ridge regression and LDA on
            several spaces of features and averages the best by the validation score, without training; it is
            the default on the features of a file or of a frozen backbone. With --model.frozen no, the network
            is then fine-tuned, and kept if it scores clearly higher. Left empty for a head in closed form.
        hp: Hyper-parameters of the method; `spml methods NAME` lists them.
        epochs: Number of passes over the training set.
        batch_size: Samples per step, over all devices.
        seed: Seed of everything random in training.
        select: How the best epoch is chosen: `observed` (SP-score, needs no full labels), `oracle` (mAP on
            fully labelled validation samples); `auto` = `oracle` only if the given validation labels are
            full.
        mean_labels: Mean number of labels per sample K, if known; where it is needed and not stated, it is 2,
            or half the number of classes if there are fewer than 4.
        minutes: Time limit of the training, from its start on; 0 = none. An auto head leaves out parts of
            photos, further spaces of features and the forest; a network that is trained, its last epochs. A
            line says what is left out. What has begun is finished, so a training may take somewhat longer,
            and the result depends on the speed of the machine.
        patience: Stop after this many epochs without a better validation score; 0 = never.
        devices: Number of processes or accelerators to train on, those of all machines together. Under
            torchrun, `spml train` takes as many as were started.
        accelerator: `auto`, `cpu`, `cuda`, `mps`.
        precision: Precision of training and of the features of a frozen backbone: `32-true`, `bf16-mixed`,
            `16-mixed`. Predictions of a finished run are computed in full precision.
        compile: Compile the network that is trained with `torch.compile`. The first steps can take minutes,
            and results differ by rounding. On CPU this needs a C++ compiler.
        checkpoint_steps: Also write a checkpoint every so many steps; 0 = after each epoch only.
        threads: Number of torch threads per process; 0 = as torch decides.
        init_from: Folder of a finished run to start from: its whole model, whose settings are taken over,
            and, for the same method on the same training labels, what the method had inferred. A run with
            a frozen backbone, then one from it with --model.frozen no, is linear initialisation.
        record: Also keep, for the figures of `spml analyse`, the `scores` of the samples in `record_samples`
            before the first and after every epoch; `none` keeps nothing.
        record_samples: Samples that `record` is about: names of splits, such as `val` or `val,test`.
            Those of `val` take no time to compute.
        output: Folder of the run.
    """

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    method: str = ""
    hp: dict[str, Any] = field(default_factory=dict)
    epochs: Positive = 20
    batch_size: Positive = 64
    seed: Annotated[int, Meta(ge=0, lt=2**32, description="from 0 to 2^32 - 1")] = 0
    select: Literal["auto", "observed", "oracle"] = "auto"
    mean_labels: Rate | None = None
    minutes: Amount = 0.0
    patience: Count = 0
    devices: Positive = 1
    accelerator: str = "auto"
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    compile: bool = False
    checkpoint_steps: Count = 0
    threads: Annotated[int, Meta(ge=0, le=1024, description="from 0 to 1024")] = 0
    init_from: str = ""
    record: Literal["none", "scores"] = "none"
    record_samples: str = "val"
    output: str = ""

    @property
    def objective(self) -> str:
        """Name of the method whose loss is minimised; empty where heads are solved in closed form."""
        return "" if self.method == AUTO else self.method
