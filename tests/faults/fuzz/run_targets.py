"""Targets for the files of a run: its settings, model, checkpoints, thresholds, summary and predictions."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

import spml
from spml.analysis.epochs import epochs
from spml.cli.arguments import parse
from spml.cli.main import main, make_parser
from spml.config import ModelConfig, check, from_dict, read_yaml
from spml.data.feature_store import FeatureStore
from spml.data.readers import read
from spml.data.writers.predictions import read_inferred
from spml.decisions import Decision
from spml.engine.checkpoint import load_checkpoint
from spml.engine.checksum import BLANK
from spml.errors import InputError, SpmlError
from spml.files import sha256_file
from spml.models.spec import describe_backbone
from spml.runs.audits.use import use_audit
from spml.runs.contents import read_summary
from spml.runs.held_out import read_held_out
from spml.runs.init_from import _read_state
from spml.runs.recording import read_recording
from spml.runs.thresholds import evidence_from_policy, read_thresholds
from spml.runs.unfinished import Unfinished
from tests.faults.fuzz.change import (
    Change,
    of_bytes,
    of_json,
    of_json_lines,
    of_npz,
    of_safetensors,
    of_text,
    of_yaml,
)  # fmt: skip
from tests.faults.fuzz.data_targets import saved, sealed
from tests.faults.fuzz.judge import Target

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
    """Train on a few features, or on `words[0]`; returns the folder of the run."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "rows.npz"
    if not data.exists():
        generator = np.random.default_rng(0)
        y = generator.integers(0, 3, 200)
        x = generator.normal(size=(200, 6)) + 2 * np.eye(3, 6)[y]
        data.write_bytes(saved(X=x.astype(np.float32), Y=y, classes=["blue", "green", "red"]))
    common = ("--mean_labels", "1.5", "--data.workers", "0", "--threads", "1")
    command(["train", data, "--output", folder / name, *common, *words])
    return folder / name


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
    """model.json and model.safetensors, of features and of images."""
    ridge = make_run(folder, "ridge", "--head", "ridge")

    def predict(folder: Path, shape: tuple[int, ...]) -> Sequence[str]:
        run = spml.load(folder)
        # As `Run.predict`, without the processes and the progress of reading data.
        with torch.inference_mode():
            logits = run._classifier(torch.ones(shape)).logits.numpy()
        run.decision()(logits)
        run.decision(mean_labels=1.0, top_k=2)(logits)
        run.calibrated(logits)
        assert np.isfinite(run.probabilities(logits)).all()
        return [*run.notes((), {}), *run.classes]

    targets = []
    for name, source, shape in (("model", ridge, (1, 6)), ("images", _images(folder), (1, 3, 8, 8))):
        card_run, weights_run = (Path(shutil.copytree(source, folder / f"{name}-{part}")) for part in "cw")
        card, weights = card_run / "model.json", weights_run / "model.safetensors"
        described = json.loads(unsealed(card))

        def write(
            content: bytes,
            path: Path = weights_run / "model.json",
            weights: Path = weights,
            about: dict = described,
        ) -> bytes:
            weights.write_bytes(content)
            about = {**about, "weights_sha256": sha256_file(weights)}
            path.write_bytes(sealed(json.dumps(about).encode()))
            return content

        share = 1 if name == "model" else 0.3
        targets += [
            of_file(
                f"{name}-card", card, of_json(), lambda run=card_run, shape=shape: predict(run, shape),
                finish=sealed, seeds=[unsealed(card)], weight=share,
            ),
            of_file(
                f"{name}-weights", weights, of_safetensors(), lambda run=weights_run, shape=shape: predict(run, shape),
                finish=write, weight=share,
            ),
        ]  # fmt: skip
    return targets


def _images(folder: Path) -> Path:
    from PIL import Image

    noise = np.random.default_rng(0)
    for channel, name in enumerate(("blue", "green", "red")):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(6):
            pixels = noise.integers(0, 160, (8, 8, 3), dtype=np.uint8)
            pixels[..., 2 - channel] += 80
            Image.fromarray(pixels).save(folder / "photos" / name / f"{number}.png")
    words = [
        "--backbone",
        "small_cnn",
        "--data.size",
        "8",
        "--epochs",
        "1",
        "--data.workers",
        "0",
        "--threads",
        "1",
    ]
    command(["train", folder / "photos", "--output", folder / "small", *words])
    return folder / "small"


def decisions(folder: Path) -> list[Target]:
    """thresholds.json, summary.json, held-out scores, and the answers of an audit."""
    ridge = make_run(folder, "ridge", "--head", "ridge")
    run = spml.load(ridge)
    logits = np.linspace(-3, 3, 12, dtype=np.float32).reshape(4, 3)
    thresholds, held_out = ridge / "thresholds.json", ridge / "held_out.safetensors"
    other = Path(shutil.copytree(ridge, folder / "other"))

    def decide() -> None:
        policy = read_thresholds(thresholds, run.classes, run.model)
        Decision(policy.thresholds)(logits)
        evidence_from_policy(policy)
        if policy.calibrated is not None:
            policy.calibrated(logits)

    kept = read_held_out(ridge, run.classes)
    rows = [
        f"{name},{run.classes[row.argmax()]},yes"
        for name, row in zip(kept.ids[:24], kept.scores, strict=False)
    ]
    sheet = folder / "sheet.csv"
    sheet.write_text("\n".join(["file,labels,complete", *rows, ""]))
    audited = spml.load(other)
    words = (b"|", b"yes", b"no", b"complete", b"red", b"red|blue", b"file", b"x")
    return [
        of_file("thresholds", thresholds, of_json(), decide, finish=sealed, seeds=[unsealed(thresholds)]),
        of_file(
            "summary", ridge / "summary.json", of_json(), lambda: read_summary(ridge), finish=sealed,
            seeds=[unsealed(ridge / "summary.json")],
        ),
        of_file(
            "held-out", held_out, of_safetensors(), lambda: read_held_out(ridge, run.classes), finish=with_checksum
        ),
        of_file("audit-answers", sheet, of_text(words), lambda: use_audit(sheet, {"run": audited}), weight=0.5),
    ]  # fmt: skip


def training(folder: Path) -> list[Target]:
    """Checkpoints, settings, metrics and recorded scores of a network, and what a method has inferred."""
    words = ("--method", "role", "--epochs", "2", "--batch_size", "32", "--record", "scores")
    whole = make_run(folder, "whole", *words)
    copies = {name: Path(shutil.copytree(whole, folder / name)) for name in ("a", "b", "c", "d")}
    targets = [
        of_file("metrics", copies["a"] / "metrics.jsonl", of_json_lines(), lambda: epochs([copies["a"]]), weight=0.3),
        of_file("config", copies["a"] / "config.yaml", of_yaml(), lambda: check(read_yaml(copies["a"] / "config.yaml")), weight=0.5),
        of_file(
            "recorded-samples", copies["b"] / "scores" / "samples.safetensors", of_safetensors(),
            lambda: read_recording(copies["b"]), finish=with_checksum,
        ),
        of_file(
            "recorded-scores", copies["c"] / "scores" / "epoch-001.safetensors", of_safetensors(),
            lambda: read_recording(copies["c"]).logits(1), finish=with_checksum,
        ),
        of_file(
            "inferred-state", whole / "objective.safetensors", of_safetensors(),
            lambda: _read_state(whole / "objective.safetensors"), finish=with_checksum,
        ),
    ]  # fmt: skip
    checkpoint = copies["d"] / "checkpoint.safetensors"
    for name in ("checkpoint.previous.safetensors", "checkpoint.new.safetensors"):
        (copies["d"] / name).unlink(missing_ok=True)
    again = Path(shutil.copytree(copies["d"], folder / "again"))
    start = {path.name: path.read_bytes() for path in again.iterdir() if path.is_file()}
    resumed = again / checkpoint.name

    def resume() -> None:
        for name, content in start.items():
            if name != checkpoint.name:
                (again / name).write_bytes(content)
        command(["train", "--output", again, "--resume"])

    return [
        *targets,
        of_file(
            "checkpoint",
            checkpoint,
            of_safetensors(),
            lambda: load_checkpoint(copies["d"]),
            finish=with_checksum,
        ),
        of_file("resume", resumed, of_safetensors(), resume, finish=with_checksum, weight=0.02),
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
    """The YAML of `train --config`, through the command line and up to training, and a file beside weights."""
    make_run(folder, "run", "--head", "ridge")
    path = folder / "config.yaml"
    parser = make_parser(with_figures=False)

    def parsed(data: bytes) -> Sequence[str]:
        path.write_bytes(data)
        parse(parser, ["train", "--config", str(path)])
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


def predictions(folder: Path) -> list[Target]:
    """Predictions as files, the journal of unfinished ones, pseudo-labels, and kept features."""
    make_run(folder, "run", "--head", "ridge")
    (folder / "out").mkdir()
    for form in ("csv", "jsonl", "parquet"):
        command(
            [
                "predict",
                folder / "run",
                folder / "rows.npz",
                "--output",
                folder / "out" / f"p.{form}",
                "--format",
                form,
            ]
        )
    records = read(spml.config.DataConfig(path=str(folder / "rows.npz")))
    targets = []
    changes = {"csv": of_text(), "jsonl": of_json_lines(), "parquet": of_bytes()}
    for form, change in changes.items():
        path = folder / "out" / f"p.{form}"
        content = path.read_bytes()
        if form != "parquet":
            content = b"".join(content.splitlines(keepends=True)[:6])
        targets.append(
            of_file(
                f"predictions-{form}",
                path,
                change,
                lambda path=path: read_inferred(path, records),
                seeds=[content],
            )
        )
    pseudo = folder / "out" / "pseudo.npz"
    arrays = {"ids": ["0", "1"], "classes": ["blue", "red"], "labels": np.array([[1, 0], [-1, 1]], np.int8)}
    targets.append(
        of_file(
            "pseudo-labels", pseudo, of_npz((*arrays, "x")), lambda: read_inferred(pseudo, records),
            seeds=[saved(**arrays)],
        )
    )  # fmt: skip
    return [*targets, _journal(folder), *_kept_features(folder)]


def _journal(folder: Path) -> Target:
    output = folder / "scores.csv"
    content, journal = (Path(f"{output}.partial"), Path(f"{output}.partial.journal"))
    identity = {"identity": 1}
    with (
        contextlib.suppress(KeyboardInterrupt),
        Unfinished(output, identity, b"head\n", lambda line: None) as first,
    ):
        first.add(b"one\n", 1, {})
        first.add(b"two\n", 2, {1: "broken"})
        raise KeyboardInterrupt
    written, seed = content.read_bytes(), journal.read_bytes()

    def attempt(data: bytes) -> Sequence[str]:
        journal.write_bytes(data)
        content.write_bytes(written)
        lines: list[str] = []
        with Unfinished(output, identity, b"head\n", lines.append) as unfinished:
            unfinished.add(b"three\n", unfinished.samples + 1, {})
            assert all(isinstance(row, int) for row in unfinished.skipped)
            unfinished.finish(os.replace)
        return lines

    return Target("journal", ".journal", (seed,), of_json_lines(), attempt)


def _kept_features(folder: Path) -> list[Target]:
    kept = folder / "kept"
    identities = np.arange(4 * 32, dtype=np.uint8).reshape(4, 32)
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    with FeatureStore(kept) as store:
        store.append(identities[:2], rows[:2])
        store.append(identities[2:], rows[2:])
    targets = []
    for suffix in (".index", ".rows"):
        copied = Path(shutil.copytree(kept, folder / f"kept{suffix}"))
        path = next(copied.glob(f"*{suffix}"))

        def look_up(copied: Path = copied) -> None:
            store = FeatureStore(copied)
            positions = store.locate(identities)
            found = positions >= 0
            if found.any():
                assert (store.rows(positions[found]) == rows[found]).all()

        targets.append(of_file(f"features{suffix}".replace(".", "-"), path, of_bytes(), look_up, weight=0.5))
    return targets
