"""Heads solved by L-BFGS: the minima of convex losses, where slopes of others vanish, and who is refused."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import spml
from spml.cli.main import main
from spml.common.errors import InputError, SpmlError
from spml.config import read_yaml
from spml.data import Samples
from spml.data.matrix import FeatureMatrix
from spml.engine.lbfgs import PENALTIES, TOLERANCE, check_solvable, solve_path
from spml.labels import ObservedLabels
from spml.methods.base import Batch, Card, Facts, Objective, Outputs, Progress
from spml.methods.registry import create, methods
from spml.models import Top, start_bias
from tests.helpers.commands import fails
from tests.helpers.features import HIDE, make_weights, records
from tests.helpers.photos import make_photos

WIDTH, CLASSES = 6, 4
CONVEX = ["an", "wan", "n_ls", "softmax"]
SCHEDULED = {"gr": {"b": -4.0}, "splc": None, "ll_r": None}
"""With hyper-parameters under which so small a set does not end with every class predicted."""


def make_samples(n=120, full=False, seed=0):
    """Features whose means and deviations differ, and full labels or one positive per sample."""
    generator = np.random.default_rng(seed)
    truth = generator.random((n, CLASSES)) < 0.35
    truth[np.arange(n), generator.integers(0, CLASSES, n)] = True
    matrix = truth @ generator.normal(size=(CLASSES, WIDTH)) + 1.5 * generator.normal(size=(n, WIDTH))
    matrix = (matrix * np.geomspace(0.1, 10, WIDTH) + 3).astype(np.float32)
    if full:
        observed = ObservedLabels.from_multi_hot(truth, unlisted="negative")
    else:
        index = [generator.choice(np.flatnonzero(row)) for row in truth]
        observed = ObservedLabels.from_index(np.asarray(index), CLASSES)
    return Samples(tuple(map(str, range(n))), FeatureMatrix(matrix), observed)


def make_top(samples, scaling="standard"):
    torch.manual_seed(0)
    top = Top(WIDTH, CLASSES, scaling=scaling)
    top.fit_scaling(samples.inputs)
    start_bias(top, "prior", 1.5)
    return top


def started(name, samples, hp=None, epochs=20):
    objective = create(name, hp)
    objective.on_fit_start(Facts(samples.observed, samples.ids, tuple("abcd"), 1.5))
    check_solvable(objective, name, samples, epochs)
    return objective


def solve(name, samples=None, penalties=(10.0, 1.0, 0.1), *, top=None, tolerance=1e-9, epochs=20, hp=None):
    """Records, and the head's weights and bias at each."""
    samples = samples or make_samples()
    top = top or make_top(samples)
    heads = []

    def keep(place, record):
        assert place == len(heads)
        heads.append(torch.cat([top.head.weight, top.head.bias[:, None]], 1).detach().clone())

    found = solve_path(
        started(name, samples, hp, epochs), top, samples, penalties, keep, epochs=epochs,
        tolerance=tolerance, max_evaluations=2000,
    )  # fmt: skip
    assert len(found) == len(heads) == len(penalties)
    return found, heads


def standardised(samples, top):
    return top(samples.inputs.fetch(range(len(samples)), None)).features.double()


@pytest.mark.parametrize("scaling", ["standard", "raw"])
def test_the_minimum_is_that_of_logistic_regression_of_each_class(scaling):
    samples = make_samples(full=True)
    top = make_top(samples, scaling)
    found, heads = solve("an", samples, top=top)
    inputs, labels = standardised(samples, top).numpy(), samples.observed.to_multi_hot()
    for record, head in zip(found, heads, strict=True):
        assert record["converged"]
        for c in range(CLASSES):
            model = LogisticRegression(
                C=1 / (2 * record["l2"] * labels.size), tol=1e-12, solver="newton-cholesky", max_iter=1000
            ).fit(inputs, labels[:, c])
            assert head[c, :-1].numpy() == pytest.approx(model.coef_[0], abs=1e-5)
            assert head[c, -1].item() == pytest.approx(model.intercept_[0], abs=1e-5)


def test_what_is_recorded_is_what_a_plain_computation_gives():
    samples = make_samples()
    top = make_top(samples)
    found, heads = solve("show", samples, top=top)
    inputs = standardised(samples, top)
    for record, head in zip(found, heads, strict=True):
        head = head.double().requires_grad_()
        logits = inputs @ head[:, :-1].T + head[:, -1]
        batch = Batch(samples.observed.target(range(len(samples))), torch.arange(len(samples)))
        loss = started("show", samples)(Outputs(logits, inputs), batch)["show"]
        loss = loss + record["l2"] * head[:, :-1].square().sum()
        (slope,) = torch.autograd.grad(loss, head)
        # The head is rounded to float32.
        assert record["train/loss"] == pytest.approx(loss.item(), abs=1e-10)
        assert float(slope.norm()) < 1e-5
        assert record["gradient"] < 1e-8
        assert record["iterations"] < record["evaluations"] < 200


@pytest.mark.parametrize("name", ["an", "softmax"])
def test_a_path_ends_where_each_penalty_alone_ends(name):
    along, heads = solve(name)
    for record, head in zip(along, heads, strict=True):
        (alone,), (expected,) = solve(name, penalties=[record["penalty"]])
        assert alone["l2"] == record["l2"]
        # One number added to the biases of all classes is nothing to softmax.
        for solution in (head, expected):
            solution[:, -1] -= solution[:, -1].mean()
        torch.testing.assert_close(head, expected, atol=2e-6, rtol=1e-5)
    # The second solution starts nearer than it would alone.
    (alone,), _ = solve(name, penalties=[9.99])
    assert solve(name, penalties=[10.0, 9.99])[0][1]["evaluations"] < alone["evaluations"]


@pytest.mark.parametrize("name", ["an", "softmax", "show"])
def test_single_precision_finds_the_solutions_of_double_precision(name):
    dtypes = set()

    class Watched(type(create(name))):
        def forward(self, outputs, batch):
            dtypes.add(outputs.logits.dtype)
            return super().forward(outputs, batch)

    samples, solutions = make_samples(), []
    for tolerance, dtype in ((1e-9, torch.float64), (TOLERANCE, torch.float32)):
        dtypes.clear()
        objective, top, heads = Watched(), make_top(samples), []
        objective.on_fit_start(Facts(samples.observed, samples.ids, tuple("abcd"), 1.5))
        found = solve_path(
            objective, top, samples, (10.0, 1.0, 0.1),
            lambda number, record, top=top, heads=heads: heads.append(top.head.weight.detach().clone()),
            tolerance=tolerance,
        )  # fmt: skip
        assert dtypes == {dtype}
        assert all(record["converged"] for record in found)
        solutions.append(heads)
    for exact, quick in zip(*solutions, strict=True):
        torch.testing.assert_close(quick, exact, atol=1e-3 * float(exact.abs().max()), rtol=0)


def test_the_head_stays_float32_and_the_solution_does_not_depend_on_its_random_weights():
    samples = make_samples()
    top = make_top(samples)
    scaling = top.scaling.mean.clone()
    with torch.no_grad():
        top.head.weight.normal_()
    _, heads = solve("an", samples, top=top)
    assert torch.equal(top.scaling.mean, scaling)
    assert top.head.weight.requires_grad
    assert top.head.weight.dtype == top.head.bias.dtype == torch.float32
    assert torch.equal(heads[-1], solve("an", samples)[1][-1])
    assert torch.equal(heads[-1][:, :-1], top.head.weight)


def test_scale_of_loss_and_features_changes_no_solution():
    class Tenfold(type(create("an"))):
        def forward(self, outputs, batch):
            return {name: 10 * value for name, value in super().forward(outputs, batch).items()}

    samples = make_samples()
    one, ten = make_top(samples), make_top(samples)
    (record,) = solve_path(create("an"), one, samples, [1.0], tolerance=1e-9)
    (more,) = solve_path(Tenfold(), ten, samples, [1.0], tolerance=1e-9)
    assert more["l2"] == pytest.approx(10 * record["l2"])
    torch.testing.assert_close(ten.head.weight, one.head.weight)
    plain, large = make_top(samples, "raw"), make_top(samples, "raw")
    matrix = samples.inputs.fetch(range(len(samples)), None).numpy()
    scaled = Samples(samples.ids, FeatureMatrix(100 * matrix), samples.observed)
    for top, data in ((plain, samples), (large, scaled)):
        solve_path(create("an"), top, data, [1.0], tolerance=1e-9)
    torch.testing.assert_close(100 * large.head.weight, plain.head.weight, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(large.head.bias, plain.head.bias, rtol=1e-4, atol=1e-5)


def test_the_bias_is_free_of_the_penalty():
    samples = make_samples(full=True)
    _, (head,) = solve("an", samples, [1e9])
    assert head[:, :-1].abs().max() < 1e-7
    share = torch.from_numpy(samples.observed.to_multi_hot()).double().mean(0)
    torch.testing.assert_close(head[:, -1].double(), torch.logit(share), atol=1e-6, rtol=1e-6)


def test_directions_without_variance_get_no_weight():
    samples = make_samples()
    matrix = samples.inputs.fetch(range(len(samples)), None).numpy()
    twice = Samples(samples.ids, FeatureMatrix(np.hstack([matrix, matrix, 0 * matrix])), samples.observed)
    top, once = Top(3 * WIDTH, CLASSES), make_top(samples)
    top.fit_scaling(twice.inputs)
    start_bias(top, "prior", 1.5)
    (record,) = solve_path(create("an"), top, twice, [1.0], tolerance=1e-9)
    weights = top.head.weight
    assert record["converged"]
    assert torch.equal(weights[:, 2 * WIDTH :], torch.zeros(CLASSES, WIDTH))
    torch.testing.assert_close(weights[:, :WIDTH], weights[:, WIDTH : 2 * WIDTH], atol=1e-7, rtol=1e-4)
    # s2 is 2/3 of that of the features once, and two equal weights of w/2 cost half of w^2.
    solve_path(create("an"), once, samples, [1.0 / 3], tolerance=1e-9)
    torch.testing.assert_close(2 * weights[:, :WIDTH], once.head.weight, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("name", SCHEDULED)
def test_a_schedule_stands_at_its_end(name):
    samples = make_samples()
    top = make_top(samples)
    found, heads = solve(name, samples, [1.0, 0.1], top=top, tolerance=1e-6, hp=SCHEDULED[name])
    inputs = standardised(samples, top)
    batch = Batch(samples.observed.target(range(len(samples))), torch.arange(len(samples)))
    for record, head in zip(found, heads, strict=True):
        assert record["schedule_epoch"] == 20
        slopes = []
        for epoch in (0, 19):
            objective = started(name, samples, SCHEDULED[name])
            objective.on_epoch_start(Progress(epoch, 20))
            at = head.double().requires_grad_()
            loss = sum(objective(Outputs(inputs @ at[:, :-1].T + at[:, -1], inputs), batch).values())
            loss = loss + record["l2"] * at[:, :-1].square().sum()
            slopes.append(float(torch.autograd.grad(loss, at)[0].norm()))
        if record["converged"]:
            assert slopes[1] < 1e-4 < slopes[0]
    assert any(record["converged"] for record in found)


def test_every_method_is_solved_or_refused_with_a_reason():
    samples, full = make_samples(60), make_samples(60, full=True)
    refused = {}
    for name in methods():
        data = full if name in ("bce", "iu", "iun") else samples
        try:
            objective = started(name, data)
        except InputError as error:
            refused[name] = str(error)
            continue
        (record,) = solve_path(objective, make_top(data), data, [1.0], epochs=20)
        assert math.isfinite(record["train/loss"]), name
    expected = {
        "em_apl", "en", "role", "mime", "opml_sp", "smile", "pumlc", "plc", "ignore", "lac", "ll_cp",
        "combine",
    }  # fmt: skip
    assert set(refused) >= expected
    assert not set(refused) & {*CONVEX, *SCHEDULED, "show", "bce", "em", "hill"}
    assert "trains parameters of its own" in refused["role"]
    assert "makes further inputs" in refused["pumlc"]
    assert "infers something from step to step" in refused["em_apl"]
    assert "compares views" in refused["plc"]
    assert all("optim.name=adamw" in message for message in refused.values())


def test_hyper_parameters_decide_too():
    samples = make_samples()
    started("gr", samples)
    with pytest.raises(InputError, match="'gr' trains parameters of its own"):
        started("gr", samples, {"k": "learned"})
    with pytest.raises(InputError, match="'show' infers something"):
        started("show", samples, {"momentum": 0.5})


class Noisy(Objective):
    card = Card(title="Noisy", paper="", year=2026, equations="")

    def forward(self, outputs, batch):
        keep = torch.bernoulli(torch.full_like(outputs.logits, 0.5))
        return {"noisy": (keep * outputs.logits).square().mean()}


class Broken(Objective):
    card = Card(title="Broken", paper="", year=2026, equations="")

    def forward(self, outputs, batch):
        return {"broken": outputs.logits.sub(outputs.logits.detach()).sqrt().mean()}


class Flat(Objective):
    card = Card(title="Flat", paper="", year=2026, equations="")

    def forward(self, outputs, batch):
        return {"flat": 0 * outputs.logits.mean()}


def test_losses_without_a_minimum_are_refused():
    samples = make_samples()
    before = torch.get_rng_state()
    with pytest.raises(InputError, match="'noisy' draws at random"):
        check_solvable(Noisy(), "noisy", samples, 20)
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(SpmlError, match=r"Broken: .* NaN or infinite .*model.scaling=standard"):
        solve_path(Broken(), make_top(samples), samples)
    with pytest.raises(SpmlError, match="Flat: at the head's start the loss does not depend"):
        solve_path(Flat(), make_top(samples), samples)
    with pytest.raises(ValueError, match="a linear head is solved, got Sequential"):
        solve_path(create("an"), Top(WIDTH, CLASSES, head="mlp"), samples)
    with pytest.raises(ValueError, match="penalties must be greater than 0"):
        solve_path(create("an"), make_top(samples), samples, [1.0, 0.0])
    same = Samples(samples.ids, FeatureMatrix(np.ones((120, WIDTH), np.float32)), samples.observed)
    with pytest.raises(InputError, match="all 120 training samples have the same features"):
        solve_path(create("an"), make_top(same), same)


def test_few_evaluations_are_said_to_be_too_few():
    samples = make_samples()
    (record,) = solve_path(
        create("an"), make_top(samples), samples, [0.01], tolerance=1e-9, max_evaluations=5
    )
    assert not record["converged"]
    assert record["evaluations"] <= 25


# -- runs --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(features, tmp_path_factory):
    output = tmp_path_factory.mktemp("runs") / "an"
    main([
        "train", str(features), *HIDE, "--method", "an", "--optim.name", "lbfgs", "--threads", "1",
        "--output", str(output),
    ])  # fmt: skip
    return output


def test_the_folder_says_which_penalty_was_chosen_and_why(run, features, capsys):
    assert {path.name for path in run.iterdir()} == {
        "config.yaml", "metrics.jsonl", "summary.json", "curves.png", "model.safetensors", "model.json",
        "held_out.safetensors", "thresholds.json", "report.html",
    }  # fmt: skip
    lines = records(run)
    assert [line["penalty"] for line in lines] == list(PENALTIES)
    assert (PENALTIES[0], PENALTIES[-1], len(PENALTIES)) == (300.0, 0.03, 13)
    assert all(line["converged"] and line["iterations"] > 0 for line in lines)
    best = max(lines, key=lambda line: line["val/SP"])
    summary = json.loads((run / "summary.json").read_text())
    selected = summary["selected"]
    for key in ("penalty", "l2", "gradient", "converged"):
        assert selected[key] == best[key]
    assert (selected["of"], selected["metric"]) == (13, "val/SP")
    assert "schedule_epoch" not in selected
    assert summary["method"] == "an"
    assert summary["validation"]["val/SP"] == best["val/SP"]
    assert summary["head_bias"]["start"] == "prior"
    assert summary["test"]["mAP"] > 0.9
    assert read_yaml(run / "config.yaml").optim.name == "lbfgs"
    found = spml.load(run).evaluate(str(features), unlisted="negative")
    assert found["mAP"] == pytest.approx(summary["test"]["mAP"], abs=1e-9)


def test_the_configuration_repeats_the_run_and_resume_runs_it_again(run, tmp_path):
    again = tmp_path / "again"
    main(["train", "--config", str(run / "config.yaml"), "--output", str(again)])
    expected = (run / "model.safetensors").read_bytes()
    assert (again / "model.safetensors").read_bytes() == expected
    (again / "model.safetensors").unlink()
    main(["train", "--output", str(again), "--resume"])
    assert (again / "model.safetensors").read_bytes() == expected


def test_a_scheduled_method_says_where_its_schedule_stood(features, tmp_path):
    trained = spml.train(
        features, method="gr", optim={"name": "lbfgs"}, epochs=7, threads=1, quiet=True,
        data={"unlisted": "negative", "observe": "single"}, output=str(tmp_path / "run"),
    )  # fmt: skip
    summary = json.loads((trained.folder / "summary.json").read_text())
    assert summary["selected"]["schedule_epoch"] == 7
    assert summary["test"]["mAP"] > 0.9


def test_a_frozen_backbone_of_a_file_is_solved_on(tmp_path):
    photos = make_photos(tmp_path / "photos", per_class=12)
    weights = make_weights(tmp_path / "tiny.safetensors")
    trained = spml.train(
        photos, method="an", optim={"name": "lbfgs"}, model={"weights": str(weights)}, data={"workers": 0},
        threads=1, output=str(tmp_path / "run"), quiet=True,
    )  # fmt: skip
    assert read_yaml(trained.folder / "config.yaml").model.frozen == "yes"
    predicted = trained.predict(photos)
    told = [predicted.classes[column] for column in predicted.scores.argmax(1)]
    assert sum(name in path for name, path in zip(told, predicted.ids, strict=True)) >= 30


@pytest.mark.long
def test_what_can_not_be_solved_is_refused(capsys, tmp_path, features, run):
    output = ["--output", tmp_path / "run"]
    lbfgs = ["--optim.name", "lbfgs", *output]
    said = fails(capsys, "train", "digits", "--method", "an", *lbfgs)
    assert "optim.name=lbfgs solves a head on the features" in said
    assert "small_cnn starts from random weights" in said
    photos = make_photos(tmp_path / "photos", per_class=4)
    weights = ["--model.weights", make_weights(tmp_path / "tiny.safetensors")]
    said = fails(capsys, "train", photos, "--method", "an", *weights, "--model.frozen", "no", *lbfgs)
    assert "model.frozen is 'no'" in said
    said = fails(capsys, "train", features, *HIDE, "--method", "role", "--mean_labels", "1.9", *lbfgs)
    assert "'role' trains parameters of its own: train it (optim.name=adamw)" in said
    said = fails(capsys, "train", features, *HIDE, "--method", "an", "--model.head", "mlp", *lbfgs)
    assert "of its own (optim.name=adamw trains one), but model.head=mlp (method 'an') is given" in said
    for name, value in (("optim.l2", "0.1"), ("optim.l1", "0.1"), ("model.dropout", "0.1")):
        said = fails(capsys, "train", features, *HIDE, "--method", "an", f"--{name}", value, *lbfgs)
        assert f"but {name} is given: leave out" in said
    said = fails(capsys, "train", features, *HIDE, "--method", "an", "--init_from", run, *lbfgs)
    assert f"but init_from={run} is given: leave out" in said
    assert not (tmp_path / "run").exists()
