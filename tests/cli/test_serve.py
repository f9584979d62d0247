"""The command `spml serve`."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import socket

import pytest

from spml.common.errors import missing_extra
from spml.serve.limits import Limits
from tests.helpers.commands import run


@pytest.fixture
def started(monkeypatch):
    """Servers that would run: settings and service; requests that they are told to have cut off."""
    from spml.serve import server

    calls = []

    class Stopped:
        lacks_memory = False

        def __init__(self, settings, service, cut_off=0):
            calls.append((settings, service))

        def taking_signals(self):
            return contextlib.nullcontext()

        def run(self, listeners):
            assert listeners[0].getsockname()[1] > 0

    monkeypatch.setattr(server, "make_server", Stopped)
    return calls


def test_the_options_reach_the_server(feature_run, started, capsys):
    options = "--port 0 --batch_size 8 --max_pixels 1000 --max-samples 3 --body_timeout 1.5"
    code, out, err = run(capsys, "serve", feature_run, options, "--shutdown_timeout 5")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("http://127.0.0.1:")
    assert lines[1:] == [
        f"{feature_run}: 3 classes, takes rows of 8 features. Ctrl-C stops.",
        "Stopped: 0 requests answered.",
    ]
    settings, service = started[0]
    assert service.limits == Limits(max_pixels=1000, max_samples=3, body_timeout=1.5)
    assert (settings.batch_size, settings.shutdown_timeout, settings.workers) == (8, 5.0, 1)


def test_other_machines_are_mentioned(feature_run, started, capsys):
    out = run(capsys, "serve", feature_run, "--host 0.0.0.0 --port 0")[1]
    assert out.splitlines()[0].startswith("http://0.0.0.0:")
    assert "Anyone who can reach this port may use it: there is no password and no encryption." in out


def test_requests_that_were_cut_off_are_a_failure(feature_run, started, capsys, monkeypatch):
    from spml.serve.service import Service

    monkeypatch.setattr(Service, "cut_off", property(lambda self: 2, lambda self, value: None), raising=False)
    code, _, err = run(capsys, "serve", feature_run, "--port 0 --shutdown_timeout 3")
    assert code == 1
    assert err == "spml serve: 2 requests were not finished within shutdown_timeout=3 seconds.\n"


@pytest.mark.parametrize("package", ["fastapi", "uvicorn", "python_multipart", "prometheus_client"])
def test_a_missing_extra_is_named(package, feature_run, started, capsys, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else find(name))
    code, _, err = run(capsys, "serve", feature_run)
    assert (code, started) == (2, [])
    name = package.replace("_", "-")
    assert err == f"spml serve: {missing_extra(name, 'serve')}\n"
    assert "pip install fastapi uvicorn python-multipart prometheus-client" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "RUN is missing: folder of the run."),
        (["{run}/nothing"], "{run}/nothing"),
        (["{run}", "--port", "70000"], "port 70000 can't be used"),
        (["{run}", "--port", "eighty"], "--port must be a whole number, got 'eighty'"),
        (["{run}", "--host", "no host"], "host=no host can't be used"),
        (["{run}", "--workers", "0"], "`workers` must be at least 1, got 0."),
        (["{run}", "--threads", "0"], "threads must be at least 1, got 0."),
        (["{run}", "--batch_size", "-1"], "batch_size must be at least 1, got -1."),
        (["{run}", "--decoders", "0"], "decoders must be at least 1, got 0."),
        (["{run}", "--shutdown_timeout", "-1"], "`shutdown_timeout` must be greater than 0, got -1."),
        (["{run}", "--max_pixels", "0"], "max_pixels must be greater than 0, got 0."),
        (["{run}", "--body_timeout", "nan"], "--body_timeout must be a number, got 'nan'"),
        (["{run}", "--max_queue", "10"], "`max_queue` must be at least `max_samples` (64)"),
        (["{run}", "--device", "tpu"], "--device must be one of auto, cpu, cuda, mps, got 'tpu'"),
    ],
)
def test_mistakes_are_named_in_one_line(words, message, feature_run, started, capsys):
    code, _, err = run(capsys, "serve", [word.format(run=feature_run) for word in words])
    assert (code, started) == (2, [])
    assert message.format(run=feature_run) in err
    assert err.count("\n") == 1


def test_a_port_in_use_is_named(feature_run, started, capsys):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        code, _, err = run(capsys, "serve", feature_run, "--port", port)
    assert (code, started) == (2, [])
    assert err == (
        f"spml serve: port {port} can't be used (Address already in use). Pass another `port`; "
        "0 takes a free one.\n"
    )


def test_damaged_files_are_named(feature_run, started, capsys, tmp_path):
    for name in ("thresholds.json", "model.json"):
        damaged = shutil.copytree(feature_run, tmp_path / name)
        (damaged / name).write_text("{}")
        code, _, err = run(capsys, "serve", damaged)
        assert (code, started) == (2, [])
        assert str(damaged / name) in err
        assert err.count("\n") == 1
