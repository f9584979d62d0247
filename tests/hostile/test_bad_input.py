"""A user's mistake: exit code 2, one clear message, nothing written, nothing lost."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from spml.cli.main import main
from spml.common import files
from spml.engine.checkpoint import load_checkpoint
from tests.helpers.commands import FAST, execute, fails
from tests.helpers.streams import NO_SPACE, open_full, open_pipe_without_reader

FAST = [*FAST, "--epochs", "1", "--threads", "1"]


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    """A feature file with two known labels per row."""
    generator = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("data") / "features.npz"
    labels = np.eye(3, dtype=np.uint8)[generator.integers(0, 3, 60)]
    np.savez(
        path, X=generator.normal(size=(60, 8)).astype(np.float32), Y=labels, classes=np.array(list("abc"))
    )
    return path


@pytest.fixture(scope="module")
def run(features, tmp_path_factory):
    """A finished run on features."""
    output = tmp_path_factory.mktemp("runs") / "run"
    execute("train", features, "--method gr --epochs 2 --threads 1 --output", output)
    return output


@pytest.fixture(scope="module")
def places(photos, features, run, tmp_path_factory):
    """Data and a run by the names that rows of the table use for them; no row may change them."""
    tmp_path = tmp_path_factory.mktemp("places")
    for name in ("empty", "one", "folder.json"):
        (tmp_path / name).mkdir()
    shutil.copytree(photos / "red", tmp_path / "one" / "red")
    shutil.copytree(photos, tmp_path / "broken")
    (tmp_path / "broken" / "red" / "broken.png").write_bytes(b"not an image")
    for name in ("file", "data.txt", "data.arff"):
        (tmp_path / name).write_text("file,label")
    (tmp_path / "config.yaml").write_text("optim: {learning_rate: 1}")
    np.savez(tmp_path / "wide.npz", X=np.zeros((3, 9), np.float32))
    labels = np.eye(3, dtype=np.uint8)[[0, 1, 2, 0]]
    np.savez(tmp_path / "other.npz", X=np.zeros((4, 8), np.float32), Y=labels, classes=["a", "b", "bb"])
    words = {"fast": " ".join(FAST), "long": "a" * 240}  # that of the temporary file would be too long
    return {"photos": photos, "features": features, "run": run, "tmp": tmp_path, **words}


REFUSED = [
    ("train", "no data: name a folder"),
    ("train {tmp}/nowhere", "no such file or folder"),
    ("train {tmp}/empty", "holds no folder with images"),
    ("train {tmp}/one {fast}", "only one class, 'red'"),
    ("train {photos} --config {tmp}/config.yaml", "unknown setting 'optim.learning_rate'"),
    ("train {photos} {fast} --method grr", "Did you mean gr"),
    ("train {photos} --backbone resnet51 --weights random", "resnet50"),
    ("train {photos} {fast} --method em --hp.alpa 0.1", "no hyper-parameter 'alpa'. Did you mean alpha?"),
    ("train {photos} {fast} --method em --hp.alpha -1", "alpha must be greater than 0, got -1"),
    ("train {photos} {fast} --method em --hp.alpha abc", "alpha must be a number, got 'abc'"),
    ("train {photos} {fast} --method gr --hp.sigma [1,2,3]", "sigma must be a number or [start, end]"),
    ("train {photos} {fast} --method bce", "data.unlisted=negative"),
    ("train {photos} {fast} --select oracle", "select=oracle needs"),
    ("train {photos} {fast} --epochs 0", "epochs must be at least 1, got 0"),
    ("train {photos} {fast} --epochs many", "epochs"),
    ("train {photos} {fast} --batch_size -4", "batch_size must be at least 1"),
    ("train {photos} {fast} --optim.lr 0", "optim.lr must be greater than 0"),
    ("train {photos} {fast} --optim.ema 1", "optim.ema must be in [0, 1)"),
    ("train {photos} {fast} --data.val_share 1.5", "data.val_share must be between 0 and 1"),
    ("train {photos} {fast} --seed 99999999999999999999", "seed must be from 0 to 2^32 - 1"),
    ("train {photos} {fast} --threads 1000000", "threads must be from 0 to 1024"),
    ("train {photos} {fast} --data.size 100000000", "data.size must be auto, or numbers from 0 to 8192"),
    ("train {photos} {fast} --data.max_unreadable -1", "data.max_unreadable must be in [0, 1]"),
    ("train {photos} {fast} --data.max_unreadable .nan", "data.max_unreadable must be in [0, 1]"),
    ("train {photos} {fast} --no_such_setting 1", "no_such_setting"),
    ("train {features} --method gr --hp.k scar", "`mean_labels`"),
    ("train {features} --method an --mean_labels 3", "between 0 and the 3 classes, got 3"),
    ("train {features} --method gr --mean_labels 3", "between 0 and the 3 classes, got 3"),
    ("train {features} --mean_labels 0", "greater than 0, got 0"),
    ("train {features} --accelerator foo", "1 x foo is not possible"),
    ("train {features} --optim.head_lr_factor -1", "head_lr_factor must be greater"),
    ("train {features} --output {tmp}/file", "is a file"),
    ("train {features} --output {tmp}/file/run", "{tmp}/file is a file"),
    ("demo --output {tmp}/{long}{long}", "can't be made (File name too long)"),
    ("train {features} --output {run}", "(`resume`)"),
    ("train {features} --output {run}", "(`overwrite`)"),
    ("train {features} --output {tmp}/new --resume", "holds no run to resume"),
    ("train {features} --output {run} --resume --epochs 9", "epochs"),
    ("train {photos} --backbone small_cnn --data.size 7 --epochs 1", "data.size must be at least 8, got 7"),
    ("train {tmp}/broken {fast}", "broken.png"),
    ("predict {run} {tmp}/wide.npz", "takes 8 features per sample, but the data has 9"),
    ("predict {run} {photos}", "takes features, but the data holds images"),
    ("predict {tmp} {features}", "{tmp}"),
    ("predict {run} {features} --device foo", "device foo is not possible here"),
    ("predict {run} {features} --batch_size 0", "batch_size must be at least 1"),
    ("predict {run} {tmp}/data.txt", "one .npz file can be predicted, not .txt files"),
    ("predict {run} {tmp}/data.arff", "one .npz file can be predicted, not .arff files"),
    ("predict {run} {features} --output {features} --format csv", "is read as input and would be replaced"),
    ("predict {run} {tmp}/one --output {tmp}/one/red/00.png --format csv", "would be replaced"),
    # The run is not there either, but the output is looked at before it.
    ("predict {tmp}/no-run {features} --output {tmp}/missing/tags.jsonl", "{tmp}/missing: no such folder"),
    ("predict {tmp}/no-run {features} --output {tmp}/{long}.jsonl", "can't be written (File name too long)"),
    ("evaluate {tmp}/no-run {features} --output {tmp}/missing/tags.json", "{tmp}/missing: no such folder"),
    ("evaluate {tmp}/no-run {features} --output {tmp}/folder.json", "is a folder; `output` must name a file"),
    ("evaluate {run} {features} --output {run}/model.json", "would be replaced"),
    ("evaluate {run} {tmp}/other.npz", "has the class 'bb', which the model"),
    ("evaluate {run} {features} --split val", "has no 'val' split"),
    ("evaluate {run} {features} --mean_labels -1", "between 0 and the 3 classes"),
    ("demo --workers -1", "`workers` must be at least 0"),
]


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("command", "message"), REFUSED, ids=[command for command, _ in REFUSED])
def test_refused_in_one_message(capsys, places, command, message):
    words = command.format(**places).split()
    if words[0] == "train" and "--output" not in words:
        words += ["--output", places["tmp"] / "out"]
    before = [contents(places[name]) for name in ("tmp", "run")]
    assert message.format(**places) in fails(capsys, *words)
    assert [contents(places[name]) for name in ("tmp", "run")] == before, "something was written"
    assert not (places["tmp"] / "out").exists()


def test_unreadable_images_are_skipped_counted_and_named(capsys, places, tmp_path):
    output = tmp_path / "run"
    execute("train", places["tmp"] / "broken", FAST, "--data.max_unreadable 0.1 --output", output)
    assert "broken.png" in capsys.readouterr().err
    assert "broken.png" in (output / "skipped.csv").read_text()
    assert json.loads((output / "summary.json").read_text())["data"]["skipped"] == 1


def test_overwrite_replaces_the_run_and_keeps_other_files(tmp_path, features):
    (tmp_path / "mine.txt").write_text("mine")
    command = ["train", features, "--method", "gr", "--threads", "1", "--output", tmp_path, "--epochs"]
    execute(*command, "1")
    execute(*command, "2", "--overwrite")
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 2
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_a_full_disk_in_training_exits_with_1_and_keeps_the_last_checkpoint(
    capsys, tmp_path, features, monkeypatch
):
    command = f"train {features} --method gr --epochs 4 --threads 1 --output {tmp_path / 'run'}"
    written, fsync = [], files.os.fsync

    def full(fd):
        written.append(fd)
        if len(written) > 4:
            raise OSError(28, "No space left on device")
        fsync(fd)

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", full)
        assert "No space left on device" in fails(capsys, command, code=1)
    assert load_checkpoint(tmp_path / "run")["loop"]["epoch"] >= 1
    execute(command, "--resume")
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 4


def test_a_loss_that_explodes_exits_with_1(capsys, tmp_path, features):
    options = "--method gr --optim.name sgd --optim.lr 1e38 --threads 1 --epochs 3 --output"
    said = fails(capsys, "train", features, options, tmp_path / "run", code=1)
    assert "NaN or infinite" in said
    assert "learning rate 1e+38" in said


def test_an_earlier_evaluation_may_be_replaced(run, features):
    output = run / "evaluation.json"
    for _ in range(2):
        main(["evaluate", str(run), str(features), "--output", str(output)])
        assert json.loads(output.read_text())["samples"] == 60
        output.write_text('{"samples": 0}')


def test_an_evaluation_that_can_not_be_written_is_told_first(capsys, monkeypatch, run):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files, "open", refuse, raising=False)
    said = fails(capsys, "evaluate", run, ["no data"])
    assert f"{run / 'evaluation.json'}: can't be written (Permission denied)" in said


def test_a_model_that_may_not_be_read(capsys, monkeypatch, run, features):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("spml.models.classifier.sha256_file", refuse)
    said = fails(capsys, "predict", run, features)
    assert said == (
        f"spml predict: {run}: the model can't be read (Permission denied). Check the disk, or restore a "
        "copy of the folder.\n"
    )


@pytest.mark.parametrize("make_output", [open_full, open_pipe_without_reader])
def test_predictions_that_can_not_be_written(capsys, monkeypatch, run, features, make_output):
    monkeypatch.setattr("sys.stdout", make_output())
    code, said = (1, NO_SPACE) if make_output is open_full else (141, "")
    assert said in fails(capsys, "predict", run, features, code=code)


def test_a_class_whose_name_would_part_labels(capsys, tmp_path, features):
    with np.load(features) as stored:
        np.savez(tmp_path / "f.npz", **{**stored, "classes": np.array(["a;b", "c", "d"])})
        np.savez(tmp_path / "x.npz", X=stored["X"])
    execute("train", tmp_path / "f.npz", "--head ridge --output", tmp_path / "run")
    execute("predict", tmp_path / "run", tmp_path / "x.npz")
    assert '"[""a;b""' in capsys.readouterr().out  # a JSON list
