"""Attacks by configurations and specifications."""

from __future__ import annotations

from tests.hostile.attacks.attack import EVIL, Attack, all_of, file

TRAIN, BENCH = "train rows.npz --config x.yaml --output new", "bench status x.yaml --output bench"
ALIASES = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n"
    for old, new in zip("abcdefghijk", "bcdefghijkl", strict=True)
)
CALLS = "!!python/object/apply:os.system ['touch executed']\n"
MANY_SEEDS = """
data: {rows: {path: rows.npz}}
hiding: {none: {observe: none}}
candidates: [an]
seeds: 1000000000
"""
NAMES_CODE = """
data: {photos: {path: photos}}
hiding: {none: {observe: none}}
candidates: [an]
train: {model.backbone: "evil:make"}
"""
ATTACKS = (
    Attack("references that stand for billions of values", file("x.yaml", ALIASES), TRAIN,
        "x.yaml, line 2: references (*name) are not supported. Write the value out."),
    Attack("the same in a specification", file("x.yaml", ALIASES), BENCH,
        "x.yaml, line 2: references (*name) are not supported. Write the value out."),
    Attack("a configuration of 10,000 levels", file("x.yaml", "[" * 10_000), TRAIN,
        "x.yaml, line 1: lists or mappings are nested more than 32 levels deep"),
    Attack("a specification of 10,000 levels", file("x.yaml", "[" * 10_000), BENCH,
        "x.yaml, line 1: lists or mappings are nested more than 32 levels deep"),
    Attack("a configuration that runs code", file("x.yaml", f"method: {CALLS}"), TRAIN,
        "x.yaml, line 1: not valid YAML: could not determine a constructor for the tag"),
    Attack("a specification that runs code", file("x.yaml", f"title: {CALLS}"), BENCH,
        "x.yaml, line 1: not valid YAML: could not determine a constructor for the tag"),
    Attack("a configuration that names code as the backbone",
        all_of(file("evil.py", EVIL), file("x.yaml", "model: {backbone: 'evil:make'}\n")),
        "train photos --config x.yaml --output new",
        "backbone 'evil:make' is code of your own, which is imported only where you name it yourself"),
    Attack("a specification that names code as the backbone",
        all_of(file("evil.py", EVIL), file("x.yaml", NAMES_CODE)), BENCH,
        "backbone 'evil:make' is code of your own, which no specification can name"),
    Attack("a configuration of 10 MB", file("x.yaml", "# " + "a" * 10_000_000), TRAIN,
        "x.yaml: has more than 262,144 characters, the limit for YAML."),
    Attack("a number that takes minutes", file("x.yaml", "epochs: " + "1:" * 100_000 + "1\n"), TRAIN,
        "x.yaml, line 1: a number has 200,001 characters"),
    Attack("a bomb inside a text", file("x.yaml", f"epochs: '{ALIASES.splitlines()[0]}'\n"), TRAIN,
        "epochs must be a whole number, got"),
    Attack("a configuration that is not text", file("x.yaml", bytes(range(256))), TRAIN,
        "x.yaml: is not UTF-8 (invalid start byte). Save it as UTF-8."),
    Attack("a configuration that names another one", file("x.yaml", "config: ../secret.txt\n"), TRAIN,
        "x.yaml: names another configuration file (`config`), which is not supported. Copy its"),
    Attack("a terminal escape as a setting", file("x.yaml", '"\\e]0;owned\\a": 1\n'), TRAIN,
        "x.yaml: unknown setting '\\x1b]0;owned\\x07'. Known: accelerator, batch_size,"),
    Attack("a layer of 10^12 units",
        file("x.yaml", "model: {head: mlp, hidden: 1000000000000}\nmethod: gr\n"), TRAIN,
        "not enough memory (24000000000000 bytes were asked for at once)", 1),
    Attack("a NUL byte in the name of the output", file("x.yaml", 'output: "a\\0b"\nmean_labels: 1.5\n'),
        "train rows.npz --config x.yaml",
        "output: 'a\\x00b' holds a NUL byte, which no file name has. Correct it."),
    Attack("a NUL byte in the name of the data", file("x.yaml", 'data: {path: "a\\0b"}\n'),
        "train --config x.yaml --output new",
        "a\\x00b: no such file or folder. Known: VOCdevkit, audit, bench, many.npz, photos, rows.npz,"),
    Attack("a specification of 10^9 seeds", file("x.yaml", MANY_SEEDS), BENCH,
        "x.yaml: seeds: Expected `int` <= 1000, got 1000000000"),
)  # fmt: skip
