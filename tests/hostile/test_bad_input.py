"""A user's mistake: exit code 2, one clear message, nothing written, nothing lost."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from spml.cli.main import main
from spml.common import files
from spml.common.errors import InputError
from spml.runs.folder.layout import clear
from tests.helpers.commands import FAST, fails
from tests.helpers.streams import NO_SPACE, open_full, open_pipe_without_reader

FAST += ["--epochs", "1", "--threads", "1"]


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
    main(["train", str(features), "--epochs", "2", "--threads", "1", "--output", str(output)])
    return output


def train_fails(capsys, tmp_path, *arguments, code=2):
    output = tmp_path / "out"
    said = fails(capsys, "train", *arguments, "--output", output, code=code)
    assert not output.exists(), "something was written"
    return said


@pytest.fixture
def places(photos, features, run, tmp_path):
    """Data and a run by the names that rows of the table use for them."""
    for name in ("empty", "one"):
        (tmp_path / name).mkdir()
    shutil.copytree(photos / "red", tmp_path / "one" / "red")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "config.yaml").write_text("optim: {learning_rate: 1}")
    np.savez(tmp_path / "wide.npz", X=np.zeros((3, 9), np.float32))
    labels = np.eye(3, dtype=np.uint8)[[0, 1, 2, 0]]
    np.savez(tmp_path / "other.npz", X=np.zeros((4, 8), np.float32), Y=labels, classes=["a", "b", "bb"])
    return {"photos": photos, "features": features, "run": run, "tmp": tmp_path, "fast": " ".join(FAST)}


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
    ("predict {run} {tmp}/wide.npz", "takes 8 features per sample, but the data has 9"),
    ("predict {run} {photos}", "takes features, but the data holds images"),
    ("predict {tmp} {features}", "{tmp}"),
    ("predict {run} {features} --device foo", "device foo is not possible here"),
    ("predict {run} {features} --batch_size 0", "batch_size must be at least 1"),
    ("evaluate {run} {tmp}/other.npz", "has the class 'bb', which the model"),
    ("evaluate {run} {features} --split val", "has no 'val' split"),
    ("evaluate {run} {features} --mean_labels -1", "between 0 and the 3 classes"),
    ("demo --workers -1", "`workers` must be at least 0"),
]


@pytest.mark.parametrize(("command", "message"), REFUSED, ids=[command for command, _ in REFUSED])
def test_refused_in_one_message(capsys, places, command, message):
    words = command.format(**places).split()
    if words[0] == "train" and "--output" not in words:
        words += ["--output", places["tmp"] / "out"]
    assert message.format(**places) in fails(capsys, *words)
    assert not (places["tmp"] / "out").exists(), "something was written"
    assert (places["tmp"] / "file").read_text() == "mine"


def test_images_too_small_for_the_small_network(capsys, tmp_path, photos):
    arguments = ["--model.backbone", "small_cnn", "--data.size", "7", "--epochs", "1", "--data.workers", "0"]
    said = fails(capsys, "train", photos, *arguments, "--output", tmp_path / "small")
    assert "data.size must be at least 8, got 7" in said
    arguments[3] = "8"
    main(["train", str(photos), *arguments, "--output", str(tmp_path / "eight")])


def test_weights_that_do_not_fit_name_the_keys(capsys, tmp_path, photos):
    import timm

    state = timm.create_model("test_efficientnet", pretrained=False).state_dict()
    state["conv_stem.extra"] = torch.ones(1)
    del state["bn1.weight"]
    save_file(state, tmp_path / "weights.safetensors")
    options = ["--model.backbone", "test_efficientnet", "--model.weights", tmp_path / "weights.safetensors"]
    said = train_fails(capsys, tmp_path, photos, *options)
    assert "bn1.weight" in said
    assert "conv_stem.extra" in said
    (tmp_path / "weights.safetensors").write_bytes(b"not weights")
    assert "weights.safetensors" in train_fails(capsys, tmp_path, photos, *options)
    (tmp_path / "weights.safetensors").unlink()
    assert "weights.safetensors" in train_fails(capsys, tmp_path, photos, *options)


def test_an_output_folder_that_holds_a_run(capsys, run, features):
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    said = fails(capsys, "train", features, "--output", run)
    assert "(`resume`)" in said
    assert "(`overwrite`)" in said
    assert {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()} == before


def test_overwrite_replaces_the_run_and_keeps_other_files(tmp_path, features):
    output = tmp_path / "run"
    output.mkdir()
    (output / "mine.txt").write_text("mine")
    options = [
        "train",
        str(features),
        "--method",
        "gr",
        "--threads",
        "1",
        "--output",
        str(output),
        "--epochs",
    ]
    main([*options, "1"])
    main([*options, "2", "--overwrite"])
    assert len((output / "metrics.jsonl").read_text().splitlines()) == 2
    assert (output / "mine.txt").read_text() == "mine"


def test_resume_without_a_run_or_with_other_settings(capsys, tmp_path, run, features):
    assert "holds no run to resume" in fails(
        capsys, "train", features, "--output", tmp_path / "new", "--resume"
    )
    said = fails(capsys, "train", features, "--output", run, "--resume", "--epochs", "9")
    assert "epochs" in said
    assert "threads" in said


def test_unreadable_images_are_skipped_counted_and_named(capsys, tmp_path, photos):
    copy = tmp_path / "photos"
    shutil.copytree(photos, copy)
    (copy / "red" / "broken.png").write_bytes(b"not an image")
    said = train_fails(capsys, tmp_path, copy, *FAST)
    assert "broken.png" in said
    main(["train", str(copy), *FAST, "--data.max_unreadable", "0.1", "--output", str(tmp_path / "run")])
    assert "broken.png" in capsys.readouterr().err
    assert "broken.png" in (tmp_path / "run" / "skipped.csv").read_text()
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["data"]["skipped"] == 1


def test_a_full_disk_in_training_exits_with_1_and_keeps_the_last_checkpoint(
    capsys, tmp_path, features, monkeypatch
):
    from spml.common import files
    from spml.engine.checkpoint import load_checkpoint

    output = tmp_path / "run"
    options = ["train", str(features), "--method", "gr", "--epochs", "4", "--threads", "1"]
    options += ["--output", str(output)]
    written, fsync = [], files.os.fsync

    def full(fd):
        written.append(fd)
        if len(written) > 4:
            raise OSError(28, "No space left on device")
        fsync(fd)

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", full)
        said = fails(capsys, *options, code=1)
    assert "No space left on device" in said
    epoch = load_checkpoint(output)["loop"]["epoch"]
    assert epoch >= 1
    main([*options, "--resume"])
    assert len((output / "metrics.jsonl").read_text().splitlines()) == 4


def test_a_loss_that_explodes_exits_with_1(capsys, tmp_path, features):
    said = fails(
        capsys, "train", features, "--method", "gr", "--optim.name", "sgd", "--optim.lr", "1e38",
        "--threads", "1", "--epochs", "3", "--output", tmp_path / "run", code=1,
    )  # fmt: skip
    assert "NaN or infinite" in said
    assert "learning rate 1e+38" in said


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_an_output_that_would_replace_what_is_read(capsys, tmp_path, run, features, command):
    data = shutil.copy(features, tmp_path / "mine.json")  # named so that evaluate writes a file
    before = data.read_bytes()
    form = ("--format", "csv") if command == "predict" else ()
    said = fails(capsys, command, run, data, "--output", data, *form)
    assert f"{data}: is read as input and would be replaced" in said
    assert data.read_bytes() == before
    model = run / "model.json"
    before = model.read_bytes()
    assert "would be replaced" in fails(capsys, command, run, features, "--output", model, *form)
    assert model.read_bytes() == before


def test_an_earlier_evaluation_may_be_replaced(run, features):
    output = run / "evaluation.json"
    for _ in range(2):
        main(["evaluate", str(run), str(features), "--output", str(output)])
        assert json.loads(output.read_text())["samples"] == 60
        output.write_text('{"samples": 0}')


def test_an_output_in_a_folder_of_images_that_are_read(capsys, tmp_path, run, photos):
    copied = shutil.copytree(photos, tmp_path / "photos")
    image = next(path for path in sorted(copied.rglob("*")) if path.is_file())
    before = image.read_bytes()
    assert "would be replaced" in fails(capsys, "predict", run, copied, "--output", image, "--format", "csv")
    assert image.read_bytes() == before


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_an_output_that_can_not_be_written_is_told_first(capsys, tmp_path, features, command):
    # The run is not there either, but the output was looked at before it.
    suffix = ".jsonl" if command == "predict" else ".json"
    missing = tmp_path / "missing" / f"tags{suffix}"
    assert f"{missing.parent}: no such folder" in fails(
        capsys, command, tmp_path / "no run", features, "--output", missing
    )
    folder = tmp_path / f"folder{suffix}"
    folder.mkdir()
    said = fails(capsys, command, tmp_path / "no run", features, "--output", folder)
    assert "is a folder; `output` must name a file" in said
    said = fails(
        capsys, command, tmp_path / "no run", features, "--output", f"{tmp_path}/{'a' * 300}{suffix}"
    )
    assert "can't be written (File name too long)" in said
    # This name is not too long, but that of the temporary file would be.
    said = fails(
        capsys, command, tmp_path / "no run", features, "--output", f"{tmp_path}/{'a' * 240}{suffix}"
    )
    assert "can't be written (File name too long)" in said


def test_a_folder_that_can_not_be_made(capsys, tmp_path, features):
    (tmp_path / "file").write_text("kept")
    below, long = tmp_path / "file" / "run", tmp_path / ("a" * 300)
    for command in (["train", features], ["demo"]):
        assert f"{tmp_path / 'file'} is a file" in fails(capsys, *command, "--output", below)
        assert "can't be made (File name too long)" in fails(capsys, *command, "--output", long)
    with pytest.raises(InputError, match="can't be made"):
        clear(below)


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


def test_files_of_labels_are_not_predicted(capsys, tmp_path, run):
    for suffix in ("txt", "arff", "json"):
        (tmp_path / f"data.{suffix}").write_text("file,label")
        said = fails(capsys, "predict", run, tmp_path / f"data.{suffix}")
        assert f"one .npz file can be predicted, not .{suffix} files" in said


def test_a_class_whose_name_would_part_labels(capsys, tmp_path, features):
    with np.load(features) as stored:
        np.savez(tmp_path / "f.npz", **{**stored, "classes": np.array(["a;b", "c", "d"])})
        np.savez(tmp_path / "x.npz", X=stored["X"])
    main(["train", str(tmp_path / "f.npz"), "--epochs", "1", "--output", str(tmp_path / "run")])
    main(["predict", str(tmp_path / "run"), str(tmp_path / "x.npz")])
    assert '"[""a;b""' in capsys.readouterr().out  # a JSON list
