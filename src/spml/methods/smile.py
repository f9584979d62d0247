"""SMILE (Xu et al. 2022): soft labels from a graph of samples or from predictions; its form for images."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from ..common.errors import InputError
from ..losses import smile_image_loss, smile_loss
from ..losses._core.domains import check_choice, check_epochs, check_non_negative, check_share
from ..losses.smile import Divergence, KnownPositives
from .base import Batch, Card, Facts, Needs, Objective, Outputs, Progress
from .label_graph import GraphEnhancement, check_graph_size
from .memory import RunningAverage, known_first
from .registry import register

Enhancement: TypeAlias = Literal["auto", "graph", "predictions"]

_PAPER = (
    "Xu et al., One Positive Label is Sufficient: Single-Positive Multi-Label Learning with Label "
    "Enhancement, NeurIPS 2022"
)


_WARM = {"theta": 0.0, "alpha": 1.0, "beta": 1.0, "kl": 0.0}


@register("smile")
class LabelEnhancement(Objective):
    """Labels have soft targets: a mixture of a constant, 1 for known positives and a prior for unknown
    labels, and labels D that are inferred during training.

    Where features do not change (tables, feature files, a frozen backbone), a variational autoencoder on the
    graph of the 3 nearest neighbours of each sample infers D and is trained together with the model.
    Elsewhere D is the running average of the model's own predictions.

    Args:
        enhancement: Source of D: `graph`, `predictions`, or `auto` = the graph where features do not change.
        prior: Initial soft target of an unknown label, in [0, 1].
        mu: Share of D in the soft target, in [0, 1]; 0 = none. None = 0.1 with the graph, whose D is close to
            1/2, and 0.9 with predictions.
        rate: Weight of unknown labels, >= 0.
        bias: Whether the weight of unknown labels is 1 / (C - 1) instead.
        decay: Of `predictions`: weight of the previous value in the average of a sample's predictions over
            epochs, in [0, 1]; 0 = the last prediction alone.
        known_positives: Target of known positives: `soft`, or always `one`.
        gamma: Of `graph`: weight of decoded features, labels and graph, >= 0.
        delta: Of `graph`: weight of the divergence of D, >= 0. Less than 1 lets D leave the middle.
        kl: Of `graph`: the divergence, `correct` or as in the released code (`released`).
    """

    card = Card(
        title="SMILE: label enhancement",
        paper=_PAPER,
        year=2022,
        equations="the losses of the released training, with the correct divergence",
        formula="L = mean over B C of [d l+ + (1 - d) l- on P, rate (d l+ + (1 - d) l-) on U] + V\n"
        "d = mu D + (1 - mu) d0 without gradient, d0 = 1 on P, prior on U\ngraph: D = sigmoid of two graph "
        "convolutions of the features x,\nV = AN(D) + gamma (MSE(x', x) + AN(y) + MSE(y y^T, A)) + delta KL, "
        "y ~ Beta(D, 1 - D),\nKL of Beta(D, 1 - D) from Beta(1, 1), x' = decoded from D and a code of x and "
        "D,\nA = graph of the batch, AN(v) = mean over B C of [-log v on P, -log(1 - v) on U]\npredictions: "
        "D = decay D + (1 - decay) p in each step, d0 before the first; V = 0",
        state="graph: its networks (5 Q C + Q^2 parameters for Q features) and N x Q features; predictions: "
        "average prediction (float, N x C)",
        defaults={
            "cal500": {"prior": 0.01, "mu": 0.01, "rate": 0.1},
            "image": {"prior": 0.1, "mu": 0.9, "rate": 0.7},
            "scene": {"prior": 0.075, "mu": 0.3, "rate": 0.5},
            "yeast": {"prior": 0.05, "mu": 0.5, "rate": 0.1},
            "corel5k": {"prior": 0.025, "mu": 0.1, "rate": 0.1},
            "rcv1subset1": {"prior": 0.01, "mu": 0.01, "rate": 0.1},
            "corel16k001": {"prior": 0.001, "mu": 0.01, "bias": True},
            "delicious": {"prior": 0.01, "mu": 0.01, "bias": True},
            "iaprtc12": {"prior": 0.001, "mu": 0.01, "bias": True},
            "espgame": {"prior": 0.025, "mu": 0.01, "bias": True},
            "mirflickr": {"prior": 0.01, "mu": 0.01, "rate": 0.1},
            "tmc2007": {"prior": 0.025, "mu": 0.1, "rate": 0.3},
        },
        source="the readme of the released code",
    )

    def __init__(
        self,
        *,
        enhancement: Enhancement = "auto",
        prior: float = 0.1,
        mu: float | None = None,
        rate: float = 0.3,
        bias: bool = False,
        decay: float = 0.5,
        known_positives: KnownPositives = "soft",
        gamma: float = 1e-3,
        delta: float = 1.0,
        kl: Divergence = "correct",
    ) -> None:
        super().__init__()
        check_choice("enhancement", enhancement, ("auto", "graph", "predictions"))
        check_share(prior=prior, mu=mu or 0.0, decay=decay)
        check_non_negative(rate=rate, gamma=gamma, delta=delta)
        check_choice("known_positives", known_positives, ("soft", "one"))
        check_choice("kl", kl, ("correct", "released"))
        self.enhancement, self.known_positives, self.kl = enhancement, known_positives, kl
        self.prior, self.mu, self.rate, self.bias, self.decay = prior, mu, rate, bias, decay
        self.gamma, self.delta = gamma, delta
        graph = enhancement != "predictions"
        self.needs = Needs(batch_coupled=graph, features=graph)
        self.graph: GraphEnhancement | None = None
        self.averages: RunningAverage | None = None

    def on_fit_start(self, facts: Facts) -> None:
        if self.enhancement == "graph" and facts.width is None:
            raise InputError(
                "method 'smile' with enhancement = graph compares the features of all samples, which must "
                "not change during training, but the backbone is trained: pass model.frozen=yes or "
                "hp.enhancement='predictions'."
            )
        if self.enhancement == "predictions" or facts.width is None:
            self.averages = RunningAverage(facts.observed, self.decay)
        else:
            check_graph_size(len(facts.ids), facts.width)
            self.graph = GraphEnhancement(facts.width, facts.classes)

    def on_features(self, features: Tensor) -> None:
        if self.graph is not None:
            self.graph.set_features(features)

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        logits, target = outputs.logits, batch.target
        known = known_first(target, torch.zeros_like(logits, dtype=torch.int8)) == 1
        terms = {}
        if self.graph is not None:
            with torch.autocast(logits.device.type, enabled=False):
                enhanced = self.graph(batch.index)
                terms["vae"] = self.graph.loss(
                    enhanced, outputs.features, batch, self.gamma, self.delta, self.kl
                )
            inferred = enhanced.detach().nan_to_num(0.5)  # where training diverges, its loss says so
            constant = torch.full_like(inferred, self.prior).masked_fill(known, 1.0)
        else:
            assert self.averages is not None, "on_fit_start"
            average = self.averages.average[batch.index]
            constant = torch.full_like(average, self.prior).masked_fill(known, 1.0)
            inferred = self.averages.rows(batch.index, constant)
        mu = (0.9 if self.graph is None else 0.1) if self.mu is None else self.mu
        soft = mu * inferred + (1 - mu) * constant
        weight = 1 / max(soft.shape[1] - 1, 1) if self.bias else self.rate
        soft = soft.clamp(max=1)  # rounding may exceed it
        how = self.known_positives
        return {
            "smile": smile_loss(logits, target, soft, unknown_weight=weight, known_positives=how),
            **terms,
        }

    def after_step(self, outputs: Outputs, batch: Batch) -> None:
        if self.averages is not None:
            self.averages.update(outputs, batch)


@register("smile_image")
class ImageLabelEnhancement(Objective):
    """A head predicts a distribution of every label; predictions and labels drawn from it shall agree, and
    neither may leave what is observed.

    Args:
        theta: Weight of the agreement of predictions and drawn labels, >= 0.
        alpha: Weight of the assume-negative loss of the predictions, >= 0.
        beta: Weight of the assume-negative loss of the drawn labels, >= 0.
        kl: Weight of the divergences of the code and of the distributions of labels, >= 0.
        warmup: Number of epochs with the two assume-negative losses alone, >= 0.
    """

    card = Card(
        title="SMILE for images (weights not published)",
        paper=_PAPER,
        year=2022,
        equations="the loss for images in the code released with MIME, which never calls it",
        formula="L = theta M + alpha AN(p) + beta AN(d) + kl KL(code) + kl KL(labels), d ~ Beta(a, b)\n"
        "M = mean over B C of [-d log p - (1 - d) log(1 - p)]\nAN(v) = mean over B C of [-log v on P, -log(1 "
        "- v) on U]\nKL from the standard normal distribution and from Beta(1, 1)\nin the first warmup "
        "epochs L = AN(p) + AN(d)",
        head="beta",
    )
    needs = Needs(latent=True, posterior=True)

    def __init__(
        self,
        *,
        theta: float = 1.0,
        alpha: float = 1.0,
        beta: float = 1.0,
        kl: float = 1e-5,
        warmup: int = 0,
    ) -> None:
        super().__init__()
        check_non_negative(theta=theta, alpha=alpha, beta=beta, kl=kl)
        check_epochs(warmup=warmup)
        self.hp = {"theta": theta, "alpha": alpha, "beta": beta, "kl": kl}
        self.warmup, self.warm = warmup, warmup > 0

    def on_epoch_start(self, progress: Progress) -> None:
        self.warm = progress.epoch < self.warmup

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        assert outputs.latent is not None, "needs.latent"
        assert outputs.posterior is not None, "needs.posterior"
        a, b, drawn = outputs.posterior
        hp = _WARM if self.warm else self.hp
        loss = smile_image_loss(outputs.logits, batch.target, drawn, *outputs.latent, a, b, **hp)
        return {"smile": loss}
