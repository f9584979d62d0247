"""Attacks by folders of runs that somebody has tampered with."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from spml.common.files import json_sha256
from spml.engine.checkpoint import BLANK, write_checked
from tests.hostile.attacks.attack import DEEP, ESCAPE, EVIL, Attack, Make, RunsCode, all_of, file

PREDICT = "predict run rows.npz --output p.csv"
AUDIT = "audit run rows.npz --output again"


def changed(name: str, change: Callable[[dict[str, Any]], object], *, sealed: bool = True) -> Make:
    """Change a JSON file of the run; `sealed` as somebody does who knows how damage is found."""

    def make(folder: Path) -> None:
        path = folder / "run" / name
        content = json.loads(path.read_text())
        change(content)
        if sealed:
            content["sha256"] = json_sha256(content)
        path.write_text(json.dumps(content))

    return make


def setting(*keys: str | int, value: Any, name: str = "model.json") -> Make:
    """Set a value in a JSON file of the run."""

    def change(content: dict[str, Any]) -> None:
        place: Any = content
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value

    return changed(name, change)


def tensors(change: Callable[[dict[str, torch.Tensor]], object]) -> Make:
    """Change the weights of the run, and the checksum that model.json states."""

    def make(folder: Path) -> None:
        path = folder / "run" / "model.safetensors"
        content = load_file(path)
        change(content)
        save_file(content, path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        setting("weights_sha256", value=digest)(folder)

    return make


def sealed_weights(data: bytes) -> Make:
    """Replace the weights by bytes, with their checksum in model.json."""
    digest = hashlib.sha256(data).hexdigest()
    return all_of(file("run/model.safetensors", data), setting("weights_sha256", value=digest))


def flipped(name: str, byte: int) -> Make:
    """Flip a bit of a file; a negative byte counts from the end."""

    def make(folder: Path) -> None:
        data = bytearray((folder / name).read_bytes())
        data[byte] ^= 16
        (folder / name).write_bytes(data)

    return make


def with_metadata(name: str, **metadata: str) -> Make:
    """Replace the metadata of a safetensors file, whose checksum is right if they have a place for it."""

    def make(folder: Path) -> None:
        path = folder / name
        with safe_open(path, framework="pt") as stored:
            content = {key: stored.get_tensor(key) for key in stored.keys()}  # noqa: SIM118
        for each in path.parent.glob("checkpoint.*"):
            each.unlink()
        write_checked(path, content, metadata)

    return make


def pipe(name: str) -> Make:
    """Replace a file by a pipe that nobody writes to."""

    def make(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return make


def not_numbers(content: dict[str, torch.Tensor]) -> None:
    content["top.head.weight"].fill_(torch.nan)


def transposed(content: dict[str, torch.Tensor]) -> None:
    content["top.head.weight"] = content["top.head.weight"].T.contiguous()


OWN = {"name": "evil:make", "size": 32, "mean": [0.5] * 3, "std": [0.5] * 3}
HEADER = b'{"a":{"dtype":"F32","shape":[4000000000,4000000000],"data_offsets":[0,4]}}'
_NO_NUMBERS = '{"epoch": "x", "val": {"mAP": []}}\n'
_DIGEST = hashlib.sha256(_NO_NUMBERS.encode()).hexdigest()
ATTACKS = (
    Attack("classes that are numbers", setting("classes", value=[1, 2, 3]), PREDICT,
        "run/model.json: damaged: Expected `str`, got `int` - at `$.classes[0]`. Train again."),
    Attack("classes that are one text", setting("classes", value="abc"), PREDICT,
        "run/model.json: damaged: Expected `array`, got `str` - at `$.classes`. Train again."),
    Attack("a class name twice", setting("classes", value=["a", "b", "a"]), PREDICT,
        "the class name 'a' occurs twice - at `$.classes[2]`"),
    Attack("a terminal escape as class name of a run", setting("classes", 0, value=ESCAPE), PREDICT,
        r"the class name '\x1b]0;owned\x07' holds control characters - at `$.classes[0]`"),
    Attack("a run without classes", changed("model.json", lambda card: card.pop("classes")), PREDICT,
        "run/model.json: damaged: Object missing required field `classes`. Train again."),
    Attack("a run of a format of the future", setting("format", value=10**30), PREDICT,
        "run/model.json: has format 1000000000000000000000000000000, but this version of spml reads"),
    Attack("a terminal escape as format", setting("format", value=ESCAPE), PREDICT,
        "run/model.json: has format '\\x1b]0;owned\\x07', but this version of spml reads format 2: use"),
    Attack("a backbone from the network", setting("backbone", "name", value="hf-hub:somebody/model"), PREDICT,
        "run/model.json: damaged: size must be from 1 to 8192, got 0 - at `$.backbone`. Train again."),
    Attack("a backbone that is code in the current folder",
        all_of(file("evil.py", EVIL), setting("backbone", value=OWN)), PREDICT,
        "run: its backbone evil:make is a network of the user's own, and no file of a run can bring its"),
    Attack("a backbone with an unknown field", setting("backbone", "num_features", value=200_000_000),
        PREDICT, "unknown field 'num_features' - at `$.backbone`"),
    Attack("an option of a backbone that opens files",
        setting("backbone", "options", value={"checkpoint_path": "../secret.txt"}), PREDICT,
        "run/model.json: damaged: option 'checkpoint_path' is not one of pad_type, act_layer,"),
    Attack("features of width 2 billion", setting("backbone", "width", value=2_000_000_000), PREDICT,
        "run/model.json: damaged: width must be from 1 to 16777216, got 2000000000 - at"),
    Attack("a model of 200,000,000 features", setting("top", "num_features", value=200_000_000), PREDICT,
        "run: the model can't be read (a top for 200000000 features on a backbone of 6). Train again."),
    Attack("a layer of 1,000,000,000 units",
        all_of(setting("top", "head", value="mlp"), setting("top", "hidden", value=1_000_000_000)), PREDICT,
        "run/model.safetensors: does not fit model.json (4 missing: top.head.0.weight,"),
    Attack("images of 8192 pixels", setting("backbone", "size", value=8192, name="../seen/model.json"),
        "predict seen photos --output p.csv --workers 0",
        "the model takes images of 8,192 x 8,192 pixels, 24 of which need at least 24.2 GB, but"),
    Attack("a head that does not exist", setting("top", "head", value="__import__"), PREDICT,
        "run: the model can't be read (head must be one of linear, mlp, boosted_cam, gaussian, gaussian_per"),
    Attack("a scaling that does not exist", setting("top", "scaling", value="../x"), PREDICT,
        "run: the model can't be read (scaling must be one of raw, standard, sqrtl2, unit, tfidf,"),
    Attack("a threshold that is text", setting("threshold", "logit", value="high"), PREDICT,
        "run/model.json: damaged: Expected `float`, got `str` - at `$.threshold.logit`"),
    Attack("a threshold that is NaN", setting("threshold", "logit", value=float("nan")), PREDICT,
        "run/model.json: damaged: its numbers must be finite - at `$.threshold`. Train again."),
    Attack("a changed threshold",
        changed("model.json", lambda card: card["threshold"].update(logit=9.0), sealed=False), PREDICT,
        "its content does not have the SHA-256 that it states"),
    Attack("model.json with a part of 100,000 levels", file("run/model.json", '{"format": 2, "x": ' + DEEP),
        PREDICT,
        "run/model.json: lists or objects in it are nested too deeply. The file is damaged: train again."),
    Attack("thresholds in a file elsewhere", setting("thresholds", value="../../secret.txt"), PREDICT,
        "p.csv: 120 samples", 0),
    Attack("thresholds.json with a part of 100,000 levels", file("run/thresholds.json", '{"a": ' + DEEP),
        PREDICT, "run/thresholds.json: damaged, or not written by this version of spml (maximum recursion"),
    Attack("a threshold of a class that is infinite",
        setting("classes", 0, "threshold", value=float("inf"), name="thresholds.json"), PREDICT,
        "run/thresholds.json: damaged, or not written by this version of spml (JSON is malformed:"),
    Attack("thresholds of another model", setting("model", value="0" * 64, name="thresholds.json"), PREDICT,
        "run/thresholds.json: was decided for another model, whose scores are on another scale. Make"),
    Attack("a negative number of labels in thresholds.json",
        setting("mean_labels", "value", value=-1.0, name="thresholds.json"), PREDICT,
        "run/thresholds.json: damaged, or not written by this version of spml (Expected `float` >"),
    Attack("weights that are NaN", tensors(not_numbers), PREDICT,
        "run/model.safetensors: holds NaN in top.head.weight, so predictions would be NaN. Train again."),
    Attack("weights of another shape", tensors(transposed), PREDICT,
        "run/model.safetensors: does not fit model.json (1 of another shape: top.head.weight (6, 3)"),
    Attack("weights with a flipped bit", flipped("run/model.safetensors", -3), PREDICT,
        "run/model.safetensors: is not the file that model.json next to it describes: damaged"),
    Attack("weights whose header claims 2^60 bytes", sealed_weights((1 << 60).to_bytes(8, "little") + b"{}"),
        PREDICT, "run: the model can't be read (Error while deserializing header: header too large). Train"),
    Attack("weights that claim 6e19 bytes",
        sealed_weights(len(HEADER).to_bytes(8, "little") + HEADER + bytes(4)), PREDICT,
        "run: the model can't be read (Error while deserializing header: overflow computing buffer"),
    Attack("weights with a header of 100,000 levels",
        sealed_weights((100_000).to_bytes(8, "little") + DEEP.encode()), PREDICT,
        "run: the model can't be read (Error while deserializing header: invalid JSON in header:"),
    Attack("weights that are a pickle", sealed_weights(pickle.dumps(RunsCode())), PREDICT,
        "run: the model can't be read (Error while deserializing header: header too large). Train"),
    Attack("kept scores with a flipped bit", flipped("run/held_out.safetensors", -3),
        "thresholds run --target f1",
        "run/held_out.safetensors: damaged, or not written by this version of spml (its content does"),
    Attack("kept scores with names of 100,000 levels",
        with_metadata("run/held_out.safetensors", **{"spml scores": f'{{"checksum": "{BLANK}", "x": {DEEP}'}),
        "thresholds run --target f1",
        "run/held_out.safetensors: damaged, or not written by this version of spml (lists or objects"),
    Attack("summary.json of 100,000 levels", file("run/summary.json", DEEP), AUDIT,
        "run/summary.json: can't be read (lists or objects in it are nested too deeply). Name the"),
    Attack("settings of a run that run code",
        file("run/config.yaml", "method: !!python/object/apply:os.system ['touch executed']\n"), AUDIT,
        "but run/config.yaml is of a run of an earlier version. Restore the file that was replaced"),
    Attack("metrics of 100,000 levels", file("run/metrics.jsonl", DEEP),
        "analyse epochs run --output figures",
        "run/metrics.jsonl: damaged (lists or objects in it are nested too deeply). Train again."),
    Attack("metrics that are not numbers",
        all_of(file("run/metrics.jsonl", _NO_NUMBERS),
            setting("metrics_sha256", value=_DIGEST, name="summary.json")),
        "analyse epochs run --output figures",
        "run/metrics.jsonl: damaged: its epochs are not 1, 2, ... Train again."),
    Attack("a pipe as thresholds.json", pipe("run/thresholds.json"), PREDICT,
        "run/thresholds.json: is a device or a pipe, which no run has. Remove it."),
    Attack("a run that lies elsewhere", lambda folder: (folder / "run").rename(folder / "moved"), PREDICT,
        "run: no such folder. Name the folder of a run."),
)  # fmt: skip
