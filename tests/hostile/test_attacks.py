"""All attacks are met as expected, and their number is the one that the README states."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch

from tests.helpers.processes import finish_function
from tests.hostile.attacks import ATTACKS
from tests.hostile.attacks import __main__ as attacks
from tests.hostile.attacks.attack import Attack, Make, file, nothing
from tests.hostile.points import lay_out

ROOT = Path(__file__).resolve().parents[2]
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs fork and /proc")
MISSING, WORKING, LINE = "data inspect gone.npz", "data inspect rows.npz", "gone.npz: no such file or folder."
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


def try_all(root: Path) -> None:
    """Make attacks that are not met as expected, each in its way, and then all others."""

    def try_one(make: Make, words: str, line: str, code: int = 2, shown: int | None = None) -> None:
        attack = Attack("x", make, words, line, code)
        problem, _ = attacks.problem_of(attack, root / "template", root / "attacked")
        print(problem[:shown], flush=True)

    def overwrite(folder: Path) -> None:
        (folder.parent / "secret.txt").unlink()
        (folder.parent / "secret.txt").write_text("owned")

    torch.set_num_threads(1)
    lay_out(root / "template")
    try_one(nothing, MISSING, LINE)
    try_one(nothing, MISSING, "all is well")
    try_one(nothing, WORKING, "training: ")
    try_one(nothing, WORKING, "training: ", 0)
    try_one(nothing, "data inspect rows.npz --output report", "training: ", 1)
    try_one(file("executed", ""), MISSING, LINE)
    try_one(overwrite, MISSING, LINE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attacks, "MEMORY", 1 << 20)
        try_one(nothing, "data inspect photos", "images", 0, 10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attacks, "SECONDS", 1)
        rows = "".join(f"photos/blue/00.png,c{row}\n" for row in range(300_000))
        try_one(file("x.csv", "file,label\n" + rows), "data inspect x.csv", "", 0)
    attacks.main([str(root / "all")])


@pytest.mark.long
@LINUX
def test_all_attacks_are_met_as_expected_and_one_that_is_not_is_found(tmp_path):
    finish_function(try_all, tmp_path / "said", tmp_path)
    said = (tmp_path / "said").read_text()
    assert "Traceback" not in said
    assert said.startswith(FOUND)
    assert not [line for line in said.splitlines() if ": WRONG: " in line]
    assert said.splitlines()[-1] == f"{len(ATTACKS)} attacks, 0 not met as expected"
