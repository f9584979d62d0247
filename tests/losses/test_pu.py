"""uPU, nnPU and CRISP: equal to slow references."""

from __future__ import annotations

import itertools
import json
import math
from functools import partial

import numpy as np
import pytest
import torch

from spml.losses import crisp_loss, crisp_priors, negative_risk, pu_loss
from tests.reference.crisp import crisp, estimated_prior
from tests.reference.pu import pu, risks

TARGET = torch.tensor(
    [[1, 0, -1, 0, 1, 0], [0, 0, 0, 0, 0, 0], [-1, -1, 1, 0, 1, 0], [-1, 0, 0, 0, 1, -1]], dtype=torch.int8
)
INDEX = torch.tensor([4, 0, 2, 2])
PRIOR = [0.4, 0.2, 0.5, 0.1, 0.8, 0.3]
OBSERVED = [0.25, 0.1, 0.2, 0.05, 0.3, 0.0]
RUNNING = [0.2, -0.3, 0.1, 0.0, -0.2, 0.4]
Z = 3 * torch.randn(4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def tensor(values: list[float] | None) -> torch.Tensor | None:
    return None if values is None else torch.tensor(values, dtype=torch.float64)


def matrix(target: torch.Tensor) -> list[list[int]]:
    if target.ndim == 2:
        return target.tolist()
    return torch.eye(6, dtype=torch.int8)[target].tolist()


def numerical(function, step: float = 1e-6) -> torch.Tensor:
    """Derivative of a function of lists with respect to `Z`."""
    gradient = torch.zeros_like(Z)
    for place in np.ndindex(*Z.shape):
        sides = []
        for sign in (1, -1):
            z = Z.clone()
            z[place] += sign * step
            sides.append(function(z.tolist()))
        gradient[place] = (sides[0] - sides[1]) / (2 * step)
    return gradient


def value_and_gradient(loss) -> tuple[float, torch.Tensor]:
    z = Z.clone().requires_grad_()
    value = loss(z)
    (gradient,) = torch.autograd.grad(value, z)
    return value.item(), gradient


SETTINGS = [
    {"correction": "none"},
    {"correction": "none", "surrogate": "sigmoid", "unlabelled": "rest"},
    {},
    {"surrogate": "sigmoid", "beta": 0.1, "gamma": 0.5},
    {"unlabelled": "rest", "gamma": 0.0},
    {"observed": OBSERVED},
    {"observed": OBSERVED, "unlabelled": "rest", "running": RUNNING, "momentum": 0.3},
    {"running": RUNNING, "momentum": 0.1, "beta": 0.05, "gamma": 0.7},
]


@pytest.mark.parametrize("target", [TARGET, INDEX], ids=["matrix", "index"])
@pytest.mark.parametrize("settings", SETTINGS)
def test_value_and_gradient_are_those_of_the_reference(settings, target):
    ours = {name: tensor(value) if isinstance(value, list) else value for name, value in settings.items()}
    value, gradient = value_and_gradient(lambda z: pu_loss(z, target, prior=tensor(PRIOR), **ours))
    reference = {**settings, "gamma": None}
    assert value == pytest.approx(pu(Z.tolist(), matrix(target), PRIOR, **reference), rel=1e-12)
    surrogate = {"gamma": 1.0, **settings, "at": Z.tolist()}
    expected = numerical(lambda z: pu(z, matrix(target), PRIOR, **surrogate))
    torch.testing.assert_close(gradient, expected, rtol=1e-6, atol=1e-9)


def test_some_classes_of_these_settings_are_corrected_and_some_are_not():
    for settings in ({}, {"observed": OBSERVED}):
        ours = {name: tensor(value) for name, value in settings.items()}
        estimate = negative_risk(Z, TARGET, prior=tensor(PRIOR), **ours)
        assert 0 < (estimate < 0).sum() < 6
        for c in range(6):
            observed = OBSERVED[c] if settings else None
            expected = risks(Z[:, c].tolist(), TARGET[:, c].tolist(), PRIOR[c], "logistic", "all", observed)
            assert estimate[c].item() == pytest.approx(expected[1], rel=1e-12)


def test_the_gradient_changes_its_sign_where_the_risk_on_negatives_is_minus_beta():
    z = torch.tensor([[2.0], [-1.0]], dtype=torch.float64)
    target = torch.tensor([[1], [0]])
    hp = {"prior": torch.tensor([0.9], dtype=torch.float64)}
    lowest = -negative_risk(z, target, **hp).item()
    assert lowest > 0
    gradients = []
    for beta in (lowest, math.nextafter(lowest, 0)):
        z.requires_grad_().grad = None
        pu_loss(z, target, beta=beta, **hp).backward()
        gradients.append(z.grad.clone())
    # The unlabelled sample has a gradient through R- alone.
    assert gradients[0][1] == -gradients[1][1] > 0


def simulated(rows: int, prior: float, distance: float, shown: float, seed: int = 0):
    """Scores of positives and negatives with unit variance, the labels, and which positives are known."""
    generator = torch.Generator().manual_seed(seed)
    true = torch.rand(rows, 1, generator=generator, dtype=torch.float64) < prior
    scores = torch.randn(rows, 1, generator=generator, dtype=torch.float64) + distance * true - distance / 2
    known = true & (torch.rand(rows, 1, generator=generator) < shown)
    return scores, true, known.to(torch.int8)


# -- CRISP -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [TARGET, INDEX], ids=["matrix", "index"])
@pytest.mark.parametrize("observed", [None, OBSERVED], ids=["batch", "expected"])
def test_crisp_is_its_reference(observed, target):
    value, gradient = value_and_gradient(
        lambda z: crisp_loss(z, target, prior=tensor(PRIOR), observed=tensor(observed))
    )
    reference = partial(crisp, target=matrix(target), prior=PRIOR, observed=observed)
    assert value == pytest.approx(reference(Z.tolist()), rel=1e-12)
    torch.testing.assert_close(gradient, numerical(reference), rtol=1e-6, atol=1e-9)


def test_a_running_mean_decides_the_sign_in_crisp():
    mean = torch.sigmoid(Z).mean(0)
    running = torch.where(mean > tensor(PRIOR), 0.0, 1.0).double()
    hp = {"running": running, "momentum": 0.01}
    value, gradient = value_and_gradient(lambda z: crisp_loss(z, TARGET, prior=tensor(PRIOR), **hp))
    signs = (running - tensor(PRIOR)).sign().int().tolist()
    assert 0 < signs.count(1) < 6
    reference = partial(crisp, target=TARGET.tolist(), prior=PRIOR, signs=signs)
    assert value == pytest.approx(reference(Z.tolist()), rel=1e-12)
    torch.testing.assert_close(gradient, numerical(reference), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("target", [TARGET, INDEX], ids=["matrix", "index"])
def test_estimated_priors_are_those_of_the_reference(target):
    z = Z.round()  # so that scores are equal
    labels = torch.tensor(matrix(target))
    for c, delta, tau in itertools.product(range(6), (0.1, 1.0), (0.0, 0.2)):
        found = crisp_priors(z, target, delta=delta, tau=tau)
        expected = estimated_prior(z[:, c].tolist(), (labels[:, c] == 1).tolist(), delta, tau)
        assert found[c].item() == pytest.approx(expected, rel=1e-12, nan_ok=True)
    assert found.isnan().any()
    share = (labels == 1).double().mean(0)
    assert (found >= share)[~found.isnan()].all()


def test_the_bound_has_a_margin():
    scores, _, known = simulated(400, 0.2, 2.0, 0.3)
    found = {}
    for tau in (0.0, 3.0):
        found[tau] = crisp_priors(scores, known, tau=tau).item()
        expected = estimated_prior(scores[:, 0].tolist(), (known[:, 0] == 1).tolist(), 0.01, tau)
        assert found[tau] == pytest.approx(expected, rel=1e-12)
    # A wider margin prefers thresholds below more of the known positives.
    assert found[0.0] < found[3.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pu_loss(Z, INDEX, prior=2 * tensor(PRIOR)), r"prior must lie in \[0, 1\]"),
        (lambda: pu_loss(Z, INDEX, prior=tensor(PRIOR[:5])), r"prior must be floating point of shape \(6,\)"),
        (lambda: pu_loss(Z, INDEX, prior=torch.ones(6, dtype=torch.int64)), "prior must be floating"),
        (lambda: pu_loss(Z, INDEX, prior=tensor(PRIOR), observed=tensor([-0.1] * 6)), "observed must lie"),
        (lambda: crisp_loss(Z, INDEX, prior=tensor(PRIOR) - 0.5), r"prior must lie in \[0, 1\]"),
        (lambda: crisp_priors(Z, INDEX, delta=0), "delta must be greater than 0"),
        (lambda: crisp_priors(Z, INDEX, tau=-1), "tau must be at least 0"),
    ],
)
def test_arguments_outside_their_domain_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# -- reference values without a gradient -----------------------------------------------------------------


def discrete(shared, kind: str):
    """Records of this kind, each with its input and outputs."""
    folder = shared / "goldens" / "networks"
    records = json.loads((folder / "discrete.json").read_text())
    with np.load(folder / "discrete.npz") as outputs, np.load(folder / "inputs.npz") as inputs:
        for key, record in records.items():
            if key.startswith(kind):
                prefix = f"{record['input']}/"
                own = {name.removeprefix(prefix): inputs[name] for name in inputs if name.startswith(prefix)}
                yield record["hp"], own, {name: outputs[at] for name, at in record["outputs"].items()}


@pytest.mark.shared
def test_priors_are_those_of_the_reference_values(shared):
    records = list(discrete(shared, "crisp_priors"))
    assert len(records) == 2
    for hp, own, expected in records:
        found = crisp_priors(torch.from_numpy(own["logits"]), torch.from_numpy(own["obs"]), **hp)
        np.testing.assert_allclose(found, expected["priors"], rtol=1e-12)


@pytest.mark.long
@pytest.mark.shared
def test_gradient_descent_on_the_risk_gives_the_coefficients_of_a_released_classifier(shared):
    records = list(discrete(shared, "pulearn"))
    assert len(records) == 18
    for hp, own, expected in records:
        x, target = torch.from_numpy(own["x"]), torch.from_numpy(own["obs"][:, :1])
        start = np.random.RandomState(hp["random_state"]).randn(3) * 0.01
        weight, bias = torch.from_numpy(start), torch.zeros((), dtype=x.dtype)
        settings = {"beta": hp["beta"], "gamma": hp["gamma"], "unlabelled": "rest"}
        settings |= {"correction": "non_negative" if hp["nnpu"] else "none", "surrogate": "sigmoid"}
        for _ in range(hp["max_iter"]):
            weight, bias = (value.detach().requires_grad_() for value in (weight, bias))
            loss = pu_loss((x @ weight + bias)[:, None], target, prior=tensor([hp["prior"]]), **settings)
            gradients = torch.autograd.grad(loss, (weight, bias))
            steps = [hp["learning_rate"] * gradient for gradient in gradients]
            weight, bias = (value.detach() - step for value, step in zip((weight, bias), steps, strict=True))
        np.testing.assert_allclose(weight, expected["coef"], rtol=1e-9)
        np.testing.assert_allclose(bias, expected["intercept"][0], rtol=1e-9)
