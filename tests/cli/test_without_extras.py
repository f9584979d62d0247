"""Every command in an environment without any extra works, or ends in a sentence on what to install."""

from __future__ import annotations

import json
import subprocess
import sys

from spml.cli.main import COMMANDS
from spml.common.errors import EXTRAS
from tests.helpers.features import make_features

SCRIPT = """
import contextlib, io, json, sys, traceback
for name in json.loads(sys.argv[1]):
    sys.modules[name] = None  # as where it is not installed
from spml.cli.main import main
for words in json.loads(sys.argv[2]):
    said, code = io.StringIO(), 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main(words)
        except SystemExit as end:
            code = end.code
        except BaseException:
            code = traceback.format_exc()
    print(json.dumps([words, code, said.getvalue()]))
"""
MODULES = {"pillow-heif": "pillow_heif", "markdown-it-py": "markdown_it"}
HIDE = "--data.unlisted negative --data.observe single"
NEEDED = {"bench": "bench", "demo": "bench", "review": "review", "serve": "serve", "export": "export"}
"""Extra of the commands that can't do anything without one."""


def test_every_command_without_any_extra(tmp_path):
    make_features(tmp_path / "x.npz")
    (tmp_path / "sample.csv").write_text("file,labels,complete\n")
    commands = [
        f"train x.npz {HIDE} --head ridge --mean_labels 1.8 --output run",
        "predict run x.npz", "predict run x.npz --output p.parquet", "predict run x.npz --engine ray",
        "evaluate run x.npz --data.unlisted negative", "thresholds run", "audit run",
        "audit sample run --rows 20", "audit use run/sample.csv run", "export run", "review run/audit",
        "review sample.csv", "review export run/audit out.npz --format nan", "serve run", "bench run demo",
        "bench list", "bench show demo", "bench status demo", "bench report demo", "bench config store key",
        "data inspect x.npz", "demo --output d",
        "data prepare voc2012 --root .", "data convert x.npz y.npz --format nan", "loop --output work",
        "analyse --list", "analyse regret bench/demo", "methods gr", "completion bash",
        f"train x.npz {HIDE} --logger wandb --epochs 1 --output w", "train x.npz --names openai --output n",
    ]  # fmt: skip
    groups = {"", "data", "analyse"}
    tried = {name for name in COMMANDS for line in commands if line.startswith(name)}
    assert tried | groups >= COMMANDS.keys()
    packages = {name for each in EXTRAS.values() for name in each.split()}
    blocked = sorted(MODULES.get(name, name.replace("-", "_")) for name in packages)
    lines = json.dumps([line.split() for line in commands])
    words = [sys.executable, "-c", SCRIPT, json.dumps(blocked), lines]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ended = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(ended) == len(commands)
    assert [each for each in ended if each[1] not in (0, 1, 2)] == []
    for command, code, said in ended:
        extra = NEEDED.get(command[0])
        if extra and command[:2] not in (["review", "export"], ["bench", "list"], ["bench", "show"]):
            assert (code, f"(the extra `{extra}`)" in said) == (2, True), (command, said)
