"""Processes that torchrun has started, on one machine and on two."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from spml.cli.main import main
from spml.common.errors import InputError
from spml.engine.distributed import make_fabric, started_processes
from tests.helpers.processes import started

TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "1", "RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2",
    "GROUP_WORLD_SIZE": "2", "GROUP_RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1",
}  # fmt: skip


@pytest.fixture
def environment(monkeypatch):
    """Sets the variables of another starter."""
    for name in [*TORCHRUN, "SLURM_NTASKS", "SLURM_NNODES", "SLURM_NTASKS_PER_NODE"]:
        monkeypatch.delenv(name, raising=False)

    def set_all(variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_all


def shape(fabric):
    """Machines, processes, and the number of this one."""
    return fabric._connector._num_nodes_flag, fabric.world_size, fabric.global_rank


def test_processes_of_torchrun_train_together(environment):
    assert started_processes() == 1
    environment(TORCHRUN)
    assert started_processes() == 4
    assert shape(make_fabric("cpu", 4)) == (2, 4, 3)
    assert shape(make_fabric("cpu", 1)) == (1, 1, 0)


@pytest.mark.parametrize(("tasks", "machines"), [("4", 2), ("3", 1)])
def test_tasks_of_slurm_lie_on_several_machines(environment, monkeypatch, tasks, machines):
    """Unless they are not the processes of the run."""
    made = {}
    make_fabric("cpu")  # imports it
    monkeypatch.setattr("lightning_fabric.Fabric", lambda **given: made.update(given))
    environment({"SLURM_NTASKS": tasks, "SLURM_NNODES": "2"})
    make_fabric("cpu", 4)
    assert (made["devices"], made["num_nodes"]) == (4 // machines, machines)


def test_another_number_of_processes_is_refused(environment):
    environment(TORCHRUN)
    with pytest.raises(InputError, match="`devices` is 2, but torchrun has started 4 processes"):
        make_fabric("cpu", 2)
    environment({"LOCAL_WORLD_SIZE": "3"})
    with pytest.raises(InputError, match="4 processes on 2 machines, but each machine needs the same number"):
        make_fabric("cpu", 4)


def test_the_command_takes_the_number_from_torchrun(environment, tmp_path, capsys):
    environment({**TORCHRUN, "WORLD_SIZE": "3"})
    arguments = ["train", "digits", "--print_config", "--output", str(tmp_path / "run")]
    main(arguments)
    assert "\ndevices: 3\n" in capsys.readouterr().out
    main([*arguments, "--devices", "2"])
    assert "\ndevices: 2\n" in capsys.readouterr().out


def features(path):
    """301 samples, which two processes can't share evenly, with one class each."""
    rng = np.random.default_rng(0)
    index = rng.integers(0, 5, 301)
    vectors = (np.eye(5)[index] + 0.3 * rng.normal(size=(301, 5))).astype(np.float32)
    np.savez(path, X=vectors, Y=index, classes=np.array(list("abcde")))
    return path


def start_two_machines(words, port):
    """Start a training with torchrun, as on each of two machines."""
    place = ("--nnodes=2", "--nproc_per_node=1", "--rdzv_backend=c10d", f"--rdzv_endpoint=127.0.0.1:{port}")
    command = [sys.executable, "-m", "torch.distributed.run", *place, f"--rdzv_id={port}"]
    variables = {**os.environ, "OMP_NUM_THREADS": "1"}
    return [
        subprocess.Popen(
            [*command, f"--node_rank={rank}", "-m", "spml", *words],
            env=variables, stderr=subprocess.PIPE, text=True,
        )
        for rank in (0, 1)
    ]  # fmt: skip


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def finish(processes):
    for process in processes:
        said = process.communicate(timeout=240)[1]
        assert process.returncode == 0, said


def assert_equal_runs(folder, expected, devices):
    ours, theirs = (load_file(path / "model.safetensors") for path in (folder, expected))
    assert ours.keys() == theirs.keys()
    for name, values in theirs.items():
        np.testing.assert_allclose(ours[name], values, rtol=0, atol=1e-6, err_msg=name)
    assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in expected.iterdir())
    assert json.loads((folder / "summary.json").read_text())["cost"]["devices"] == devices


@pytest.mark.long
def test_two_processes_and_two_machines_equal_one_process(tmp_path, monkeypatch):
    """A run of two processes is killed in the middle, and continued on two machines.

    The two processes are forks with the variables that torchrun sets.
    """
    data, folder = features(tmp_path / "features.npz"), tmp_path / "two"
    words = ["train", str(data), "--method", "em", "--epochs", "60", "--threads", "1", "--output"]
    main([*words, str(tmp_path / "one")])
    one_machine = {**TORCHRUN, "WORLD_SIZE": "2", "GROUP_WORLD_SIZE": "1", "GROUP_RANK": "0"}
    one_machine["MASTER_PORT"] = str(free_port())
    until = time.monotonic() + 120
    with contextlib.ExitStack() as stack:
        for rank in "01":
            with monkeypatch.context() as patch:
                for name, value in {**one_machine, "RANK": rank, "LOCAL_RANK": rank}.items():
                    patch.setenv(name, value)
                last = stack.enter_context(started([*words, str(folder)], tmp_path / f"said-{rank}"))
        while last.is_alive() and epochs(folder) < 3 and time.monotonic() < until:
            time.sleep(0.02)
    assert 3 <= epochs(folder) < 60
    finish(start_two_machines([*words, str(folder), "--resume"], free_port()))
    assert_equal_runs(folder, tmp_path / "one", 2)


def epochs(folder: Path) -> int:
    path = folder / "metrics.jsonl"
    return len(path.read_text().splitlines()) if path.is_file() else 0


@pytest.mark.long
def test_fabric_is_imported_without_what_is_slow():
    """And what it did not see is whole afterwards."""
    script = (
        "import sys; from spml.engine import make_fabric; make_fabric('cpu'); "
        "print(*sorted({'torch._dynamo', 'torchmetrics', 'transformers'} & set(sys.modules))); "
        "import torch._dynamo; print(torch._dynamo.OptimizedModule.__module__)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["", "torch._dynamo.eval_frame"]
