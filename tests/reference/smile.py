"""Xu et al. 2022: SMILE."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import torch
from scipy.special import digamma, gammaln
from torch.nn.functional import linear

from spml.losses import beta_kl_loss, smile_image_loss, smile_loss
from spml.methods.base import Batch
from spml.methods.label_graph import GraphEnhancement
from spml.models.heads import BetaHead
from tests.goldens import Case
from tests.loops import Labels, Matrix, log_loss_neg, log_loss_pos, sigmoid


def smile(
    logits: Matrix, target: Labels, soft: Matrix, unknown_weight: float, known_positives: str = "soft"
) -> float:
    """Sum: cross-entropy with the soft label on known positives and, weighted, on unknowns."""
    result = 0.0
    for row, labels, shares in zip(logits, target, soft, strict=True):
        for z, label, share in zip(row, labels, shares, strict=True):
            p = sigmoid(z)
            mixed = share * log_loss_pos(p) + (1 - share) * log_loss_neg(p)
            if label == 1:
                result += mixed if known_positives == "soft" else log_loss_pos(p)
            elif label == -1:
                result += log_loss_neg(p)
            else:
                result += unknown_weight * mixed
    return result


def soft_labels(predicted: list[Matrix], target: Labels, prior: float, mu: float, decay: float) -> Matrix:
    """mu D + (1 - mu) d0 after some epochs, each with a matrix of predicted probabilities.

    D is the first prediction, then the moving average of the predictions. d0 is 1 for known positives, and
    the prior otherwise.
    """
    constant = [[1.0 if label == 1 else prior for label in row] for row in target]
    if not predicted:
        return constant
    average = [list(row) for row in predicted[0]]
    for matrix in predicted[1:]:
        for means, row in zip(average, matrix, strict=True):
            for column, p in enumerate(row):
                means[column] = decay * means[column] + (1 - decay) * p
    return [
        [mu * d + (1 - mu) * d0 for d, d0 in zip(row, start, strict=True)]
        for row, start in zip(average, constant, strict=True)
    ]


def graph(features: np.ndarray, neighbours: int = 3) -> np.ndarray:
    """Adjacency matrix (N, N): 1 in row i at the nearest other samples of sample i."""
    adjacency = np.zeros((len(features), len(features)))
    for sample, row in enumerate(features):
        distances = ((features - row) ** 2).sum(1)
        distances[sample] = np.inf
        adjacency[sample, np.argsort(distances, kind="stable")[:neighbours]] = 1
    return adjacency


def enhanced(
    features: np.ndarray, adjacency: np.ndarray, layers: list[tuple[np.ndarray, np.ndarray]]
) -> np.ndarray:
    """D of all samples: two graph convolutions and a linear layer, each with a matrix and a bias."""
    out, into = (np.maximum(adjacency.sum(axis), 1) for axis in (1, 0))
    spread = (into**-0.5)[:, None] * adjacency.T * out**-0.5
    (w1, b1), (w2, b2), (w3, b3) = layers
    hidden = np.maximum(spread @ features @ w1 + b1, 0)
    return 1 / (1 + np.exp(-((spread @ hidden @ w2 + b2) @ w3 + b3)))


def assume_negative(labels: Matrix, target: Labels) -> float:
    """Mean of -log(v + 1e-5) on known positives and -log(1 - v + 1e-5) elsewhere."""
    losses = [
        -math.log((v if label == 1 else 1 - v) + 1e-5)
        for row, known in zip(labels, target, strict=True)
        for v, label in zip(row, known, strict=True)
    ]
    return sum(losses) / len(losses)


def vae(
    d: np.ndarray,
    y: np.ndarray,
    target: Labels,
    x: np.ndarray,
    rebuilt: np.ndarray,
    a: np.ndarray,
    gamma: float,
    delta: float,
) -> float:
    """Loss of the autoencoder of soft labels d and drawn labels y, with the correct divergence."""
    decoded = ((rebuilt - x) ** 2).mean() + assume_negative(y, target) + ((y @ y.T - a) ** 2).mean()
    kl = np.mean([beta_kl(v + 1e-6, 1 - v + 1e-6) for v in d.flatten()])
    return float(assume_negative(d, target) + gamma * decoded + delta * kl)


def image(
    logits: Matrix, target: Labels, d: Matrix, weights: dict[str, float], kl_code: float, kl_labels: float
) -> float:
    """Loss of SMILE for images, of logits and drawn labels d."""
    p = [[sigmoid(z) for z in row] for row in logits]
    agreement = [
        -v * math.log(q + 1e-5) - (1 - v) * math.log(1 - q + 1e-5)
        for row, drawn in zip(p, d, strict=True)
        for q, v in zip(row, drawn, strict=True)
    ]
    return (
        weights["theta"] * sum(agreement) / len(agreement)
        + weights["alpha"] * assume_negative(p, target)
        + weights["beta"] * assume_negative(d, target)
        + weights["kl"] * (kl_code + kl_labels)
    )


def beta_kl(a: float, b: float) -> float:
    """Kullback-Leibler divergence of Beta(a, b) from Beta(1, 1)."""
    return float(
        gammaln(a + b)
        - gammaln(a)
        - gammaln(b)
        + (a - 1) * digamma(a)
        + (b - 1) * digamma(b)
        - (a + b - 2) * digamma(a + b)
    )


def _smile(case: Case) -> object:
    soft = torch.sigmoid(case.tensor("est_logits"))
    weight = 1 / (soft.shape[1] - 1) if case.record["hp"]["bias"] else 1.0
    hp = {"unknown_weight": weight, "known_positives": "one", "eps": 1e-5}
    return lambda logits: smile_loss(logits, case.tensor("obs"), soft, **hp)


def _classifier(case: Case) -> object:
    """The loss of the released training, as a function of a parameter of its classifier."""
    hp, rows = case.record["hp"], case.inputs["idx"]
    features, target = case.tensor("x")[rows], case.tensor("obs")[rows]
    soft = torch.from_numpy(case.outputs["soft"])
    weight = 1 / (soft.shape[1] - 1) if hp["bias"] else hp["rate"]
    names = [f"clf.fc{layer}.{part}" for layer in (1, 2) for part in ("weight", "bias")]

    def loss(parameter: torch.Tensor) -> torch.Tensor:
        values = [parameter if name == case.record["wrt"] else case.tensor(name) for name in names]
        logits = linear(linear(features, *values[:2]).relu(), *values[2:])
        return smile_loss(logits, target, soft, unknown_weight=weight, eps=1e-5)

    return loss


def _beta_kl(case: Case) -> object:
    eps = case.record["hp"]["eps"]
    return lambda logits: beta_kl_loss(
        torch.sigmoid(logits) + eps, torch.sigmoid(-logits) + eps, form="released"
    )


@contextmanager
def drawn(sample: torch.Tensor, eps: torch.Tensor | None = None) -> Iterator[None]:
    """Replace draws of labels and of a code by given values."""

    def labels(concentration: torch.Tensor) -> torch.Tensor:
        assert concentration.shape[:-1] == sample.shape
        return torch.stack([sample, 1 - sample], -1)

    with patch("torch._sample_dirichlet", labels), patch("torch.randn_like", lambda like: eps):
        yield


def released_graph(case: Case, parameter: torch.Tensor) -> tuple[GraphEnhancement, torch.Tensor]:
    """Our network with the weights of a record, one of which is a parameter; and its features."""

    def value(name: str) -> torch.Tensor:
        return parameter if name == case.record["wrt"] else case.tensor(name)

    features, classes = value("x"), case.inputs["obs"].shape[1]
    network = GraphEnhancement(features.shape[1], [f"{column:02}" for column in range(classes)])
    layers = {
        "gcn.conv1": network.conv1, "gcn.conv2": network.conv2, "gcn.fc": network.last,
        "encz.fc1": network.code[0], "encz.fc2": network.code[2],
        "dec.linear_classifier.fc1": network.decoder[0], "dec.linear_classifier.fc2": network.decoder[2],
    }  # fmt: skip
    for name, layer in layers.items():
        weight = value(f"{name}.weight")
        put(layer, weight.T if "conv" in name else weight, value(f"{name}.bias"))
    network.set_features(features)
    return network, features


def put(layer: torch.nn.Module, weight: torch.Tensor, bias: torch.Tensor) -> None:
    """Replace the parameters of a linear layer by tensors that may depend on others."""
    for name, tensor in (("weight", weight), ("bias", bias)):
        delattr(layer, name)
        setattr(layer, name, tensor)


def _encoder(case: Case) -> object:
    def loss(parameter: torch.Tensor) -> torch.Tensor:
        network, features = released_graph(case, parameter)
        logits = network(torch.arange(len(features))).logit()
        np.testing.assert_allclose(logits.detach(), case.outputs["logits"], rtol=1e-9, atol=1e-12)
        return (case.tensor("w_gcn") * logits).sum()

    return loss


def _vae(case: Case) -> object:
    def loss(parameter: torch.Tensor) -> torch.Tensor:
        network, features = released_graph(case, parameter)
        rows = torch.from_numpy(case.inputs["idx"])
        batch = Batch(case.tensor("obs")[rows], rows)
        labels, hp = network(rows), case.record["hp"]
        np.testing.assert_allclose(labels.detach(), case.outputs["d"], rtol=1e-9)
        with drawn(case.tensor("y_sample")[rows.argsort()]):
            return network.loss(labels, features[rows], batch, hp["gamma"], hp["delta"], "released")

    return loss


def _image(case: Case) -> object:
    hp = case.record["hp"]
    names = ("s_logits", "s_d", "s_mus", "s_stds", "s_alphas", "s_betas")
    weights = {"theta": hp["theta"], "alpha": hp["alpha"], "beta": hp["beta"], "kl": hp["rz"]}
    return _image_loss(case, names, weights)


def _warm(case: Case) -> object:
    own = "beta" if case.name.startswith("smile_img_warm_d") else "alpha"
    weights = {"theta": 0.0, "alpha": 0.0, "beta": 0.0, "kl": 0.0} | {own: 1.0}
    return _image_loss(case, ("s_logits", "s_d", "s_mus", "s_stds", "s_alphas", "s_betas"), weights)


def _image_loss(case: Case, names: tuple[str, ...], weights: dict[str, float]) -> object:
    def loss(parameter: torch.Tensor) -> torch.Tensor:
        z, d, mean, std, a, b = (
            parameter if name == case.record["wrt"] else case.tensor(name) for name in names
        )
        return smile_image_loss(z, case.tensor("obs"), d, mean, std, a, b, **weights)

    return loss


def _pooled(case: Case) -> object:
    def loss(parameter: torch.Tensor) -> torch.Tensor:
        def value(name: str) -> torch.Tensor:
            return parameter if name == case.record["wrt"] else case.tensor(name)

        features, target = value("features"), case.tensor("obs")
        head = BetaHead(features.shape[1], target.shape[1], case.inputs["eps_smile"].shape[1])
        layers = {
            "proj.0": head.code[0], "proj.2": head.code[2],
            "decoder_D": head.labels, "linear_classifier": head.last,
        }  # fmt: skip
        for name, layer in layers.items():
            put(layer, value(f"spooled.{name}.weight"), value(f"spooled.{name}.bias"))
        with drawn(case.tensor("s_sample"), case.tensor("eps_smile")):
            logits, code, (*posterior, labels), _ = head(features)
        found = dict(zip(("logits", "mu", "std", "alpha", "beta"), (logits, *code, *posterior), strict=True))
        for name, tensor in found.items():
            np.testing.assert_allclose(tensor.detach(), case.outputs[name], rtol=1e-9, err_msg=name)
        return smile_image_loss(logits, target, labels, *code, *posterior)

    return loss


GOLDENS = [
    (r"smile_wbce_bias(True|False)", _smile),
    (r"smile_beta_kl", _beta_kl),
    (r"smile_tab_clf_.*", _classifier),
    (r"smile_tab_gcn@.*", _encoder),
    (r"smile_tab_vae_.*", _vae),
    (r"smile_img_loss_.*", _image),
    (r"smile_img_warm(_d)?@.*", _warm),
    (r"smile_img_pooled@.*", _pooled),
]
