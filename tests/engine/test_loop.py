"""The loop: learns, resumes to the bit, says what went wrong, keeps true labels away."""

from __future__ import annotations

import dataclasses
import json
import os
import signal

import numpy as np
import pytest
import torch

from spml.common import budget
from spml.common.errors import InputError, SpmlError
from spml.decisions.selection import Judge
from spml.engine import Interrupted, Trainer, loop, predict, predict_logits
from spml.losses import an_loss
from spml.methods.base import Card, Facts, Needs, Objective
from spml.methods.registry import create
from spml.metrics import ScoreBlocks
from spml.scores import forms
from tests.helpers.training import CONFIG, FABRIC, Net, make_data
from tests.helpers.true_labels import leaks


def make_trainer(folder=None, config=CONFIG, objective=None, data=None, select="observed", **options):
    data = data or make_data()
    torch.manual_seed(config.seed)
    model = Net()
    judge = Judge(data.splits["val"], data.truth.get("val"), select, None)
    objective = objective or create(config.method, config.hp)
    train = data.splits["train"]
    objective.on_fit_start(Facts(train.observed, train.ids, data.classes))
    return Trainer(config, FABRIC, model, model.head, objective, data, judge, folder=folder, **options)


def equal_states(one, other):
    return all(torch.equal(one[key], other[key]) for key in one) and list(one) == list(other)


def without_time(state):
    """Records of the epochs except their seconds."""
    return [{key: value for key, value in record.items() if key != "seconds"} for record in state.history]


def test_training_improves_the_ranking_of_hidden_labels():
    config = dataclasses.replace(CONFIG, epochs=15, optim=dataclasses.replace(CONFIG.optim, ema=0.0))
    loop = make_trainer(config=config).fit()
    first, best = loop.history[0]["val/mAP"], loop.history[loop.best_epoch]["val/mAP"]
    assert first < 0.92 < 0.95 < best


def test_the_best_epoch_is_that_of_the_named_metric_and_its_weights_are_kept():
    for select, metric in (("observed", "val/SP"), ("oracle", "val/mAP")):
        trainer = make_trainer(select=select)
        loop = trainer.fit()
        values = [record[metric] for record in loop.history]
        assert loop.best_epoch == int(np.argmax(values))
        scores = predict_logits(trainer.model, trainer.val, FABRIC, batch_size=4 * CONFIG.batch_size)
        assert trainer.judge(scores)[metric] == values[loop.best_epoch]


def test_patience_stops_early():
    config = dataclasses.replace(
        CONFIG, epochs=50, patience=3, optim=dataclasses.replace(CONFIG.optim, lr=0.1)
    )
    loop = make_trainer(config=config).fit()
    assert len(loop.history) == loop.best_epoch + 4 < 50


def test_a_time_limit_leaves_out_the_last_epochs(monkeypatch):
    minutes = iter(range(100))  # a clock that moves a minute at each look
    monkeypatch.setattr(budget.time, "monotonic", lambda: 60.0 * next(minutes))
    monkeypatch.setattr(loop.time, "perf_counter", lambda: 0.0)
    state = make_trainer(budget=budget.Budget(3)).fit()
    assert [record["epoch"] for record in state.history] == [1, 2, 3]
    assert state.finished


def test_scores_of_recorded_samples_are_handed_over_before_the_first_and_after_each_epoch(whole):
    data, received = make_data(), {}
    recorded = (data.splits["val"], data.splits["train"])
    trainer = make_trainer(data=data, recorded=recorded, on_scores=received.__setitem__)
    first = predict_logits(trainer.model, data.splits["val"], FABRIC, batch_size=7)
    loop = trainer.fit()
    assert list(received) == [0, 1, 2, 3, 4]
    assert {scores.shape for scores in received.values()} == {(150, 4)}
    assert np.allclose(received[0][:50], first, atol=1e-6)
    for samples, rows in zip(recorded, (slice(0, 50), slice(50, None)), strict=True):
        best = predict_logits(trainer.model, samples, FABRIC, batch_size=64)
        assert np.allclose(received[loop.best_epoch + 1][rows], best, atol=1e-6)
    assert equal_states(loop.best, whole.state.best)


class Killed(Exception):
    """Stands for kill -9: the process is gone at this step."""


@pytest.fixture(scope="module")
def whole():
    """Trainer after a training without a break."""
    trainer = make_trainer()
    trainer.fit()
    return trainer


@pytest.mark.parametrize("step", [3, 7, 8, 14, 20])
def test_a_run_that_was_killed_ends_with_the_same_weights(tmp_path, step, whole):
    config = dataclasses.replace(CONFIG, checkpoint_steps=3)
    done = []

    def die(rows):
        done.append(rows)
        if len(done) == step:
            raise Killed

    with pytest.raises(Killed):
        make_trainer(tmp_path, config, on_step=die).fit()
    resumed = make_trainer(tmp_path, config)
    torch.manual_seed(99)
    if step <= 3:
        with pytest.raises(InputError, match="holds no checkpoint"):
            resumed.fit(resume=True)
        return
    loop = resumed.fit(resume=True)
    assert equal_states(resumed.model.state_dict(), whole.model.state_dict())
    assert equal_states(resumed.judged_model.state_dict(), whole.judged_model.state_dict())
    assert without_time(loop) == without_time(whole.state)


def test_resuming_a_finished_run_changes_nothing(tmp_path):
    trainer = make_trainer(tmp_path)
    trainer.fit()
    again = make_trainer(tmp_path)
    again.fit(resume=True)
    assert equal_states(again.model.state_dict(), trainer.model.state_dict())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_lets_the_step_finish_and_writes_a_checkpoint(tmp_path, number, whole):
    steps = []

    def interrupt(rows):
        steps.append(rows)
        if len(steps) == 10:
            os.kill(os.getpid(), number)

    handler = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    before = signal.signal(number, handler)  # a test run in the background of a shell ignores some of them
    try:
        with pytest.raises(Interrupted, match="epoch 2, step 10"):
            make_trainer(tmp_path, on_step=interrupt).fit()
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, before)
    resumed = make_trainer(tmp_path)
    resumed.fit(resume=True)
    assert equal_states(resumed.model.state_dict(), whole.model.state_dict())


def test_a_hangup_that_is_ignored_stays_ignored():
    """As under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        make_trainer(on_step=lambda rows: os.kill(os.getpid(), signal.SIGHUP)).fit()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(("step", "before"), [(10, 100 + 3 * 16), (7, 100), (28, 400)])
def test_a_resumed_training_first_reports_the_samples_that_were_done(tmp_path, step, before):
    steps, again = [], []

    def interrupt(rows):
        steps.append(rows)
        if len(steps) == step:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        make_trainer(tmp_path, on_step=interrupt).fit()
    make_trainer(tmp_path, on_step=again.append).fit(resume=True)
    assert again[0] == before
    assert sum(again) == sum(steps) + sum(again[1:]) == 4 * 100


def test_a_signal_in_the_last_validation_stops_with_everything_saved(tmp_path):
    class Signals(CountsEpochs):
        def on_epoch_end(self, progress, train_pass):
            super().on_epoch_end(progress, train_pass)
            if self.epochs == 4:
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted, match="stopped after the last epoch: training is complete"):
        make_trainer(tmp_path, objective=Signals()).fit()
    again = make_trainer(tmp_path, objective=CountsEpochs())
    assert len(again.fit(resume=True).history) == 4


def test_the_loss_of_the_first_step_is_kept(tmp_path):
    class Constant(CountsEpochs):
        """The loss of a step is its number."""

        steps = 6.0

        def forward(self, outputs, batch):
            self.steps += 1
            return {name: 0 * outputs.logits.sum() + self.steps / 2 for name in ("one", "other")}

    assert make_trainer(tmp_path, objective=Constant()).fit().start_loss == 7.0
    assert make_trainer(tmp_path, objective=Constant()).fit(resume=True).start_loss == 7.0


def test_changed_data_is_not_resumed(tmp_path):
    make_trainer(tmp_path, identity="a").fit()
    with pytest.raises(InputError, match="data changed"):
        make_trainer(tmp_path, identity="b").fit(resume=True)


class Judged:
    """A judge that keeps what it is given."""

    metric = "val/SP"

    def __init__(self, judge):
        self.judge, self.given = judge, []

    def __call__(self, scores):
        self.given.append(scores)
        return self.judge(scores)


def test_scores_that_do_not_fit_are_judged_in_blocks_as_the_whole_is(monkeypatch, whole):
    state = whole.state
    samples, classes = len(whole.val), len(whole.classes)
    monkeypatch.setattr(forms, "MOST_SCORES", samples * classes - 1)
    in_blocks = make_trainer()
    in_blocks.judge = Judged(in_blocks.judge)
    found = in_blocks.fit()
    assert [type(scores) for scores in in_blocks.judge.given] == [ScoreBlocks] * len(state.history)
    assert [scores.shape for scores in in_blocks.judge.given] == [(samples, classes)] * len(state.history)
    assert without_time(found) == without_time(state)
    assert equal_states(found.best, state.best)


def test_blocks_hold_few_scores_and_are_checked_in_all_classes(monkeypatch):
    monkeypatch.setattr(forms, "MOST_SCORES", 0)
    monkeypatch.setattr(predict, "_BATCH_SCORES", 35)
    trainer = make_trainer()
    expected = trainer._predict(trainer.val)
    blocks = trainer._predict_val()
    sizes = [len(rows) for rows, _ in blocks.blocks()]
    classes = len(trainer.classes)
    assert sizes[0] == 35 // classes
    assert sum(sizes) == len(trainer.val)
    np.testing.assert_allclose(np.concatenate([block for _, block in blocks.blocks()]), expected, rtol=1e-5)
    np.testing.assert_allclose(blocks.gather(np.array([1, 3])), expected[:, [1, 3]], rtol=1e-5)
    with torch.no_grad():
        trainer.judged_model.head.bias[2] = torch.nan
    trainer.state.step = 1
    with pytest.raises(SpmlError, match="scores became NaN or infinite"):
        blocks.gather(np.array([1]))


class Explodes(Objective):
    """Its second term becomes NaN at a step."""

    card = Card(title="Explodes", paper="-", year=2026, equations="-")

    def __init__(self):
        super().__init__()
        self.count = 0

    def forward(self, outputs, batch):
        self.count += 1
        fine = an_loss(outputs.logits, batch.target)
        return {"fine": fine, "bad": fine * 0 + (float("nan") if self.count == 9 else 0.0)}


def test_a_nan_loss_names_term_step_and_learning_rate(tmp_path):
    config = dataclasses.replace(CONFIG, optim=dataclasses.replace(CONFIG.optim, lr=0.02, ema=0.0))
    with pytest.raises(SpmlError, match=r"term 'bad', step 8, epoch 2, learning rate 0\.02") as caught:
        make_trainer(tmp_path, config, Explodes()).fit()
    assert caught.value.exit_code == 1
    from spml.engine.checkpoint import load_checkpoint

    state = load_checkpoint(tmp_path)
    assert state["loop"]["epoch"] == 1
    assert all(torch.isfinite(value).all() for value in state["model"].values())


class Steep(Explodes):
    """Its loss stays finite at a step whose gradient does not."""

    def forward(self, outputs, batch):
        self.count += 1
        fine = an_loss(outputs.logits, batch.target)
        return {"fine": fine, "steep": (fine - fine if self.count == 9 else fine).sqrt()}


def test_a_gradient_that_is_not_finite_is_told_when_gradients_are_clipped(tmp_path):
    """The norm is not read in the step, which would wait for the device; the next loss tells."""
    config = dataclasses.replace(CONFIG, optim=dataclasses.replace(CONFIG.optim, clip=1.0))
    with pytest.raises(SpmlError, match=r"loss became NaN or infinite: term 'fine', step 9, epoch 2"):
        make_trainer(tmp_path, config, Steep()).fit()


class Remembers(Objective):
    """Counts how often each sample was seen, and what the passes over the training set gave."""

    card = Card(title="Remembers", paper="-", year=2026, equations="-")
    needs = Needs(train_pass=True, batch_coupled=True)

    def on_fit_start(self, facts):
        self.register_buffer("seen", torch.zeros(len(facts.observed), dtype=torch.int64))
        self.register_buffer("passes", torch.zeros(0))
        self.facts = facts

    def forward(self, outputs, batch):
        return {"remembers": an_loss(outputs.logits, batch.target)}

    def after_step(self, outputs, batch):
        assert not outputs.logits.requires_grad
        self.seen[batch.index] += 1

    def on_epoch_end(self, progress, train_pass):
        logits = train_pass()
        assert logits.shape == (len(self.facts.observed), len(self.facts.classes))
        self.last = logits


def test_memory_and_passes_over_the_training_set():
    objective = Remembers()
    make_trainer(objective=objective).fit()
    assert objective.seen.tolist() == [4] * 100
    assert torch.isfinite(objective.last).all()


class CountsEpochs(Objective):
    """Its memory differs after every epoch."""

    card = Card(title="Counts epochs", paper="-", year=2026, equations="-")

    def on_fit_start(self, facts):
        self.register_buffer("epochs", torch.zeros((), dtype=torch.int64))

    def forward(self, outputs, batch):
        return {"counts": an_loss(outputs.logits, batch.target)}

    def on_epoch_end(self, progress, train_pass):
        self.epochs += 1


def test_the_memory_of_the_best_epoch_is_kept_beside_its_weights(tmp_path):
    config = dataclasses.replace(
        CONFIG, epochs=50, patience=3, optim=dataclasses.replace(CONFIG.optim, lr=0.1)
    )
    trainer = make_trainer(tmp_path, config, CountsEpochs())
    loop = trainer.fit()
    assert loop.best_objective["epochs"] == loop.best_epoch + 1 == len(loop.history) - 3
    assert trainer.objective.epochs == len(loop.history)
    again = make_trainer(tmp_path, config, CountsEpochs()).fit(resume=True)
    assert again.best_objective["epochs"] == loop.best_epoch + 1


def test_true_labels_can_not_be_reached_from_what_an_objective_is_given():
    received = []

    class Spy(Remembers):
        """Keeps all that it is given."""

        def on_fit_start(self, facts):
            super().on_fit_start(facts)
            received.append(facts)

        def after_step(self, outputs, batch):
            received.extend([outputs, batch])

        def on_epoch_end(self, progress, train_pass):
            received.extend([progress, train_pass()])

    data = make_data()
    make_trainer(objective=Spy(), data=data).fit()
    truths = [labels.to_ternary() == 1 for labels in data.truth.values()]
    assert leaks(received, truths) == []
    assert leaks([data], truths), "the search finds nothing"


def test_records_are_json_and_hold_what_the_tables_need():
    before = dataclasses.asdict(CONFIG)
    loop = make_trainer().fit()
    assert dataclasses.asdict(CONFIG) == before
    record = json.loads(json.dumps(loop.history[-1], allow_nan=False))
    assert {"epoch", "step", "lr", "train/loss", "train/gr", "val/SP", "val/P", "val/A", "val/mAP"} <= set(
        record
    )
    assert record["epoch"] == 4
    assert record["step"] == 4 * 7
