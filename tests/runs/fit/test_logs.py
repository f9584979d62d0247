"""Logs of a training: event files are read back, other programs are replaced by records of their calls."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import sys
import types
from collections import namedtuple

import numpy as np
import pytest
import timm
from safetensors.torch import save_model

import spml
from spml.common.errors import InputError
from spml.runs.fit.logs import _LOGS
from tests.helpers.commands import fails
from tests.helpers.features import make_features
from tests.helpers.photos import make_photos
from tests.helpers.training import stopping_after


@pytest.fixture
def settings(tmp_path):
    data = {"path": str(make_features(tmp_path / "x.npz")), "unlisted": "negative", "observe": "single"}
    return {"data": data, "method": "an", "epochs": 3, "threads": 1, "pictures": False, "quiet": True}


def train(settings, output, logger, **options):
    settings = {**settings, "data": dict(settings["data"])}
    return spml.train(settings["data"].pop("path"), output=str(output), logger=logger, **settings, **options)


def numbers_of(record):
    return {name: value for name, value in record.items() if name not in ("epoch", "step")}


def final_of(run):
    return {
        **{f"final/{name}": value for name, value in run.summary["validation"].items()},
        **{f"final/test/{name}": value for name, value in (run.summary["test"] or {}).items()},
    }


# -- TensorBoard -----------------------------------------------------------------------------------------


def events_of(folder):
    """Scalars as (step, value) by name, and the texts."""
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    read = events.EventAccumulator(str(folder / "tensorboard"))
    read.Reload()
    scalars = {
        name: [(event.step, event.value) for event in read.Scalars(name)] for name in read.Tags()["scalars"]
    }
    texts = [event.tensor_proto.string_val[0].decode() for event in read.Tensors("settings/text_summary")]
    return scalars, texts


def single(value):
    return float(np.float32(value))


def test_event_files_hold_settings_epochs_and_the_final_metrics(settings, tmp_path):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    run = train(settings, tmp_path / "run", "tensorboard")
    scalars, (text,) = events_of(tmp_path / "run")
    assert "\n| method | `an` |\n" in text
    assert "\n| optim.name | `adamw` |\n" in text
    final = final_of(run)
    assert "final/test/mAP" in final
    for name, value in final.items():
        assert scalars.pop(name) == [(3, single(value))]
    assert scalars == {
        name: [(record["epoch"], single(record[name])) for record in run.history]
        for name in numbers_of(run.history[0])
    }


def test_a_log_changes_neither_numbers_nor_settings(settings, tmp_path):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    plain = train(settings, tmp_path / "plain", "none")
    logged = train(settings, tmp_path / "logged", "tensorboard")
    assert logged.weights_sha256 == plain.weights_sha256
    texts = [
        (tmp_path / name / "config.yaml").read_text().partition("\noutput")[0] for name in ("plain", "logged")
    ]
    assert texts[0] == texts[1]
    further = {path.name for path in (tmp_path / "logged").iterdir()} - {
        path.name for path in (tmp_path / "plain").iterdir()
    }
    assert further == {"tensorboard", "logs.json"}


def test_a_resumed_run_continues_its_event_files_and_another_one_replaces_them(settings, tmp_path):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    with stopping_after(2):
        train(settings, tmp_path / "run", "tensorboard")
    (tmp_path / "run" / "tensorboard" / "notes.txt").write_text("of the user")
    train(settings, tmp_path / "run", "tensorboard", resume=True)
    scalars, texts = events_of(tmp_path / "run")
    assert [step for step, _ in scalars["train/loss"]] == [1, 2, 3]
    assert len(texts) == 1
    train({**settings, "epochs": 1}, tmp_path / "run", "tensorboard", overwrite=True)
    assert [step for step, _ in events_of(tmp_path / "run")[0]["train/loss"]] == [1]
    train(settings, tmp_path / "run", "none", overwrite=True)
    assert [path.name for path in (tmp_path / "run" / "tensorboard").iterdir()] == ["notes.txt"]


@pytest.mark.long
def test_both_runs_of_a_fine_tuning_have_a_log(tmp_path):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    weights = tmp_path / "weights.safetensors"
    save_model(timm.create_model("test_efficientnet"), weights)
    spml.train(
        make_photos(tmp_path / "photos", per_class=8), method="auto", epochs=1, threads=1, quiet=True,
        model={"backbone": "test_efficientnet", "weights": str(weights), "frozen": "no"}, pictures=False,
        data={"size": 32, "workers": 0}, output=str(tmp_path / "run"), logger="tensorboard",
    )  # fmt: skip
    assert "train/loss" in events_of(tmp_path / "run" / "fine-tuned")[0]
    assert "train/loss" not in events_of(tmp_path / "run" / "head")[0]


# -- Weights & Biases and MLflow -------------------------------------------------------------------------


def install(monkeypatch, name, **content):
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    vars(module).update(content)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture
def wandb(monkeypatch):
    """Calls of wandb, of which `wandb.fail` may be made to fail."""
    calls = types.SimpleNamespace(init=[], settings=[], log=[], finish=[], fail="")

    def record(name):
        def call(*values, **options):
            if calls.fail == name:
                raise OSError(f"{name} failed\nfor a reason")
            getattr(calls, name).append((*values, options))

        return call

    def init(**options):
        record("init")(**options)
        config = types.SimpleNamespace(update=record("settings"))
        return types.SimpleNamespace(
            id=options["id"] or f"id{len(calls.init)}",
            config=config,
            log=record("log"),
            finish=record("finish"),
        )

    install(monkeypatch, "wandb", init=init)
    return calls


def test_the_calls_of_wandb(settings, tmp_path, wandb):
    run = train(settings, tmp_path / "run", "wandb")
    folder = str(tmp_path / "run")
    expected = {"dir": folder, "name": folder, "id": None, "resume": "allow", "reinit": "create_new"}
    assert wandb.init == [(expected,)]
    [(logged, _)] = wandb.settings
    assert logged["method"] == "an"
    assert logged["optim.lr"] == run.config.optim.lr
    assert wandb.log == [
        *((numbers_of(record), {"step": record["epoch"]}) for record in run.history),
        (final_of(run), {"step": 3}),
    ]
    assert wandb.finish == [({"exit_code": 0},)]


def test_a_resumed_run_is_the_same_for_wandb_and_another_one_is_not(settings, tmp_path, wandb):
    with stopping_after(2):
        train(settings, tmp_path / "run", "wandb")
    assert wandb.finish == [({"exit_code": 1},)]
    train(settings, tmp_path / "run", "wandb", resume=True)
    assert [options["id"] for (options,) in wandb.init] == [None, "id1"]
    assert json.loads((tmp_path / "run" / "logs.json").read_text()) == {"wandb": "id1"}
    assert [options["step"] for _, options in wandb.log] == [1, 2, 3, 3]
    assert len(wandb.settings) == 1
    train(settings, tmp_path / "run", "wandb", overwrite=True)
    assert wandb.init[2][0]["id"] is None
    assert len(wandb.settings) == 2


@pytest.mark.parametrize("broken", ["log", "finish"])
def test_a_log_that_fails_is_given_up_and_the_training_goes_on(settings, tmp_path, wandb, broken, capsys):
    wandb.fail = broken
    run = train({**settings, "quiet": False}, tmp_path / "run", "wandb")
    assert len(run.history) == 3
    notes = [line for line in capsys.readouterr().err.splitlines() if "nothing more is logged" in line]
    assert notes == [f"note: nothing more is logged with wandb: OSError: {broken} failed"]


def test_a_log_that_can_not_be_opened_is_said_before_the_training(settings, tmp_path, wandb):
    wandb.fail = "init"
    with pytest.raises(InputError, match=r"logger=wandb can't be used \(OSError: init failed\)\. Correct"):
        train(settings, tmp_path / "run", "wandb")
    assert not (tmp_path / "run").exists()


def test_a_solved_head_has_settings_and_final_metrics(settings, tmp_path, wandb):
    run = train({**settings, "method": "", "head": "ridge"}, tmp_path / "run", "wandb")
    assert len(run.history) > 1
    assert wandb.settings[0][0]["model.head"] == "ridge"
    assert wandb.log == [(final_of(run), {"step": 0})]


@pytest.fixture
def mlflow(monkeypatch):
    """Calls of mlflow, whose tracking address is `mlflow.address`."""
    calls = types.SimpleNamespace(address="", clients=[], experiments={}, runs=[], batches=[], status=[])
    Run = namedtuple("Run", "info")

    class Client:
        def __init__(self, address):
            calls.clients.append(address)

        def get_experiment_by_name(self, name):
            known = calls.experiments.get(name)
            return known and types.SimpleNamespace(experiment_id=known)

        def create_experiment(self, name):
            return calls.experiments.setdefault(name, str(len(calls.experiments) + 1))

        def create_run(self, experiment, run_name):
            calls.runs.append((experiment, run_name))
            return Run(types.SimpleNamespace(run_id=f"run{len(calls.runs)}"))

        def log_batch(self, run, metrics=(), params=()):
            calls.batches.append((run, [*metrics], [*params]))

        def update_run(self, run, status):
            calls.status.append((run, status))

        set_terminated = update_run

    install(
        monkeypatch, "mlflow", MlflowClient=Client, is_tracking_uri_set=lambda: bool(calls.address),
        get_tracking_uri=lambda: calls.address,
    )  # fmt: skip
    Param, Metric = namedtuple("Param", "key value"), namedtuple("Metric", "key value timestamp step")
    install(monkeypatch, "mlflow.entities", Param=Param, Metric=Metric)
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    return calls


def test_the_calls_of_mlflow(settings, tmp_path, mlflow, monkeypatch):
    run = train(settings, tmp_path / "run", "mlflow")
    assert mlflow.clients == [f"sqlite:///{(tmp_path / 'run').as_posix()}/mlflow.db"]
    assert mlflow.runs == [("1", str(tmp_path / "run"))]
    assert {"method": "an", "epochs": "3"}.items() <= dict(mlflow.batches[0][2]).items()
    logged = [({each.key: each.value for each in batch}, {each.step for each in batch})
              for _, batch, params in mlflow.batches[1:]]  # fmt: skip
    assert logged == [
        *((numbers_of(record), {record["epoch"]}) for record in run.history), (final_of(run), {3}),
    ]  # fmt: skip
    assert mlflow.status == [("run1", "RUNNING"), ("run1", "FINISHED")]
    mlflow.address = "http://tracking:5000"
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "photos")
    train(settings, tmp_path / "other", "mlflow")
    assert mlflow.clients[1] == "http://tracking:5000"
    assert mlflow.experiments == {"spml": "1", "photos": "2"}
    assert mlflow.runs[1] == ("2", str(tmp_path / "other"))


def test_a_resumed_run_is_the_same_for_mlflow(settings, tmp_path, mlflow):
    with stopping_after(1):
        train(settings, tmp_path / "run", "mlflow")
    train(settings, tmp_path / "run", "mlflow", resume=True)
    assert len(mlflow.runs) == 1
    assert [status for _, status in mlflow.status] == ["RUNNING", "FAILED", "RUNNING", "FINISHED"]
    assert [bool(params) for _, _, params in mlflow.batches] == [True, False, False, False, False]


# -- refusals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", _LOGS)
def test_a_missing_package_is_named_before_the_training(settings, tmp_path, name, monkeypatch, capsys):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda each, *rest: None if each == name else real(each, *rest)
    )
    said = fails(capsys, "train", settings["data"]["path"], "--output", tmp_path / "run", "--logger", name)
    assert f"pip install {name} (the extra `{name}`)." in said
    assert not (tmp_path / "run").exists()


def test_a_logger_that_does_not_exist(settings, tmp_path):
    with pytest.raises(InputError, match=r"logger 'tensorbord' is unknown. Did you mean tensorboard\?"):
        train(settings, tmp_path / "run", "tensorbord")
    assert not (tmp_path / "run").exists()
