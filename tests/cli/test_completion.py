"""`spml completion` prints a script that completes commands, options and values, and starts no Python."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from spml.cli.completion import completion_script
from spml.methods.registry import methods
from tests.helpers.commands import execute, fails


@pytest.fixture(scope="module")
def scripts():
    return {shell: completion_script(shell) for shell in ("bash", "zsh", "fish")}


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("spml tra", ["train"]),
        ("spml train --epo", ["--epochs"]),
        ("spml train --model.head", ["--model.head", "--model.head_bias"]),
        ("spml train photos --frozen ", ["auto", "yes", "no"]),
        ("spml train --data.flip f", ["false"]),
        ("spml train --method gp", ["gpr"]),
        ("spml data ins", ["inspect"]),
        ("spml bench run --engine ", ["local", "ray"]),
        ("spml methods em_", ["em_apl"]),
        ("spml predict mod", ["model.json"]),
        ("spml train --output mod", ["model.json"]),
    ],
)
def test_bash_completes_a_line(scripts, line, completed, tmp_path):
    (tmp_path / "model.json").touch()
    words = line.split(" ")
    typed = f"COMP_WORDS=({' '.join(word or chr(34) * 2 for word in words)}); COMP_CWORD={len(words) - 1}"
    script = f'{scripts["bash"]}\n{typed}\n_shtab_spml\nprintf "%s\\n" "${{COMPREPLY[@]}}"\n'
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout.split() == completed
    assert "python" not in scripts["bash"].lower()


def test_the_script_for_zsh_names_commands_options_and_values(scripts):
    script = scripts["zsh"]
    assert script.startswith("#compdef spml\n")
    assert '{--model.frozen,--frozen}"[' in script
    assert "(auto yes no)" in script
    assert f"({' '.join(['auto', *methods()])})" in script
    for command in ("train", "predict", "evaluate", "completion"):
        assert f"    {command}:" in script


def test_the_script_for_fish_names_commands_options_and_values(scripts):
    lines = scripts["fish"].splitlines()
    using = "complete -c spml -n '_shtab_spml_using"
    starts = (
        f"{using}; and test $_shtab_spml_npos -eq 0' -a train ",
        f"{using}; and test $_shtab_spml_npos -eq 0' -a bench ",
        f"{using}; and test $_shtab_spml_npos -eq 0' -a data ",
        f"{using} train' -l epochs ",
        f"{using} data; and test $_shtab_spml_npos -eq 0' -a inspect ",
        f"{using} audit; and test $_shtab_spml_npos -eq 0' -a sample ",
        f"{using} audit; and test $_shtab_spml_npos -eq 0' -a use ",
        f"{using} audit' -l folds ",  # and not after `audit sample`
    )
    assert [sum(line.startswith(start) for line in lines) for start in starts] == [1] * len(starts)
    assert not [line for line in lines if line.startswith(f"{using} audit sample' -l folds ")]
    (line,) = (line for line in lines if line.startswith(f"{using} train' -l model.frozen -l frozen "))
    assert ' -xka "auto yes no" ' in line
    assert "python" not in scripts["fish"].lower()
    if shutil.which("fish"):
        subprocess.run(["fish", "-n"], input=scripts["fish"], text=True, check=True)


def test_the_command_prints_the_script_with_the_figures(capsys):
    execute("completion bash")
    script = capsys.readouterr().out
    assert "_shtab_spml_analyse_maps_option_strings=" in script


def test_another_shell_is_refused(capsys):
    assert fails(capsys, "completion fsh") == (
        "spml completion: SHELL must be one of bash, zsh, fish, got 'fsh'. "
        "Did you mean fish or zsh or bash?\n"
    )
