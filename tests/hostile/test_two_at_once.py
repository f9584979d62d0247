"""Two commands that write to the same place: the second is refused, and nothing is written."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import socket
from dataclasses import replace

import numpy as np
import pytest

from spml.cli.main import main
from spml.common.errors import InputError
from spml.common.locks import only_writer
from spml.config import from_dict, read_yaml
from spml.runs.folder.held_out import read_held_out
from spml.runs.folder.layout import only_writer_in
from spml.runs.train import run_training
from tests.data.benchmarks.layouts import voc2012
from tests.helpers.commands import fails
from tests.helpers.features import HIDE, make_features
from tests.helpers.processes import started

RIDGE = ["--head", "ridge", "--mean_labels", "1.6", "--threads", "1"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two finished runs, a table of labels for them, a folder for audits, a benchmark, and features."""
    place = tmp_path_factory.mktemp("place")
    features = make_features(place / "features.npz")
    main(["train", str(features), *HIDE, *RIDGE, "--output", str(place / "first")])
    shutil.copytree(place / "first", place / "second")
    (place / "audit").mkdir()
    voc2012(place / "voc")
    classes = np.array(list("abcd"))
    with (
        open(place / "sheet.csv", "w", newline="") as stream,
        np.load(features) as content,
    ):
        writer = csv.writer(stream)
        writer.writerow(["file", "labels", "complete"])
        for name in read_held_out(place / "first").ids[:40]:
            writer.writerow([name, "|".join(classes[content["Y"][int(name)] == 1]), "yes"])
    return place


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("command", "target", "inside"),
    [
        (f"train features.npz {' '.join([*HIDE, *RIDGE])} --output first", "first", True),
        (f"train features.npz {' '.join([*HIDE, *RIDGE])} --output first --overwrite", "first", True),
        (f"train features.npz {' '.join([*HIDE, *RIDGE])} --output first --resume", "first", True),
        ("thresholds first --target labels", "first", True),
        ("audit first --output audit --overwrite", "audit", True),
        ("audit use sheet.csv first second --draws 50", "second", True),
        ("predict first features.npz --output tags.csv", "tags.csv", False),
        ("data convert features.npz labels.npz --format nan", "labels.npz", False),
        ("data prepare voc2012 --root voc", "voc/spml-voc2012.json", False),
    ],
)
def test_the_second_command_is_refused_before_anything_is_written(
    place, monkeypatch, capsys, command, target, inside
):
    monkeypatch.chdir(place)
    with only_writer(place / target, inside=inside):
        before = contents(place)
        said = fails(capsys, *command.split())
        assert contents(place) == before
    name = re.match(r"(audit|data) (use|convert|prepare)|\w+", command)[0]
    assert re.search(
        rf"^spml {name}: {re.escape(target)}: process {os.getpid()} on {re.escape(socket.gethostname())} has "
        r"been writing to it since [\d :-]{19}(?: \(.+\))?\. Wait until that process has ended, or write to "
        r"another place\.$",
        said,
        re.MULTILINE,
    )
    assert contents(place).keys() == {path for path in before if not path.name.endswith(".lock")}


SETTINGS = {"data": {"unlisted": "negative", "observe": "single"}, "model": {"head": "ridge"}, "threads": 1}


def config(place, output, **more):
    data = {**SETTINGS["data"], "path": str(place / "features.npz")}
    return from_dict({**SETTINGS, "data": data, "output": str(output), **more})


def interfere(monkeypatch, action):
    """Do something while a training reads its data."""
    import spml.runs.train as training

    real = training.resolve

    def resolve(*arguments, **more):
        action()
        return real(*arguments, **more)

    monkeypatch.setattr(training, "resolve", resolve)


def test_of_two_trainings_that_start_together_one_is_refused(place, tmp_path, monkeypatch):
    output = tmp_path / "runs" / "mix"
    other = only_writer_in(output)
    interfere(monkeypatch, other.__enter__)
    with pytest.raises(InputError, match=rf"mix: process {os.getpid()} on .* has been writing to it"):
        run_training(config(place, output))
    assert [path.name for path in output.iterdir()] == [".lock"]
    other.__exit__(None, None, None)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("variable", "devices", "first"),
    [
        ("RANK", 2, False),
        ("LOCAL_RANK", 2, False),
        ("SLURM_PROCID", 2, False),
        ("SLURM_PROCID", 1, True),
        ("RANK", 1, True),
    ],
)
def test_processes_of_one_run_do_not_refuse_each_other(
    place, tmp_path, monkeypatch, variable, devices, first
):
    """SLURM and torchrun number processes even if each of them makes a run of its own."""

    class Reached(Exception):
        pass

    def reach():
        raise Reached

    interfere(monkeypatch, reach)
    monkeypatch.setenv(variable, "1")
    with only_writer_in(tmp_path / "mix"), pytest.raises(InputError if first else Reached):
        run_training(config(place, tmp_path / "mix", devices=devices))


def test_a_run_that_was_finished_meanwhile_is_not_replaced(place, tmp_path, monkeypatch):
    def finish():
        monkeypatch.undo()
        run_training(config(place, tmp_path / "mix"))

    interfere(monkeypatch, finish)
    with pytest.raises(InputError, match="mix: already holds a run"):
        run_training(config(place, tmp_path / "mix", seed=7))
    assert read_yaml(tmp_path / "mix" / "config.yaml").seed == 0
    assert (tmp_path / "mix" / "summary.json").is_file()
    assert not (tmp_path / "mix" / ".lock").exists()


def test_a_folder_that_stays_empty_is_removed_again(tmp_path):
    (tmp_path / "here").mkdir()
    for name in ("here/new/run", "here"):
        with (
            pytest.raises(InputError, match="no"),
            only_writer_in(tmp_path / name),
        ):
            raise InputError("no")
        assert [*tmp_path.rglob("*")] == [tmp_path / "here"]
    with only_writer_in(tmp_path / "new" / "run"):
        (tmp_path / "new" / "run" / "file").touch()
    assert (tmp_path / "new" / "run" / "file").is_file()


def test_a_new_checkpoint_that_was_not_used_is_removed_with_the_run(place, tmp_path):
    output = shutil.copytree(place / "first", tmp_path / "run")
    (output / "checkpoint.new.safetensors").write_bytes(b"half")
    again = replace(read_yaml(output / "config.yaml"), output=str(output))
    run_training(again, overwrite=True)
    assert {path.name for path in output.iterdir()} == {path.name for path in (place / "first").iterdir()}


@pytest.mark.long
def test_two_trainings_in_one_folder(place, tmp_path):
    """One ends, its files are those of one method, and the other is refused."""

    def words(method):
        command = f"train {place / 'features.npz'} --method {method} --epochs 20 --output {tmp_path / 'mix'}"
        return [*command.split(), *HIDE, "--threads", "1"]

    with (
        started(words("em"), tmp_path / "em") as em,
        started(words("gr"), tmp_path / "gr") as gr,
    ):
        processes = {"em": em, "gr": gr}
        for process in processes.values():
            process.join(300)
    codes = {method: process.exitcode for method, process in processes.items()}
    said = {method: (tmp_path / method).read_text() for method in processes}
    assert sorted(codes.values()) == [0, 2]
    (winner,), (loser,) = ([name for name in codes if codes[name] == code] for code in (0, 2))
    assert re.search(
        rf"{tmp_path / 'mix'}: (process {processes[winner].pid} on .* has been writing|already holds a run)",
        said[loser].splitlines()[-1],
    )
    assert read_yaml(tmp_path / "mix" / "config.yaml").method == winner
    assert json.loads((tmp_path / "mix" / "model.json").read_text())["method"]["name"] == winner
    assert not [path.name for path in (tmp_path / "mix").iterdir() if path.name.startswith(".")]
