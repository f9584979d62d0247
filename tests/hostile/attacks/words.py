"""Attacks by arguments: names of files, outputs that are links or devices."""

from __future__ import annotations

import os
from pathlib import Path

from tests.hostile.attacks.attack import ESCAPE, Attack, Make, nothing

PREDICT = ("predict", "run", "rows.npz", "--output")


def link(name: str, target: str) -> Make:
    return lambda folder: (folder / name).symlink_to(target)


def pipe(name: str) -> Make:
    return lambda folder: os.mkfifo(folder / name)


def copied(name: str) -> Make:
    """Give the data another name."""

    def make(folder: Path) -> None:
        (folder / name).write_bytes((folder / "rows.npz").read_bytes())

    return make


OBJECT = '{"class_path": "os.system", "init_args": {"command": "touch executed"}}'
ATTACKS = (
    Attack("a terminal escape as name of missing data", nothing, ("data", "inspect", f"{ESCAPE}.npz"),
        r"\x1b]0;owned\x07.npz: no such file or folder. Did you mean rows.npz?"),
    Attack("a terminal escape as name of data", copied(f"{ESCAPE}.npz"), ("data", "inspect", f"{ESCAPE}.npz"),
        "'\\x1b]0;owned\\x07.npz': the name holds a control character. Rename it."),
    Attack("a terminal escape as an option", nothing, ("predict", "run", "rows.npz", f"--{ESCAPE}", "1"),
        "unknown option --\\x1b]0;owned\\x07. `spml predict --help` lists the options."),
    Attack("a terminal escape as a command", nothing, (ESCAPE,),
        "unknown command '\\x1b]0;owned\\x07'. Known: analyse, audit, bench, completion, data,"),
    Attack("a terminal escape as name of the output", nothing, (*PREDICT, f"{ESCAPE}.csv"),
        "\\x1b]0;owned\\x07.csv: 120 samples", 0),
    Attack("a line break as name of data", copied("a\nspml: all is well\n.npz"),
        ("data", "inspect", "a\nspml: all is well\n.npz"),
        "'a\\nspml: all is well\\n.npz': the name holds a control character. Rename it."),
    Attack("data whose name is not text", copied("\udcff.npz"), ("data", "inspect", "\udcff.npz"),
        "'\\udcff.npz': the name holds a control character. Rename it."),
    Attack("a name of 300 characters", nothing, ("data", "inspect", "a" * 300),
        "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
    Attack("an output name of 255 characters", nothing, (*PREDICT, "a" * 251 + ".csv"),
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
    Attack("a link to a file elsewhere that is to be replaced", link("p.csv", "../secret.txt"),
        (*PREDICT, "p.csv", "--overwrite"), "p.csv: 120 samples", 0),
    Attack("an output that is a link to nowhere", link("p.csv", "../nowhere"), (*PREDICT, "p.csv"),
        "p.csv: 120 samples", 0),
    Attack("predictions that replace a pipe", pipe("p.csv"), (*PREDICT, "p.csv", "--overwrite"),
        "p.csv: is a device or a pipe; `output` must name a file."),
    Attack("metrics that replace a device", link("e.json", "/dev/null"),
        ("evaluate", "run", "rows.npz", "--output", "e.json"),
        "e.json: is a device or a pipe; `output` must name a file."),
    Attack("labels that replace a pipe", pipe("x.csv"),
        ("data", "convert", "rows.npz", "x.csv", "--format", "csv", "--overwrite"),
        "x.csv: is a device or a pipe; `output` must name a file."),
    Attack("a run onto a pipe", pipe("new"), ("train", "rows.npz", "--output", "new", "--overwrite"),
        "new: is a file; `output` must name a folder."),
    Attack("an output onto a model", nothing, (*PREDICT, "run/model.json", "--format", "csv", "--overwrite"),
        "run/model.json: is read as input and would be replaced. Name another `output`."),
    Attack("a device as data", nothing, ("data", "inspect", "/dev/zero"),
        "/dev/zero: is a device or a pipe, but must be a file or a folder."),
    Attack("a pipe as a table", pipe("x.csv"), ("data", "inspect", "x.csv"),
        "x.csv: is a device or a pipe, but must be a file or a folder."),
    Attack("a device as configuration", nothing,
        ("train", "rows.npz", "--config", "/dev/zero", "--output", "new"),
        "/dev/zero: can't be read (it is a pipe or a device, not a file)."),
    Attack("a program as a number", nothing,
        ("train", "rows.npz", "--epochs", "__import__('os').system('touch executed')"),
        "--epochs must be a whole number, got \"__import__('os').system('touch executed')\""),
    Attack("a class to be made as a value", nothing,
        ("train", "rows.npz", "--optim", OBJECT),
        "unknown option --optim. Did you mean --optim.lr or --optim.l2?"),
)  # fmt: skip
