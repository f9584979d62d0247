"""SMILE on tables: graph of samples, soft labels inferred on it, and their training next to a model."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch
from sklearn.neighbors import kneighbors_graph

import spml
from spml.common.errors import InputError
from spml.config import from_dict
from spml.decisions.selection import Judge
from spml.engine import Trainer
from spml.labels import ObservedLabels
from spml.losses import smile_loss
from spml.methods import label_graph
from spml.methods.base import Batch, Facts, Outputs
from spml.methods.label_graph import GraphEnhancement, nearest
from spml.methods.registry import create
from tests.helpers.training import FABRIC, Net, make_data
from tests.reference import smile

N, Q, C = 20, 6, 4
CLASSES = ("tree", "bird", "sea", "dog")
X = torch.randn(N, Q, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
OBSERVED = ObservedLabels.from_index(np.arange(N) % C, C)
FACTS = Facts(OBSERVED, tuple(map(str, range(N))), CLASSES, width=Q)


def start(features=X, facts=FACTS, **hp):
    torch.manual_seed(1)
    objective = create("smile", {"enhancement": "graph", **hp})
    objective.on_fit_start(dataclasses.replace(facts, width=features.shape[1]))
    objective.double().on_features(features)
    return objective


def batch_of(rows, observed=OBSERVED, seed=0):
    rows = torch.as_tensor(rows)
    return Batch(observed.target(rows), rows, seed)


def matrices(*layers):
    return [(layer.weight.detach().numpy().T, layer.bias.detach().numpy()) for layer in layers]


# -- the graph -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [1 << 24, 50])
def test_neighbours_are_those_of_scikit_learn(block, monkeypatch):
    monkeypatch.setattr(label_graph, "_BLOCK", block)
    points = np.random.default_rng(0).normal(1e4, 1, (60, 3)).astype(np.float32)
    found = nearest(torch.from_numpy(points), 3).numpy()
    adjacency = np.zeros((60, 60))
    np.put_along_axis(adjacency, found, 1, 1)
    expected = kneighbors_graph(points.astype(np.float64), 3, mode="connectivity", include_self=False)
    assert np.array_equal(adjacency, expected.toarray())
    points[7] = points[31]
    assert 31 in nearest(torch.from_numpy(points), 3)[7], "a copy of a sample was left out in its place"


def test_a_graph_of_too_many_samples_is_refused_before_training():
    objective = create("smile")
    many = dataclasses.replace(FACTS, ids=("",) * 200_000, width=1280)
    with pytest.raises(InputError, match=r"each of 200,000 training samples .* up to 125,000 samples"):
        objective.on_fit_start(many)
    objective.on_fit_start(dataclasses.replace(many, width=Q))
    create("smile", {"enhancement": "predictions"}).on_fit_start(FACTS)


@pytest.mark.shared
def test_the_graph_is_that_of_the_released_code(shared):
    folder = shared / "goldens" / "networks"
    with np.load(folder / "inputs.npz") as inputs, np.load(folder / "discrete.npz") as released:
        for name in ("s12", "s20"):
            features = inputs[f"{name}/x"]
            found = nearest(torch.from_numpy(features), 3).numpy()
            adjacency = np.zeros((len(features), len(features)))
            np.put_along_axis(adjacency, found, 1, 1)
            assert np.array_equal(adjacency, released[f"smile_tab_graph|{name}|adj"])


def test_labels_of_a_batch_are_those_of_two_convolutions_over_all_samples():
    graph = start().graph
    adjacency = smile.graph(X.numpy())
    expected = smile.enhanced(X.numpy(), adjacency, matrices(graph.conv1, graph.conv2, graph.last))
    position = np.argsort(np.argsort(CLASSES))
    for rows in (np.arange(N), np.array([3]), np.array([17, 2, 9]), np.array([], np.int64)):
        found = graph(torch.from_numpy(rows)).detach().numpy()
        np.testing.assert_allclose(found, expected[rows][:, position], rtol=1e-12)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_fewer_samples_than_neighbours(count):
    objective = start(X[:count], dataclasses.replace(FACTS, observed=OBSERVED.take(range(count))))
    terms = objective(Outputs(X[:count, :C], X[:count]), batch_of(range(count)))
    assert all(term.isfinite() for term in terms.values())


# -- the losses ------------------------------------------------------------------------------------------


def test_both_losses_equal_the_slow_references():
    hp = {"prior": 0.05, "mu": 0.4, "rate": 0.3, "gamma": 0.2, "delta": 0.7}
    objective, rows = start(**hp), np.array([11, 3, 8, 4, 19])
    graph, z = objective.graph, X[rows, :C]
    order = graph.order.numpy()
    d = graph(torch.from_numpy(rows)).detach().numpy()[:, order]
    code = graph.code(torch.from_numpy(np.concatenate([X[rows], d], 1))).detach().numpy()
    rebuilt = graph.decoder(torch.from_numpy(np.concatenate([d, code], 1))).detach().numpy()
    y = np.random.default_rng(0).random((5, C))
    with smile.drawn(torch.from_numpy(y[np.argsort(rows)])):
        terms = objective(Outputs(z, X[rows]), batch_of(rows))
    target = OBSERVED.take(rows).to_ternary()
    adjacency = smile.graph(X.numpy())[np.ix_(rows, rows)]
    expected = smile.vae(d, y, target[:, order], X[rows].numpy(), rebuilt, adjacency, 0.2, 0.7)
    assert terms["vae"].item() == pytest.approx(expected, rel=1e-10)
    soft = 0.4 * d[:, order.argsort()] + 0.6 * np.where(target == 1, 1, 0.05)
    loss = smile_loss(z, batch_of(rows).target, torch.from_numpy(soft), unknown_weight=0.3)
    assert terms["smile"].item() == pytest.approx(loss.item(), rel=1e-12)


def test_draws_follow_the_seed_of_the_step():
    objective, outputs = start(gamma=1.0), Outputs(X[:5, :C], X[:5])
    losses = [objective(outputs, batch_of(range(5), seed=seed))["vae"].item() for seed in (1, 1, 2)]
    assert losses[0] == losses[1] != losses[2]


def test_drawn_labels_have_the_soft_labels_as_means():
    share = torch.tensor([[0.2, 0.7, 0.5, 0.9]], dtype=torch.float64)
    batch = Batch(torch.zeros(4000, dtype=torch.int64), torch.arange(4000), 5)
    order = torch.tensor([2, 0, 1, 3])
    a = share.expand(4000, 4)
    drawn = label_graph._draw_labels(a, 1 - a, batch, order)
    deviation = (share * (1 - share) / 2 / 4000).sqrt()  # of Beta(a, 1 - a), whose parameters add up to 1
    assert ((drawn.mean(0) - share).abs() < 4 * deviation).all()


def test_a_diverged_training_ends_with_a_loss_that_is_not_finite():
    objective = start()
    with torch.no_grad():
        objective.graph.last.bias.fill_(torch.nan)
    terms = objective(Outputs(X[:5, :C], X[:5]), batch_of(range(5)))
    assert terms["vae"].isnan()
    assert terms["smile"].isfinite()


def test_graph_and_classifier_are_trained_by_losses_of_their_own():
    """The released code has an optimiser for each. The soft target is detached."""
    objective, z = start(mu=0.9), X[:5, :C].clone().requires_grad_()
    terms, parameters = objective(Outputs(z, X[:5]), batch_of(range(5))), [*objective.parameters()]
    of_classifier = torch.autograd.grad(terms["smile"], [z, *parameters], allow_unused=True)
    assert [each is not None for each in of_classifier] == [True] + [False] * len(parameters)
    of_graph = torch.autograd.grad(terms["vae"], [z, *parameters], allow_unused=True)
    assert [each is not None for each in of_graph] == [False] + [True] * len(parameters)


# -- in the engine ---------------------------------------------------------------------------------------


def make_trainer(folder, epochs=4):
    """A network that is trained on features: those of its body change, but the test is of the loop alone."""
    torch.manual_seed(0)
    data, settings = make_data(), {"method": "smile", "epochs": epochs, "batch_size": 16, "seed": 3}
    train, objective = data.splits["train"], create("smile")
    objective.on_fit_start(Facts(train.observed, train.ids, data.classes, width=16))
    model = Net()
    judge = Judge(data.splits["val"], None, "observed", None)
    config = from_dict({**settings, "optim": {"lr": 0.01}})
    return Trainer(config, FABRIC, model, model.head, objective, data, judge, folder=folder)


def test_resumed_training_equals_one_without_a_break(tmp_path):
    expected = make_trainer(None)
    expected.fit()
    first = make_trainer(tmp_path)
    first.on_step = lambda samples: first._request_stop() if first.state.step == 11 else None
    with pytest.raises(spml.engine.Interrupted):
        first.fit()
    resumed = make_trainer(tmp_path)
    resumed.fit(resume=True)
    for part in ("model", "objective"):
        states = [getattr(trainer, part).state_dict() for trainer in (expected, resumed)]
        assert states[0].keys() == states[1].keys()
        assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert torch.equal(expected.objective.graph.collected, first.objective.graph.collected)


@pytest.mark.long
@pytest.mark.parametrize("source", ["table", "frozen"])
def test_the_features_are_those_of_the_head(source, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(
        GraphEnhancement, "set_features",
        lambda self, features, original=GraphEnhancement.set_features: (
            seen.append((self.conv1.in_features, features)), original(self, features)
        ),
    )  # fmt: skip
    settings = {"method": "smile", "epochs": 2, "threads": 1, "quiet": True, "output": str(tmp_path / "run")}
    if source == "table":
        data = make_data()
        inputs = data.splits["train"].inputs.fetch(range(100)).numpy()
        np.savez(tmp_path / "x.npz", X=5 * inputs + 3, Y=data.truth["train"].to_ternary() == 1)
        settings |= {"source": str(tmp_path / "x.npz"), "model": {"scaling": "standard"}}
        settings["data"] = {"unlisted": "negative", "observe": "single"}
    else:
        model = {"backbone": "test_efficientnet", "weights": "random", "frozen": "yes"}
        settings |= {"source": "digits", "model": model, "data": {"sample_rows": 60}}
    run = spml.train(settings.pop("source"), **settings)
    ((width, features),) = seen
    assert features.shape[1] == width == run.classifier.top.num_features
    if source == "table":
        assert features.std(0).numpy() == pytest.approx(np.ones(width), abs=0.02)
    history = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    assert history[1]["train/vae"] < history[0]["train/vae"]


def test_features_that_change_leave_averaged_predictions(tmp_path, capsys):
    settings = {"method": "smile", "epochs": 1, "threads": 1, "data": {"sample_rows": 60}}
    run = spml.train("digits", output=str(tmp_path / "auto"), **settings)
    assert (
        "method 'smile' uses the features of all training samples, which change while the backbone is trained"
        in capsys.readouterr().err
    )
    assert "train/vae" not in (run.folder / "metrics.jsonl").read_text()
    with pytest.raises(InputError, match=r"pass model\.frozen=yes or hp\.enhancement='predictions'"):
        spml.train("digits", output=str(tmp_path / "graph"), hp={"enhancement": "graph"}, **settings)
    assert not (tmp_path / "graph").exists()


def test_a_combination_passes_features_on():
    objective = create("combine", {"weights": {"an": 1.0, "smile": 0.5}})
    assert objective.needs.features
    objective.on_fit_start(FACTS)
    objective.double().on_features(X)
    alone = start()
    alone.load_state_dict(objective.parts["smile"].state_dict())
    outputs, batch = Outputs(X[:5, :C], X[:5]), batch_of(range(5))
    for name, term in alone(outputs, batch).items():
        assert objective(outputs, batch)[f"smile/{name}"].item() == pytest.approx(0.5 * term.item())
