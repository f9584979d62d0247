"""Targets for the files of a run: its settings, model, checkpoints, thresholds, summary and predictions."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

import spml
from spml.analysis.epochs import epochs
from spml.cli.main import main, parse
from spml.common.errors import InputError, SpmlError
from spml.common.files import sha256_file
from spml.config import ModelConfig, check, from_dict, read_yaml
from spml.decisions import Decision
from spml.engine.checkpoint import BLANK, load_checkpoint
from spml.models import describe_backbone
from spml.runs.audits.use import use_audit
from spml.runs.decide.policies import evidence_from_policy, read_thresholds
from spml.runs.fit.recording import read_recording
from spml.runs.folder.contents import read_summary
from spml.runs.folder.held_out import read_held_out
from spml.runs.folder.layout import read_config
from spml.runs.settle.init_from import _read_state
from tests.hostile.fuzz.change import Change, of_json, of_json_lines, of_safetensors, of_text, of_yaml
from tests.hostile.fuzz.data_targets import saved, sealed
from tests.hostile.fuzz.judge import Target

SMALL = "--backbone small_cnn --data.size 8 --epochs 1 --data.workers 0 --threads 1"
_CHECKSUM = re.compile(rb"crc32:[0-9a-f]{8}")


def command(words: Sequence[object]) -> None:
    """Run a command, without what it prints.

    Raises:
        SpmlError: It was refused; the message is what it said.
    """
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            main([str(word) for word in words])
    except SystemExit as error:
        raise (InputError if error.code == 2 else SpmlError)(
            said.getvalue().strip().rpartition("\n")[2]
        ) from error


def make_run(folder: Path, name: str, *words: str) -> Path:
    """Train on a few features; returns a copy of the run in a folder, next to the features, rows.npz."""
    runs = folder.parent / "runs"
    data, run = runs / "rows.npz", runs / name
    if not data.exists():
        runs.mkdir(parents=True)
        generator = np.random.default_rng(0)
        y = generator.integers(0, 3, 200)
        x = generator.normal(size=(200, 6)) + 2 * np.eye(3, 6)[y]
        data.write_bytes(saved(X=x.astype(np.float32), Y=y, classes=["blue", "green", "red"]))
    if not run.exists():
        common = ("--mean_labels", "1.5", "--data.workers", "0", "--threads", "1")
        command(["train", data, "--output", run, *common, *words])
    folder.mkdir(exist_ok=True)
    shutil.copy(data, folder)
    return Path(shutil.copytree(run, folder / name))


def with_checksum(data: bytes) -> bytes:
    """A safetensors file with the checksum of its content in place of any other."""
    if (found := _CHECKSUM.search(data)) is None:
        return data
    blank = data[: found.start()] + BLANK.encode() + data[found.end() :]
    return data[: found.start()] + f"crc32:{zlib.crc32(blank):08x}".encode() + data[found.end() :]


def of_file(
    name: str,
    path: Path,
    change: Change,
    use: Callable[[], object],
    *,
    finish: Callable[[bytes], bytes] = bytes,
    seeds: Sequence[bytes] = (),
    weight: float = 1.0,
) -> Target:
    """A target whose inputs replace a file of a run.

    Args:
        name, change, weight: As in `Target`.
        path: The file.
        use: Reads it.
        finish: Applied to an input before it is written, such as a checksum.
        seeds: Valid inputs, if not only the content of the file.
    """
    seeds = seeds or (path.read_bytes(),)

    def attempt(data: bytes) -> Sequence[str]:
        path.write_bytes(finish(data))
        use()
        return []

    return Target(name, path.suffix, tuple(seeds), change, attempt, weight)


def unsealed(path: Path) -> bytes:
    """Content of a JSON file without its SHA-256, which `sealed` adds again."""
    content = json.loads(path.read_bytes())
    content.pop("sha256")
    return json.dumps(content).encode()


def models(folder: Path) -> list[Target]:
    """model.json and model.safetensors of a head on features."""
    return _model_files("model", make_run(folder, "ridge", "--head", "ridge"), (1, 6), 1.0)


def image_models(folder: Path) -> list[Target]:
    """model.json and model.safetensors of a network on images."""
    return _model_files("images", _image_run(folder), (1, 3, 8, 8), 0.3)


def _model_files(name: str, run: Path, shape: tuple[int, ...], weight: float) -> list[Target]:
    """Targets for the two files of a model that takes inputs of a shape."""

    def predict(folder: Path) -> Sequence[str]:
        run = spml.load(folder)
        # As `Run.predict`, without the processes and the progress of reading data.
        with torch.inference_mode():
            logits = run.classifier(torch.ones(shape)).logits.numpy()
        run.decision()(logits)
        run.decision(mean_labels=1.0, top_k=2)(logits)
        run.calibrated(logits)
        if not np.isfinite(logits).all():
            raise SpmlError("scores are NaN or infinite")  # as prediction does
        assert np.isfinite(run.probabilities(logits)).all()
        return [*run.notes((), {}), *run.classes]

    card_run, weights_run = (Path(shutil.copytree(run, run.with_name(f"{name}-{part}"))) for part in "cw")
    card, weights = card_run / "model.json", weights_run / "model.safetensors"
    about = json.loads(unsealed(card))

    def describe(content: bytes) -> bytes:
        """Write the model.json that belongs to changed weights."""
        weights.write_bytes(content)
        described = {**about, "weights_sha256": sha256_file(weights)}
        (weights_run / "model.json").write_bytes(sealed(json.dumps(described).encode()))
        return content

    return [
        of_file(f"{name}-card", card, of_json(), lambda: predict(card_run), finish=sealed,
                seeds=[unsealed(card)], weight=weight),
        of_file(f"{name}-weights", weights, of_safetensors(), lambda: predict(weights_run), finish=describe,
                weight=weight),
    ]  # fmt: skip


def _image_run(folder: Path) -> Path:
    from PIL import Image

    noise = np.random.default_rng(0)
    for channel, name in enumerate(("blue", "green", "red")):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(6):
            pixels = noise.integers(0, 160, (8, 8, 3), dtype=np.uint8)
            pixels[..., 2 - channel] += 80
            Image.fromarray(pixels).save(folder / "photos" / name / f"{number}.png")
    command(["train", folder / "photos", "--output", folder / "small", *SMALL.split()])
    return folder / "small"


def decisions(folder: Path) -> list[Target]:
    """thresholds.json, summary.json, held-out scores, and the answers of an audit."""
    ridge = make_run(folder, "ridge", "--head", "ridge")
    run = spml.load(ridge)
    logits = np.linspace(-3, 3, 12, dtype=np.float32).reshape(4, 3)
    thresholds, held_out = ridge / "thresholds.json", ridge / "held_out.safetensors"
    other = Path(shutil.copytree(ridge, folder / "other"))

    def decide() -> None:
        policy = read_thresholds(thresholds, run.classes, run.weights_sha256)
        Decision(policy.logits)(logits)
        evidence_from_policy(policy)
        if policy.calibrated is not None:
            policy.calibrated(logits)

    kept = read_held_out(ridge, run.classes)
    rows = [
        f"{name},{run.classes[row.argmax()]},yes"
        for name, row in zip(kept.ids[:24], kept.scores.gather(), strict=False)
    ]
    sheet = folder / "sheet.csv"
    sheet.write_text("\n".join(["file,labels,complete", *rows, ""]))
    audited = spml.load(other)
    words = (b"|", b"yes", b"no", b"complete", b"red", b"red|blue", b"file", b"x")
    summary = ridge / "summary.json"
    return [
        of_file("thresholds", thresholds, of_json(), decide, finish=sealed, seeds=[unsealed(thresholds)]),
        of_file("summary", summary, of_json(), lambda: read_summary(ridge), finish=sealed,
                seeds=[unsealed(summary)]),
        of_file("held-out", held_out, of_safetensors(), lambda: read_held_out(ridge, run.classes),
                finish=with_checksum),
        of_file("audit-answers", sheet, of_text(words), lambda: use_audit(sheet, {"run": audited}),
                weight=0.5),
    ]  # fmt: skip


def training(folder: Path) -> list[Target]:
    """Checkpoints, settings, metrics and recorded scores of a network, and what a method has inferred."""
    words = ("--method", "role", "--epochs", "2", "--batch_size", "32", "--record", "scores")
    whole = make_run(folder, "whole", *words)
    copies = {name: Path(shutil.copytree(whole, folder / name)) for name in ("a", "b", "c", "d", "e")}
    config = copies["e"] / "config.yaml"
    (copies["a"] / "summary.json").unlink()  # which would state the SHA-256 of the metrics
    settings = config.read_bytes().partition(b"\n#")[0] + b"\n"  # without their SHA-256
    a, checkpoint = copies["a"], copies["d"] / "checkpoint.safetensors"
    for name in ("checkpoint.previous.safetensors", "checkpoint.new.safetensors"):
        (copies["d"] / name).unlink(missing_ok=True)
    again = Path(shutil.copytree(copies["d"], folder / "again"))
    start = {path.name: path.read_bytes() for path in again.iterdir() if path.is_file()}

    def resume() -> None:
        for name, content in start.items():
            if name != checkpoint.name:
                (again / name).write_bytes(content)
        command(["train", "--output", again, "--resume"])

    state = whole / "objective.safetensors"
    samples, scores = copies["b"] / "scores/samples.safetensors", copies["c"] / "scores/epoch-001.safetensors"
    with_checksums: dict[str, tuple[Path, Callable[[], object], float]] = {
        "recorded-samples": (samples, lambda: read_recording(copies["b"]), 1.0),
        "recorded-scores": (scores, lambda: read_recording(copies["c"]).logits(1), 1.0),
        "inferred-state": (state, lambda: _read_state(state), 1.0),
        "checkpoint": (checkpoint, lambda: load_checkpoint(copies["d"]), 1.0),
        "resume": (again / checkpoint.name, resume, 0.02),
    }
    return [
        of_file("metrics", a / "metrics.jsonl", of_json_lines(), lambda: epochs([a]), weight=0.3),
        of_file(
            "config", config, of_yaml(), lambda: check(read_config(copies["e"])), seeds=[settings], weight=0.5
        ),
        *(
            of_file(name, path, of_safetensors(), use, finish=with_checksum, weight=weight)
            for name, (path, use, weight) in with_checksums.items()
        ),
    ]


CONFIG = b"""method: gr
epochs: 3
batch_size: 16
mean_labels: 1.5
seed: 7
hp: {sigma: [0.5, 1.0], q2: 0.5}
data: {unlisted: negative, observe: single, val_share: 0.25, workers: 0}
model: {head: linear, dropout: 0.1}
optim: {lr: 1e-3, name: adamw, weight_decay: 0}
"""


def settings(folder: Path) -> list[Target]:
    """The YAML of `train --config`, up to training, and the file next to weights."""
    make_run(folder, "ridge", "--head", "ridge")
    path = folder / "config.yaml"

    def parsed(data: bytes) -> Sequence[str]:
        path.write_bytes(data)
        parse(["train", "--config", str(path)])
        return []

    def resolved(data: bytes) -> Sequence[str]:
        path.write_bytes(data)
        config = read_yaml(path)
        # The file may name any data of this machine, and the training would be real.
        if config.data.path or config.data.images or config.data.cache or config.output or config.init_from:
            return []
        command(["train", folder / "rows.npz", "--config", path, "--print_config"])
        return []

    weights = folder / "weights.safetensors"
    weights.write_bytes(b"")
    beside = folder / "weights.json"
    about = (
        b'{"timm_model": "test_efficientnet", "timm_kwargs": {"bn_eps": 0.001}, "input_size": [3, 64, 64], '
        b'"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5], "interpolation": "bicubic"}'
    )
    beside.write_bytes(about)
    config = ModelConfig(weights=str(weights))
    assert from_dict({}).method == ""
    return [
        Target("train-config", ".yaml", (CONFIG,), of_yaml(), parsed, 0.3),
        Target("train-settings", ".yaml", (CONFIG,), of_yaml(), resolved, 0.1),
        of_file(
            "beside-weights", beside, of_json(), lambda: describe_backbone(config, "image", 3), weight=0.5
        ),
    ]
