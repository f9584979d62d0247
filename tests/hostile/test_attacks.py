"""All attacks are met as expected, and their number is the one that the README states."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.attacks import ATTACKS

ROOT = Path(__file__).resolve().parents[2]
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs fork and /proc")
PROGRAM = r"""
import sys
from pathlib import Path

import torch

from tests.hostile.attacks import __main__ as attacks
from tests.hostile.attacks.attack import Attack, file, nothing
from tests.hostile.points import lay_out

MISSING, WORKING, LINE = "data inspect gone.npz", "data inspect rows.npz", "gone.npz: no such file or folder."
root, limits = Path(sys.argv[1]), (attacks.MEMORY, attacks.SECONDS)
torch.set_num_threads(1)
lay_out(root / "template")


def problem(make, words, line, code=2):
    return attacks.problem_of(Attack("x", make, words, line, code), root / "template", root / "attacked")[0]


def overwrite(folder):
    (folder.parent / "secret.txt").unlink()
    (folder.parent / "secret.txt").write_text("owned")


print(problem(nothing, MISSING, LINE))
print(problem(nothing, MISSING, "all is well"))
print(problem(nothing, WORKING, "training: "))
print(problem(nothing, WORKING, "training: ", 0))
print(problem(nothing, "data inspect rows.npz --output report", "training: ", 1))
print(problem(file("executed", ""), MISSING, LINE))
print(problem(overwrite, MISSING, LINE))
attacks.MEMORY = 1 << 20
print(problem(nothing, "data inspect photos", "images", 0)[:10])
attacks.MEMORY, attacks.SECONDS = 600 << 20, 1
rows = "".join(f"photos/blue/00.png,c{row}\n" for row in range(300_000))
print(problem(file("x.csv", "file,label\n" + rows), "data inspect x.csv", "", 0))
attacks.MEMORY, attacks.SECONDS = limits
sys.argv[1] = str(root / "all")
attacks.main()
"""
FOUND = """
did not say 'all is well'
ended with 0, not 2

ended with 0, not 1
code was run
a file outside the folder was read or changed
ended with
ended with -9, not 0
"""


def test_every_attack_has_a_name_of_its_own_and_an_expected_line():
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)
    assert all(len(attack.line) >= 10 for attack in ATTACKS)
    assert {attack.code for attack in ATTACKS} == {0, 1, 2}


def test_the_readme_states_how_many_attacks_there_are():
    stated = re.findall(r"(\d+) attacks", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert stated == [str(len(ATTACKS))]


@pytest.mark.long
@LINUX
def test_all_attacks_are_met_as_expected_and_one_that_is_not_is_found(tmp_path):
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800, check=False
    )
    assert "Traceback" not in ended.stderr, ended.stderr
    assert ended.stdout.startswith(FOUND)
    assert not [line for line in ended.stdout.splitlines() if ": WRONG: " in line]
    assert ended.stdout.splitlines()[-1] == f"{len(ATTACKS)} attacks, 0 not met as expected"
