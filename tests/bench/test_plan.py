"""Identity of a run: which sources its numbers depend on."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

import spml
from spml.bench import plan

PACKAGE = Path(spml.__file__).parent

NO_NUMBERS = {
    "__init__.py", "config.py", "errors.py", "files.py", "plugins.py", "version.py", "bench/features.py",
    "bench/plan.py", "bench/rows.py", "bench/space.py", "bench/spec.py", "data/__init__.py",
    "data/cache.py", "data/dataset.py", "data/open.py", "data/partial.py", "data/phrases.py", "data/safe.py",
    "runs/__init__.py", "runs/api.py", "runs/console.py", "runs/evaluate.py", "runs/folder.py",
    "runs/init_from.py", "runs/recording.py", "runs/summary.py", "runs/train.py",
}  # fmt: skip
"""Modules that `bench/run.py` reaches and that change no number of a run. Settings and the content of the
data, whichever reader delivers it, belong to the key of a run anyway."""

NO_NUMBERS_IN = ("data/inspection/", "data/readers/", "plots/", "runs/recipes/", "testing/")


@pytest.fixture
def package(tmp_path):
    """A copy of the sources."""
    return shutil.copytree(PACKAGE, tmp_path / "spml", ignore=shutil.ignore_patterns("__pycache__"))


def imported(path):
    """Modules of the package that a module imports, inside functions as well."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            places = [base.with_suffix(".py"), base / "__init__.py"]
            for alias in node.names:
                places += [base / f"{alias.name}.py", base / alias.name / "__init__.py"]
            yield from (place for place in places if place.is_file())


def test_every_module_that_a_run_imports_is_a_source_or_known_to_change_no_number():
    reached, pending = set(), [PACKAGE / "bench" / "run.py"]
    while pending:
        path = pending.pop()
        if path not in reached:
            reached.add(path)
            pending += imported(path)
    others = {path.relative_to(PACKAGE).as_posix() for path in reached.difference(plan._sources(PACKAGE))}
    assert PACKAGE / "losses" / "__init__.py" in reached
    assert others.difference(NO_NUMBERS) == {name for name in others if name.startswith(NO_NUMBERS_IN)}


def test_a_source_that_was_moved_is_noticed(package):
    assert plan._hash_sources(package) == plan.code_version()
    (package / "labels.py").rename(package / "label_sets.py")
    with pytest.raises(FileNotFoundError, match=r"labels\.py: .* was moved"):
        plan._hash_sources(package)


@pytest.mark.parametrize("name", plan._SOURCES)
def test_every_file_of_every_source_counts(package, name):
    before, source = plan._hash_sources(package), package / name
    if source.is_dir():
        (source / "new.py").write_text("")
        with_new_file = plan._hash_sources(package)
        assert with_new_file != before
        source = source / "new.py"
        before = with_new_file
    source.write_text(source.read_text() + "\n")
    assert plan._hash_sources(package) != before


def test_other_files_do_not_count(package):
    before = plan._hash_sources(package)
    (package / "version.py").write_text("")
    (package / "losses" / "notes.txt").write_text("")
    assert plan._hash_sources(package) == before
