"""The rules of the house that a machine can check."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from spml.methods.registry import methods

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "spml"
FILES = sorted(SOURCE.rglob("*.py"))
MAY_NAME_METHODS = ("losses", "methods", "recipes")

# What a part may import of the others (DESIGN: dependencies run one way).
ALLOWED = {
    "common": {"common"},
    "losses": {"losses"},
    "labels": {"common"},
    "scores": {"common", "labels", "scores"},
    "metrics": {"common", "metrics", "scores"},
    "config": {"common", "config"},
    "data": {"common", "config", "data", "labels"},
    "methods": {"common", "labels", "losses", "methods", "metrics"},
    "models": {"common", "config", "data", "methods", "models"},
    "engine": {"common", "config", "data", "engine", "labels", "losses", "methods", "metrics", "scores"},
    "decisions": {"common", "data", "decisions", "labels", "metrics", "scores"},
    "audit": {"audit", "common", "config", "data", "decisions", "labels", "metrics", "scores", "version"},
    "export": {"common", "data", "decisions", "export", "models", "version"},
    "loop": {"audit", "common", "config", "data", "decisions", "labels", "loop", "review", "runs", "scores"},
    "review": {"audit", "common", "data", "labels", "review"},
    "serve": {"common", "config", "data", "decisions", "engine", "runs", "serve", "version"},
    "testing": {"common", "labels", "losses", "methods", "testing"},
    "plots": {"common", "data", "plots"},
    "analysis": {
        "analysis", "bench", "common", "config", "data", "decisions", "engine", "labels", "methods",
        "metrics", "models", "plots", "runs",
    },
    "sklearn": {
        "common", "config", "data", "decisions", "labels", "methods", "metrics", "models", "runs",
        "sklearn", "version",
    },
    "runs": {
        "audit", "common", "config", "data", "decisions", "engine", "export", "labels", "methods", "metrics",
        "models", "plots", "runs", "scores", "version",
    },
}  # fmt: skip


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """All nodes of the syntax tree of a file."""
    return [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]


@pytest.fixture(autouse=True, scope="module")
def forget_nodes():
    yield
    nodes_of.cache_clear()


def imported_parts(path: Path) -> set[str]:
    """The parts of the package that a file imports, at any place in it."""
    depth = len(path.relative_to(SOURCE).parts)
    found = set()
    for node in nodes_of(path):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        inside = list(path.relative_to(SOURCE).parts[: depth - node.level])
        names = (node.module or "").split(".") if node.module else []
        full = [*inside, *names]
        found |= {full[0]} if full else {alias.name for alias in node.names}
    return found


def test_dependencies_run_one_way():
    wrong = {}
    for path in FILES:
        part = part_of(path)
        if others := imported_parts(path) - ALLOWED.get(part, imported_parts(path)):
            wrong[str(path.relative_to(SOURCE))] = others
    assert not wrong


def test_only_losses_methods_and_recipes_name_methods():
    names = set(methods()) - {"iu", "ignore"}  # also what NumPy calls integer types, and filters of warnings
    found = {
        f"{path.relative_to(SOURCE)}: {node.value}"
        for path in FILES if part_of(path) not in MAY_NAME_METHODS
        for node in nodes_of(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names
    }  # fmt: skip
    assert not found


def test_every_file_of_methods_has_its_slow_reference():
    """Adding a method touches two files: methods/NAME.py and tests/reference/NAME.py."""
    files = {
        path.stem
        for path in (SOURCE / "methods").glob("*.py")
        if not path.stem.startswith("_") and "@register(" in path.read_text()
    }
    assert len(files) > 20
    references = {path.stem for path in (ROOT / "tests" / "reference").glob("*.py")}
    assert files <= references


def test_bottom_parts_import_torch_and_numpy_only():
    outside = {"torch", "numpy", "__future__", "scipy"}
    standard = {
        "abc", "collections", "functools", "typing", "hashlib", "math", "dataclasses", "itertools",
        "importlib", "inspect", "pkgutil", "warnings",
    }  # fmt: skip
    for path in FILES:
        if part_of(path) not in ("losses", "labels", "metrics", "scores"):
            continue
        for node in nodes_of(path):
            names = []
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("common"):
                assert node.module in ("common.label_checks", "common.plugins"), path
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            for name in names:
                assert name.split(".")[0] in outside | standard, f"{path}: {name}"
            # Labels convert to SciPy matrices when asked; nothing at the bottom needs SciPy to be imported.
            if any(name.startswith("scipy") for name in names):
                assert node.col_offset > 0


def test_nothing_is_executed_from_files():
    for path in FILES:
        for node in nodes_of(path):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names = [alias.name for alias in node.names] + [getattr(node, "module", "") or ""]
                assert not {"pickle", "cloudpickle", "dill", "joblib"} & set(names), path
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("eval", "exec", "torch.load", "torch.save"), f"{path}: {called}"
                if called in ("np.load", "numpy.load"):
                    text = ast.unparse(node)
                    assert "allow_pickle=False" in text or "mmap_mode" in text, f"{path}: {text}"


def test_modules_are_imported_by_name_in_known_places():
    """The API of `spml`, installed plug-ins, and the code that a user names on the command line."""
    importers = ("import_module", "__import__", "run_path", "run_module", "spec_from_file_location")
    found = {
        str(path.relative_to(SOURCE))
        for path in FILES
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in importers
    }
    assert found == {"__init__.py", "common/plugins.py", "cli/main.py", "cli/own_network.py"}


def test_what_others_wrote_is_parsed_in_one_place():
    """`parsing` and `documents` know the limits; specifications are checked before they are read."""
    own = {"common/documents.py"}
    parsers = {"json.load", "json.loads", "yaml.load", "yaml.safe_load"}
    found = {
        str(path.relative_to(SOURCE))
        for path in FILES
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in parsers
    }
    assert found == own


def test_files_are_of_a_size_to_read():
    long = {str(path.relative_to(SOURCE)): len(path.read_text().splitlines()) for path in FILES}
    whole = {"runs/run.py": 820}  # the one class for a trained run
    assert not {name: lines for name, lines in long.items() if lines > whole.get(name, 700)}


def test_public_functions_and_classes_have_docstrings():
    missing = []
    for path in FILES:
        tree = ast.parse(path.read_text())
        for node in tree.body:
            if (
                isinstance(node, (ast.FunctionDef, ast.ClassDef))
                and not node.name.startswith("_")
                and not ast.get_docstring(node)
            ):
                missing.append(f"{path.relative_to(SOURCE)}: {node.name}")
    assert not missing


def test_nothing_imports_a_test_module():
    """What several test modules need lies in tests/helpers."""
    tests = Path(__file__).parent
    found = []
    for path in [*tests.rglob("*.py"), *(tests.parent / "benchmarks").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
                if any(name.startswith("test_") or name == "conftest" for name in names):
                    found.append(f"{path.relative_to(tests.parent)}: {ast.unparse(node)}")
    assert not found
