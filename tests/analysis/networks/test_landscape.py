"""The figure of loss landscapes: its centre, its directions and every point against other computations."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import spml
from spml.analysis import landscape
from spml.analysis.landscape import LossAround, filter_normalised
from spml.analysis.pictures import open_runs
from spml.cli.main import main
from spml.common.errors import InputError
from spml.config import read_yaml
from spml.data import Dataset, Samples, open_dataset
from spml.losses import an_loss, em_apl_loss, em_loss
from spml.methods.base import Batch, Outputs, Progress
from spml.methods.registry import create
from spml.models import load_classifier
from spml.runs.predict.batches import Engine
from tests.helpers.photo_runs import CLASSES, train_on


def open_again(folder: Path) -> Dataset:
    return open_dataset(read_yaml(folder / "config.yaml").data)


def train_logits(folder: Path, samples: Samples) -> torch.Tensor:
    return torch.from_numpy(spml.load(folder).logits(samples, Engine(device="cpu")))


def centre(analysis: Any) -> float:
    losses = analysis.table["loss"]
    return float(losses[len(losses) // 2])


def write_features(path: Path, full: bool = True) -> Path:
    generator = np.random.default_rng(0)
    truth = (generator.random((80, 3)) < 0.4).astype(np.uint8)
    truth[np.arange(80), generator.integers(0, 3, 80)] = 1
    matrix = (truth @ generator.normal(size=(3, 5)) + generator.normal(size=(80, 5))).astype(np.float32)
    labels = truth if full else truth.argmax(1)
    np.savez(path, X=matrix, Y=labels, classes=np.array(CLASSES))
    return path


def train(source: Path, output: Path, hide: bool = True, **settings: Any) -> Path:
    """Train on a feature file, with one known label per sample if its labels are hidden."""
    data = {"unlisted": "negative", "observe": "single"} if hide else {}
    shared = {"threads": 1, "accelerator": "cpu", "quiet": True, "pictures": False, "data": data}
    spml.train(source, output=str(output), **{"epochs": 1, **shared, **settings})
    return output


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a linear run `an` on features, and `lbfgs`, whose head is solved."""
    folder = tmp_path_factory.mktemp("features")
    source = write_features(folder / "features.npz")
    for name, optim in (("an", {"lr": 0.05}), ("lbfgs", {"name": "lbfgs"})):
        train(source, folder / name, method="an", epochs=3, optim=optim)
    return folder


def test_the_norm_of_each_filter_is_that_of_the_weights() -> None:
    weights = {
        "linear": torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, 0.5]]),
        "convolution": torch.arange(24.0).reshape(2, 3, 2, 2),
        "bias": torch.tensor([1.0, 2.0]),
    }
    generator = torch.Generator().manual_seed(3)
    direction = filter_normalised(weights, generator)
    assert direction["linear"].norm(dim=1).tolist() == pytest.approx([5.0, 0.0, 0.5])
    squares = [sum(n**2 for n in range(12)), sum(n**2 for n in range(12, 24))]
    norms = direction["convolution"].flatten(1).norm(dim=1)
    assert norms.tolist() == pytest.approx([square**0.5 for square in squares])
    assert direction["bias"].tolist() == [0.0, 0.0]
    # Filters keep the directions that were drawn.
    generator.manual_seed(3)
    drawn = torch.randn(3, 2, generator=generator)
    assert nn.functional.cosine_similarity(drawn, direction["linear"], dim=1).tolist() == pytest.approx(
        [1.0, 0.0, 1.0]
    )


@pytest.mark.long
def test_the_centre_is_the_loss_of_the_run(trained: Path) -> None:
    samples = open_again(trained / "em").splits["train"]
    logits = train_logits(trained / "em", samples)
    expected = float(em_loss(logits, samples.observed.target(range(len(samples)))))
    assert expected != pytest.approx(float(an_loss(logits, samples.observed.target(range(len(samples))))))
    analysis = landscape([trained / "em"], points=3, samples=0, loss="own")
    assert centre(analysis) == pytest.approx(expected, rel=1e-5)
    assert analysis.notes == (f"em: {expected:.6g} at the trained weights, 45 training samples.",)
    assert list(analysis.table["x"]) == [-1.0, 0.0, 1.0]
    flat = landscape([trained / "em"], points=3, samples=0, dimensions=2, loss="own")
    assert centre(flat) == pytest.approx(expected, rel=1e-5)


def test_penalties_belong_to_the_loss(trained: Path) -> None:
    folder = trained / "an"
    samples = open_again(folder).splits["train"]
    loss = float(an_loss(train_logits(folder, samples), samples.observed.target(range(len(samples)))))
    classifier, _ = load_classifier(folder)
    squares = sum(float(p.detach().square().sum()) for p in classifier.parameters() if p.ndim > 1)
    analysis = landscape([folder], points=3, samples=0, loss="own")
    assert centre(analysis) == pytest.approx(loss + 0.01 * squares, rel=1e-5)


@pytest.mark.long
def test_a_solved_head_has_the_loss_that_was_minimised(features: Path) -> None:
    selected = json.loads((features / "lbfgs/summary.json").read_text())["selected"]
    lines = [json.loads(line) for line in (features / "lbfgs/metrics.jsonl").read_text().splitlines()]
    (record,) = [line for line in lines if line["penalty"] == selected["penalty"]]
    analysis = landscape([features / "lbfgs"], points=5, radius=0.2, samples=0, loss="own")
    assert centre(analysis) == pytest.approx(record["train/loss"], rel=1e-5)
    assert np.argmin(analysis.table["loss"]) == 2


def test_the_full_loss_needs_the_true_labels_only(trained: Path) -> None:
    data = open_again(trained / "em")
    truth = torch.from_numpy(data.truth["train"].to_multi_hot()).float()
    logits = train_logits(trained / "em", data.splits["train"])
    expected = float(nn.functional.binary_cross_entropy_with_logits(logits, truth))
    analysis = landscape([trained / "em", trained / "an"], points=3, samples=0, loss="full")
    assert analysis.table["loss"][1] == pytest.approx(expected, rel=1e-5)
    assert list(analysis.table["run"]) == ["em"] * 3 + ["an"] * 3


@pytest.mark.parametrize("dimensions", [1, 2])
def test_every_point_of_a_linear_head_against_numpy(features: Path, dimensions: int) -> None:
    """Bias and standardisation stay; weights move along the directions that the seed draws."""
    data = open_again(features / "an")
    matrix = data.splits["train"].inputs.fetch(range(64), None).numpy()
    truth = data.truth["train"].to_multi_hot()
    classifier, _ = load_classifier(features / "an")
    top = classifier.top
    scaled = (matrix - top.scaling.mean.numpy()) / top.scaling.std.numpy()
    weight, bias = top.head.weight.detach(), top.head.bias.detach().numpy()
    generator = torch.Generator().manual_seed(5)
    drawn = [torch.randn(3, 5, generator=generator) for _ in range(dimensions)] if dimensions == 1 else []
    if dimensions == 2:
        first = torch.randn(3, 5, generator=generator)
        torch.randn(3, generator=generator)  # the bias of the first direction, which is not used
        drawn = [first, torch.randn(3, 5, generator=generator)]
    directions = [(d * weight.norm(dim=1, keepdim=True) / d.norm(dim=1, keepdim=True)).numpy() for d in drawn]

    def loss(place: tuple[float, ...]) -> float:
        moved = weight.numpy() + sum(x * d for x, d in zip(place, directions, strict=True))
        logits = (scaled @ moved.T + bias).astype(np.float64)
        return float((np.logaddexp(0, logits) - truth * logits).mean())

    analysis = landscape(
        [features / "an"], dimensions=dimensions, points=5, radius=2.0, samples=0, seed=5, loss="full"
    )
    places = list(zip(*(analysis.table[key] for key in "xy"[:dimensions]), strict=True))
    assert len(places) == 5**dimensions
    assert set(places[0]) == {-2.0}
    assert list(analysis.table["loss"]) == pytest.approx([loss(place) for place in places], rel=1e-5)


def test_the_seed_decides_directions_and_samples(trained: Path) -> None:
    def losses(**options: Any) -> list[float]:
        return [*landscape([trained / "em"], points=3, **options).table["loss"]]

    first = losses(samples=0)
    assert losses(samples=0) == pytest.approx(first, rel=1e-6)
    other = losses(samples=0, seed=1)
    assert other[1] == pytest.approx(first[1], rel=1e-6)
    assert other[0] != pytest.approx(first[0], rel=1e-3)
    part = losses(samples=10)
    assert losses(samples=10) == pytest.approx(part, rel=1e-6)
    assert part[1] != pytest.approx(first[1], rel=1e-3)


def test_the_weights_stay_as_they_are(trained: Path) -> None:
    (opened,) = open_runs([trained / "em"])
    before = {name: tensor.clone() for name, tensor in opened.classifier.state_dict().items()}
    around = LossAround(opened, "own", 0, 0)
    around.grid(np.array([-1.0, 0.0, 1.0]), 1, 0)
    after = opened.classifier.state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
    assert around.at({name: 0 * tensor for name, tensor in around.weights.items()}) != pytest.approx(
        around.at(around.weights), rel=1e-3
    )


def test_a_schedule_is_at_its_end(features: Path) -> None:
    folder = train(features / "features.npz", features / "schedule", method="gr", epochs=4)
    samples = open_again(folder).splits["train"]
    logits, rows = train_logits(folder, samples), torch.arange(64)
    objective, losses = create("gr"), []
    for epoch in (0, 3):
        objective.on_epoch_start(Progress(epoch, 4))
        terms = objective(Outputs(logits, logits), Batch(samples.observed.target(rows), rows))
        losses.append(float(sum(terms.values())))
    assert losses[0] != pytest.approx(losses[1], rel=1e-3)
    assert centre(landscape([folder], points=3, samples=0, loss="own")) == pytest.approx(losses[1], rel=1e-5)


@pytest.fixture(scope="module")
def remembering(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose method has inferred soft labels for its training samples."""
    hp = {"warmup": 1, "beta": 0.5}
    folder = tmp_path_factory.mktemp("memory") / "run"
    return train_on(photos, folder, method="em_apl", hp=hp, epochs=4, select="oracle", optim={"lr": 0.003})


@pytest.mark.long
def test_labels_that_a_method_inferred_are_used(remembering: Path) -> None:
    samples = open_again(remembering).splits["train"]
    state = load_file(remembering / "objective.safetensors")
    (soft,) = [tensor for name, tensor in state.items() if name.endswith("inferred")]
    assert (soft >= 0).any()
    logits, target = train_logits(remembering, samples), samples.observed.target(range(len(samples)))
    expected, without = (
        float(em_apl_loss(logits, target, labels, alpha=0.1, beta=0.5))
        for labels in (soft, torch.full_like(soft, -1))
    )
    assert expected != pytest.approx(without, rel=1e-3)
    analysis = landscape([remembering], points=3, samples=0, loss="own")
    assert centre(analysis) == pytest.approx(expected, rel=1e-5)


def test_inferred_labels_without_their_file_are_refused(remembering: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(remembering, tmp_path / "run")
    (folder / "objective.safetensors").unlink()
    with pytest.raises(InputError, match=r"can't be restored \(objective.safetensors is missing\)"):
        landscape([folder], points=3, loss="own")
    assert np.isfinite(centre(landscape([folder], points=3, loss="full")))


def test_a_frozen_backbone_does_not_move(photos: Path, trained: Path, tmp_path: Path) -> None:
    settings = {"init_from": str(trained / "em"), "model": {"frozen": "yes"}, "method": "em"}
    folder = train_on(photos, tmp_path / "frozen", **settings)
    (opened,) = open_runs([folder])
    around = LossAround(opened, "own", 0, 0)
    assert sorted(around.weights) == ["model.head.bias", "model.head.weight"]
    samples = open_again(folder).splits["train"]
    expected = em_loss(train_logits(folder, samples), samples.observed.target(range(len(samples))))
    assert around.at(around.weights) == pytest.approx(float(expected), rel=1e-5)


def test_views_are_drawn_once(features: Path) -> None:
    (opened,) = open_runs([train(features / "features.npz", features / "views", method="plc")])
    first, second = (LossAround(opened, "own", 20, 0) for _ in range(2))
    assert first.at(first.weights) == pytest.approx(second.at(second.weights), rel=1e-6)
    assert first.samples == 20


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"points": 4}, "`points` must be an odd number of at least 3, got 4"),
        ({"points": 1}, "`points` must be an odd number of at least 3, got 1"),
        ({"radius": 0.0}, "`radius` must be greater than 0"),
        ({"radius": float("nan")}, "`radius` must be greater than 0"),
        ({"samples": -1}, "`samples` must be at least 0"),
    ],
)
def test_bad_options(trained: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        landscape([trained / "em"], **options)


def test_losses_that_do_not_exist(features: Path, tmp_path: Path) -> None:
    known = write_features(tmp_path / "known.npz", full=False)
    folder = train(known, tmp_path / "known", hide=False, method="an")
    with pytest.raises(InputError, match=r"known.npz: the true labels .* are not known.*loss=own"):
        landscape([folder], loss="full")
    ridge = train(known, tmp_path / "ridge", hide=False, model={"head": "ridge"})
    with pytest.raises(InputError, match=r"its head 'ridge' was solved in closed form.*loss=full"):
        landscape([ridge], loss="own")
    # The classes of the data are others than in training.
    with np.load(known) as stored:
        np.savez(known, X=stored["X"], Y=stored["Y"], classes=np.array(["blue", "green", "pink"]))
    with pytest.raises(InputError, match=r"has other classes than when .* was trained on it"):
        landscape([folder])
    softmax = train(features / "features.npz", tmp_path / "softmax", method="softmax")
    with pytest.raises(InputError, match=r"gives log-probabilities.*loss=own"):
        landscape([softmax], loss="full")
    samples = open_again(softmax).splits["train"]
    picked = train_logits(softmax, samples)[torch.arange(64), samples.observed.target(range(64))]
    analysis = landscape([softmax], points=3, samples=0, loss="own")
    assert centre(analysis) == pytest.approx(-float(picked.mean()), rel=1e-5)


def test_the_panels_of_several_runs(trained: Path) -> None:
    runs = [trained / "em", trained / "an"]
    curves = landscape(runs, points=3, samples=20, loss="full").figure.axes
    assert [axes.get_title(loc="left") for axes in curves] == ["em", "an"]
    assert curves[0].get_ylim() == curves[1].get_ylim()
    assert curves[0].get_ylabel() == "binary cross-entropy on full labels"
    assert {axes.get_xlabel() for axes in curves} == {"distance along the direction"}
    own = landscape(runs, points=3, samples=20, loss="own")
    assert own.figure.axes[0].get_ylim() != own.figure.axes[1].get_ylim()
    assert list(own.figure.axes[1].lines[0].get_ydata()) == list(own.table["loss"][3:])
    flat = landscape(runs, points=3, samples=20, dimensions=2, loss="own").figure.axes
    assert [axes.get_ylabel() for axes in flat] == ["second direction"] * 2 + ["training loss"] * 2
    for bar in flat[2:]:
        texts = [text.get_text().replace("\N{MINUS SIGN}", "-") for text in bar.get_yticklabels()]
        assert 2 <= len(texts) <= 5
        assert all(re.fullmatch(r"-?\d+(\.\d{1,3})?", text) for text in texts)  # no 0.00572
        low, high = bar.get_ylim()
        assert all(low <= float(text) <= high for text in texts)
    assert [text.get_text() for text in flat[0].get_xticklabels()][::2] == [
        "\N{MINUS SIGN}1.0", "0.0", "1.0",
    ]  # fmt: skip


def test_the_command_writes_picture_and_numbers(trained: Path, photos: Path, tmp_path: Path) -> None:
    run = str(trained / "em")
    for figure, options in (
        ("landscape", ["--dimensions", "2", "--points", "3", "--samples", "10"]),
        ("maps", ["--images", "1", "--threshold", "0"]),
        ("predictions", ["--split", "train", "--images", "2"]),
    ):
        main(["analyse", figure, run, *options, "--output", str(tmp_path)])
        assert (tmp_path / f"{figure}.png").read_bytes()[:4] == b"\x89PNG"
        assert "<svg" in (tmp_path / f"{figure}.svg").read_text()
    lines = (tmp_path / "landscape.csv").read_text().splitlines()
    assert lines[0] == "run,x,y,loss"
    assert len(lines) == 10
    assert lines[1].startswith("em,-1.0,-1.0,")
    assert len((tmp_path / "maps.csv").read_text().splitlines()) == 1 + 3 * 9
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 1 + 2 * 3
