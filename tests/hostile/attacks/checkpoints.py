"""Attacks by the folder of a run that was killed and is resumed."""

from __future__ import annotations

import pickle

from spml.engine.checkpoint import BLANK
from tests.hostile.attacks.attack import DEEP, Attack, RunsCode, all_of, file
from tests.hostile.attacks.runs import flipped, with_metadata

RESUME = (
    "train rows.npz --mean_labels 1.5 --data.workers 0 --output stopped --method gr --epochs 4 --batch_size "
    "16 --checkpoint_steps 1 --resume"
)
CHECKPOINT = "stopped/checkpoint.safetensors"
PREVIOUS = "stopped/checkpoint.previous.safetensors"
STATE = '{"tensor": "no/such/tensor"}'


def _sealed(content: str) -> str:
    """Text of a checkpoint, with a place for its checksum."""
    return f'{{"checksum": "{BLANK}", "content": {content}}}'


ATTACKS = (
    Attack("a checkpoint with a flipped bit", flipped(CHECKPOINT, -3), RESUME,
        "(its content does not match its checksum); continuing from checkpoint.previous.safetensors", 0),
    Attack("two checkpoints with flipped bits",
        all_of(flipped(CHECKPOINT, -3), flipped(PREVIOUS, -3)), RESUME,
        "no checkpoint can be read. stopped/checkpoint.safetensors: damaged (its content does not"),
    Attack("a checkpoint of 100,000 levels", with_metadata(CHECKPOINT, version="2", state=_sealed(DEEP)),
        RESUME, "no checkpoint can be read. stopped/checkpoint.safetensors: damaged (lists or objects in it"),
    Attack("a checkpoint that names a tensor it has not",
        with_metadata(CHECKPOINT, version="2", state=_sealed(STATE)), RESUME,
        "damaged (its tensor 'no/such/tensor' is missing). Restore one of them, or start again"),
    Attack("a checkpoint of an unknown kind of object",
        with_metadata(CHECKPOINT, version="2", state=_sealed('{"os.system": "touch executed"}')), RESUME,
        "no checkpoint can be read. stopped/checkpoint.safetensors: damaged (not a checkpoint of"),
    Attack("a checkpoint of another content",
        with_metadata(CHECKPOINT, version="2", state=_sealed('{"dict": [["loop", 1], ["identity", null]]}')),
        RESUME, "checkpoint.safetensors: is of a run of an earlier version, but stopped is of run "),
    Attack("a checkpoint that is a pickle",
        all_of(file(CHECKPOINT, pickle.dumps(RunsCode())), file(PREVIOUS, b"")), RESUME,
        "no checkpoint can be read. stopped/checkpoint.safetensors: damaged (Error while"),
    Attack("a lock that names the process 1",
        file("stopped/.lock", "process 1 on x since 2026-01-01 00:00:00, start 1\n"), RESUME, "stopped: done",
        0),
)  # fmt: skip
