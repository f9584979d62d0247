"""Every registered method fulfils the contract, and the contract fails for methods that break it."""

from __future__ import annotations

import sys

import pytest
import torch

from spml.losses import an_loss
from spml.methods.base import Batch, Card, Extra, Needs, Objective
from spml.methods.memory import LabelMemory, known_first
from spml.methods.registry import methods
from spml.testing import check_objective, checks, contract, parametrize_with_checks
from spml.testing.contract import Frozen

pytest_plugins = "pytester"

VARIANTS = [
    ("combine", {"weights": {"gr": 1.0, "ll_cp": 0.5, "role": 0.1}, "hp": {"gr": {"q2": 0.5}}}),
    ("combine", {"weights": {"an": 1.0}, "memory": {"apl": {"warmup": 1}, "large_loss": {"percent": 5}}}),
    ("combine", {"weights": {"gr": 1.0, "zlpr": 0.1}, "memory": {"ema": {"positive": 0.6, "negative": 0.4}}}),
    ("combine",
     {"weights": {"em": 1.0}, "memory": {"confident": {"theta": 0.8}, "correction": {"rate": 0.1}}}),
    ("combine", {"weights": {"em": 1.0, "ll_cp": 1.0}, "memory": {"expected_negatives": {}}}),
    ("combine", {"weights": {"iu": 1.0}, "memory": {"ema": {"positive": 0.7, "negative": 0.4}}}),
    ("combine", {"weights": {"lasd": 1.0, "ignore": 0.5, "mime": 0.5}, "memory": {"apl": {"warmup": 1}}}),
    ("smile", {"mu": 0.0, "bias": True}),
    ("smile", {"mu": 1.0, "decay": 0.0, "rate": 0.2}),
    # With soft targets, the graph pulls confident known positives back.
    ("smile", {"enhancement": "graph", "known_positives": "one"}),
    ("smile",
     {"enhancement": "graph", "known_positives": "one", "gamma": 0.5, "delta": 0.1, "kl": "released"}),
    ("smile_image", {"theta": 0.5, "alpha": 2.0, "kl": 0.1}),
    ("smile_image", {"warmup": 5}),
    ("mime", {"beta": 0.1, "theta": 0.6, "warmup": 0}),
    ("gr", {"k": "learned", "v": "learned"}),
    ("gr", {"k": "scar", "v": "one"}),
    ("gr", {"k": "step", "tau": 0.6, "schedule": "cosine"}),
    ("gr", {"k": "constant", "q1": 0.01, "q3": [1, 1.5], "schedule": "exponential"}),
    ("gr", {"w": [0, 10], "b": [-2, -8], "timing": "paper"}),
    ("gr", {"q1": 0.01, "norm": "samples", "timing": "paper", "b": ["auto", -8]}),
    ("gr", {"k": "thresholds", "v": "thresholds", "tau_low": [0.2, 0.4], "tau_high": [0.9, 0.6]}),
    ("gr", {"k": "polynomial", "v": "polynomial", "degree": 3, "sigma": 0.4}),
    ("gr", {"k": "exponential", "v": "exponential", "b": "auto"}),
    ("gr", {"k": "constant", "share": "auto", "v": "one"}),
    ("gr", {"robust": "nce", "constants": {"beta": 0.5, "log_zero": -1}}),
    ("gr", {"robust": "nfl"}),
    ("gr", {"robust": "ngce", "k": "learned"}),
    ("gr", {"robust": "sce", "v": "one"}),
    ("gr", {"robust": "taylor", "constants": {"order": 4}}),
    ("bce", {"swap": 0.1}),
    ("n_ls", {"swap": 0.3}),
    ("wan", {"weight": 0.2}),
    ("focal", {"gamma": 1.5, "margin": 1.0, "detach_weights": True}),
    ("asl", {"gamma_pos": 1, "clip": 0.0, "detach_weights": False}),
    ("hill", {"margin": 0.0, "gamma": 0.0}),
    ("splc", {"warmup": 5}),
    ("splc", {"negative": "hill", "margin_corrected": True}),
    ("focal", {"known_negatives": "own"}),
    ("asl", {"known_negatives": "own"}),
    ("hill", {"known_negatives": "own"}),
    ("splc", {"known_negatives": "own"}),
    ("lasd", {"known_negatives": "own"}),
    ("lasd", {"disambiguation": False, "known_negatives": "own"}),
    ("lasd", {"disambiguation": False}),
    ("lasd", {"leverage": False, "tau": 0.6}),
    ("lasd", {"weight_neg": 0.2, "gamma_pos": 1}),
    ("lasd", {"consistency": 0}),
    ("plc", {"weight": 0.5, "tau": 0.8}),
    ("lac", {"first_stage": 0.0, "width": 3, "queue": 40}),
    ("lac", {"first_stage": 0.3, "width": 2, "tau_second": 0.6, "queue": 40, "overwrites": "released"}),
    ("combine",
     {"weights": {"lac": 0.5, "lasd": 1.0}, "hp": {"lac": {"first_stage": 0.0, "width": 4, "queue": 40}}}),
    ("ignore", {"warmup": 5}),
    ("ignore", {"threshold": 0.5, "weight_views": 0}),
    ("boostlu", {"percent": 5}),
    ("scl", {"base": "an", "width": 3, "decay": 0.0}),
    ("combine", {"weights": {"scl": 0.5, "lasd": 1.0}, "hp": {"scl": {"width": 4}}}),
    ("en", {"decay": 0.0}),
    ("csl", {"topk": 3, "prior_threshold": 0.3, "clip": 0.05}),
    ("csl", {"mode": "ignore_normalize_classes"}),
    ("csl", {"mode": "ignore"}),
    ("csl", {"mode": "negative"}),
    ("vlpl", {"beta_neg": 0.5}),
    ("gpr", {"reg": 0, "w": [0, 10], "b": ["auto", -8], "schedule": "cosine"}),
    ("epr", {"norm": "samples", "weight": 0.5}),
    ("role", {"weight": 0.2, "lr_factor": 1.0}),
    ("role", {"norm": "samples"}),
    ("ll_r", {"percent": 5}),
    ("ll_ct", {"percent": 5}),
    ("ll_cp", {"percent": 5}),
    ("ll_cp", {"percent": 5, "strict": True}),
    ("em_apl", {"predictions": "training", "warmup": 0}),
    ("opml", {"alpha": 0.3, "beta": 2.0}),
    ("opml", {"alpha": 0.0, "beta": 0.0}),
    ("opml", {"alpha": 0.3, "beta": 0.6, "constants": "odds"}),
    ("opml", {"form": "hard"}),
    ("opml_sp", {"smoothing": "none", "rank_weight": 0.0, "correction": 0.0}),
    ("opml_sp", {"smoothing": "constant", "share": 0.3, "rank": "singular", "delta": 0.1}),
    ("opml_sp", {"smoothing": "none", "rank": "trace", "rank_weight": 0.1}),
    ("opml_sp", {"smoothing": "score", "gamma": 2.0, "rank_weight": 0.01}),
    ("show", {"rho": 1.0, "weight": 1.0, "momentum": 0.1}),
    ("pumlc", {"gamma": 0.85, "alpha": 2.0}),
    ("pumlc", {"mix": 0}),
    ("upu", {"surrogate": "sigmoid", "unlabelled": "rest"}),
    ("upu", {"priors": [0.3] * 7, "unlabelled": "rest", "counts": "batch"}),
    ("nnpu", {"surrogate": "sigmoid", "unlabelled": "rest", "counts": "batch"}),
    ("nnpu", {"beta": 0.05, "gamma": 0.5, "momentum": 0.2}),
    ("crisp", {"priors": "stated", "warmup": 0}),
    ("crisp", {"priors": [0.4] * 7, "momentum": 1.0}),
]  # fmt: skip


@pytest.mark.parametrize("method", methods())
def test_contract(method):
    check_objective(method)


@pytest.mark.long
@pytest.mark.parametrize(("method", "hp"), VARIANTS, ids=str)
def test_contract_of_variants(method, hp):
    check_objective(method, **hp)


class Good(Objective):
    """A method from outside the package."""

    card = Card(
        title="Good", paper="none", year=2026, equations="none", formula="L = mean of [l+ on P, l- on U]"
    )

    def forward(self, outputs, batch):
        return {"good": an_loss(outputs.logits, batch.target)}


class Leaky(Good):
    """Counts its calls."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, outputs, batch):
        self.calls += 1
        return super().forward(outputs, batch)


class Random(Good):
    """Uses the global random state."""

    def forward(self, outputs, batch):
        return {"random": super().forward(outputs, batch)["good"] * torch.rand(())}


class WrongGradient(Good):
    """Its gradient is twice what it should be."""

    def forward(self, outputs, batch):
        loss = super().forward(outputs, batch)["good"]
        return {"wrong": 2 * loss - loss.item()}


class WrongInOneElement(Good):
    """The gradient of one logit is off by a hundred-thousandth of the largest gradient."""

    def forward(self, outputs, batch):
        error = 1e-5 * outputs.logits[:1, 2].sum() / max(outputs.logits.numel(), 1)
        return {"wrong": super().forward(outputs, batch)["good"] + error - error.item()}


class Forgetful(Good):
    """Stores what it has learned outside its state."""

    def on_fit_start(self, facts):
        self.factor = 1.0

    def after_step(self, outputs, batch):
        self.factor = 2.0

    def forward(self, outputs, batch):
        return {"forgetful": super().forward(outputs, batch)["good"] * self.factor}


class Contrary(Good):
    """Treats known negatives as positives."""

    def forward(self, outputs, batch):
        target = batch.target
        if target.ndim == 2:
            target = target.abs()
        return super().forward(outputs, Batch(target, batch.index))


class Ungrateful(Good):
    """Treats known positives as negatives."""

    def forward(self, outputs, batch):
        target = batch.target
        if target.ndim == 1:
            target = torch.zeros_like(outputs.logits, dtype=torch.int8).scatter_(1, target[:, None], 1)
        return super().forward(outputs, Batch(torch.where(target == 1, -1, target), batch.index))


class Naive(Good):
    """Takes logarithms of probabilities."""

    def forward(self, outputs, batch):
        p = torch.sigmoid(outputs.logits)
        one_hot = torch.zeros_like(p, dtype=torch.bool)
        if batch.target.ndim == 1:
            one_hot.scatter_(1, batch.target[:, None], True)
        else:
            one_hot = batch.target == 1
        return {"naive": torch.where(one_hot, -p.log(), -(1 - p).log()).sum() / max(p.numel(), 1)}


class ByPosition(Good):
    """Weighs classes by their position."""

    def forward(self, outputs, batch):
        each = an_loss(outputs.logits, batch.target, reduction="none")
        return {"by position": (each * torch.arange(1, each.shape[1] + 1)).sum()}


class Greedy(Good):
    """Writes to the tensor of its memory directly, which bypasses the check for known labels."""

    def on_fit_start(self, facts):
        self.memory = LabelMemory(facts.observed)

    def after_step(self, outputs, batch):
        self.memory.inferred[batch.index] = (outputs.logits > 0).to(self.memory.inferred.dtype)


class Trusting(Good):
    """Prefers its first prediction to a known label."""

    def on_fit_start(self, facts):
        self.register_buffer("predicted", torch.zeros(len(facts.observed), len(facts.classes)))

    def forward(self, outputs, batch):
        predicted = self.predicted[batch.index]
        target = known_first(batch.target, torch.zeros_like(predicted, dtype=torch.int8))
        return super().forward(
            outputs, Batch(torch.where(predicted == 0, target, predicted.to(torch.int8)), batch.index)
        )

    def after_step(self, outputs, batch):
        self.predicted[batch.index] = outputs.logits.sign().to(self.predicted.dtype)


class WritesTargets(Good):
    """Writes inferred labels to the target of the batch."""

    def after_step(self, outputs, batch):
        if batch.target.ndim == 1:
            batch.target.copy_(outputs.logits.argmax(1))
        else:
            batch.target.copy_((outputs.logits > 0).to(torch.int8))


class WritesObserved(Good):
    """Writes inferred labels to the labels of the data set."""

    def on_fit_start(self, facts):
        self.observed = facts.observed

    def on_epoch_end(self, progress, train_pass):
        index = self.observed.index
        if index is not None:
            object.__setattr__(self.observed, "_index", (index + 1) % self.observed.num_classes)


class WritesLogits(Good):
    """Clips the logits in place."""

    def after_step(self, outputs, batch):
        outputs.logits.clamp_(-1, 1)


class ByForm(Good):
    """Remembers samples only if their labels are indices."""

    def on_fit_start(self, facts):
        self.register_buffer("seen", torch.zeros(len(facts.observed)))

    def after_step(self, outputs, batch):
        if batch.target.ndim == 1:
            self.seen[batch.index] += 1


class ForgetfulBetweenEpochs(Good):
    """Stores what it has learned in an epoch outside its state."""

    def on_fit_start(self, facts):
        self.factor = 1.0

    def on_epoch_end(self, progress, train_pass):
        self.factor += 1

    def forward(self, outputs, batch):
        return {"forgetful": super().forward(outputs, batch)["good"] * self.factor}


class Extras(Good):
    """Needs everything that an objective can need."""

    needs = Needs(views=("weak", "strong"), class_maps=True, latent=True, train_pass=True)

    def extra_inputs(self, inputs, outputs, batch):
        assert inputs.dtype == torch.uint8
        assert outputs.class_maps.shape[:2] == outputs.logits.shape
        partner = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(batch.seed))
        return Extra(inputs // 2 + inputs[partner] // 2, torch.sigmoid(outputs.logits))

    def forward(self, outputs, batch):
        weak, strong, extra = (torch.sigmoid(part) for part in (*outputs.views, outputs.extra))
        good = super().forward(outputs, batch)["good"]
        assert outputs.class_maps is None
        distance = (extra - outputs.extra_target).square().sum() + (weak - strong).square().sum()
        code = sum(part.square().sum() for part in outputs.latent)
        return {"good": good, "distance": distance / max(len(weak), 1), "code": code / max(len(weak), 1)}


class RandomExtras(Extras):
    """Draws its further inputs without the seed of the step."""

    def extra_inputs(self, inputs, outputs, batch):
        return Extra(inputs[torch.randperm(len(inputs))], outputs.logits)


class LeaningExtras(Extras):
    """Hides a factor of the further forward pass from autograd."""

    def forward(self, outputs, batch):
        extra = torch.sigmoid(outputs.extra)
        return super().forward(outputs, batch) | {"leaning": (extra.data * extra).sum()}


class WithoutFormula(Good):
    """Has no formula."""

    card = Card(title="Without formula", paper="none", year=2026, equations="none")


class Undocumented(Good):
    """Has a hyper-parameter that its docstring does not mention."""

    def __init__(self, *, strength: float = 1.0):
        super().__init__()


@pytest.mark.parametrize("method", [Good, Extras])
def test_a_correct_method_from_outside_the_package_passes(method):
    check_objective(method)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (Leaky, "forward changed the state 'calls'"),
        (Random, "two calls|random state"),
        (WrongGradient, "numerical"),
        (Forgetful, "state is incomplete"),
        (Contrary, "raises the logit of a known negative"),
        (Ungrateful, r"gradient \(logits\) lowers the logit of a known positive"),
        (Naive, "the loss is inf|not finite|nan"),
        (ByPosition, "reordered classes"),
        (Greedy, "memory has an inferred label where a label is known"),
        (Trusting, "after some epochs the gradient lowers a known positive"),
        (WritesTargets, "target of a batch was written to"),
        (WritesObserved, "unknown label became a known one"),
        (WritesLogits, "logits were written to"),
        (ByForm, "labels as a matrix against indices: 'seen'"),
        (ForgetfulBetweenEpochs, "state is incomplete"),
        (RandomExtras, "extra_inputs with the same batch returned different inputs"),
        (LeaningExtras, r"gradient \(extra\) against a numerical one"),
        (Undocumented, "not in the docstring: strength"),
        (WithoutFormula, "the card has no formula"),
    ],
)
def test_the_contract_fails_for_a_method_that_breaks_it(method, message):
    with pytest.raises(AssertionError, match=message):
        check_objective(method)


def test_an_error_in_one_element_of_a_gradient_is_found():
    with pytest.raises(AssertionError, match="numerical"):
        dict(checks(WrongInOneElement))["gradient equals numerical gradient"]()


def test_the_numerical_gradient_follows_the_surrogate():
    """A method that detaches a factor passes; one that hides a factor from autograd otherwise fails."""

    class Weighted(Good):
        """A detached weight."""

        def forward(self, outputs, batch):
            return {"weighted": (outputs.logits.detach() * outputs.logits).sum()}

    dict(checks(Weighted))["gradient equals numerical gradient"]()

    class Broken(Good):
        """Hides a factor from autograd without detaching it."""

        def forward(self, outputs, batch):
            return {"broken": (outputs.logits.data * outputs.logits).sum()}

    with pytest.raises(AssertionError, match="numerical"):
        dict(checks(Broken))["gradient equals numerical gradient"]()


def test_detached_weights_inside_losses_are_recorded():
    """The unified framework calls `detach()`, so the tape of the contract must not be empty for GR."""
    case = contract.make_case(methods()["gr"])
    tape: list[torch.Tensor] = []
    with Frozen(tape, replay=False):
        contract.total(case.started(), contract.logits_and_features(), case.batch())
    assert tape


OUTSIDE = """
from spml.losses import an_loss
from spml.methods import Card, Objective
from spml.testing import parametrize_with_checks


class Mine(Objective):
    '''A method from another package.

    Args:
        strength: Factor of the loss.
    '''

    card = Card(title="Mine", paper="none", year=2026, equations="none", formula="L = strength AN")

    def __init__(self, *, strength: float = 1.0) -> None:
        super().__init__()
        self.strength = strength

    def forward(self, outputs, batch):
        return {"mine": self.strength * an_loss(outputs.logits, batch.target)}


class Broken(Mine):
    '''Its gradient is twice what it should be.

    Args:
        strength: Factor of the loss.
    '''

    def forward(self, outputs, batch):
        loss = super().forward(outputs, batch)["mine"]
        return {"broken": 2 * loss - loss.item()}


@parametrize_with_checks([Mine, (Mine, {"strength": 0.5}), Broken])
def test_contract(objective, check):
    check(objective)
"""


@pytest.mark.long
def test_methods_from_outside_the_package_are_checked_one_test_each(pytester):
    pytester.makepyfile(OUTSIDE)
    # In a process of its own, because pytester unloads modules that a run in this process has imported.
    result = pytester.runpytest_subprocess("-v", "-p", "no:cacheprovider")
    count = len(list(checks(Good)))
    result.assert_outcomes(passed=3 * count - 1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*::test_contract[[]Mine-gradient equals numerical gradient] PASSED*",
            "*::test_contract[[]Mine(strength=0.5)-gradient equals numerical gradient] PASSED*",
            "*::test_contract[[]Broken-gradient equals numerical gradient] FAILED*",
            "*AssertionError: gradient (logits) against a numerical one*",
        ]
    )


def test_without_pytest_the_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pytest", None)
    with pytest.raises(ImportError, match="parametrize_with_checks needs pytest: pip install pytest"):
        parametrize_with_checks(["an"])
