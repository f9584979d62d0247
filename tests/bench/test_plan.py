"""Identity of a run: which sources its numbers depend on."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

import spml
from spml.bench import plan
from spml.bench.read_spec import find_spec, read_spec
from spml.data.hiding import check_observe
from spml.errors import InputError
from tests.bench.toys import TOY, save_spec

PACKAGE = Path(spml.__file__).parent

NO_NUMBERS = {
    "__init__.py", "bench/features.py", "bench/plan.py", "bench/rows.py", "bench/space.py",
    "bench/spec.py", "config.py", "data/__init__.py", "data/cache.py", "data/dataset.py",
    "data/feature_store.py", "data/open.py", "data/phrases.py", "data/safe.py",
    "data/join.py", "data/listing.py", "data/names.py", "data/rename.py",
    "data/shards.py", "data/subset.py", "data/unlisted.py", "errors.py", "files.py", "locks.py", "parsing.py",
    "plugins.py", "runs/__init__.py",
    "runs/api.py", "runs/choose_cut.py", "runs/common_classes.py", "runs/compare.py", "runs/console.py",
    "runs/contents.py",
    "runs/description.py", "runs/divergence.py", "runs/evaluate.py", "runs/export.py", "runs/fine_tune.py",
    "runs/folder.py", "runs/frames.py", "runs/full_labels.py", "runs/held_out.py", "runs/inputs.py",
    "runs/network.py", "runs/predict.py", "runs/prediction_files.py", "runs/recording.py",
    "runs/run.py", "runs/set_thresholds.py", "runs/solver_checks.py", "runs/summary.py",
    "runs/final_scores.py", "runs/method_memory.py", "runs/row_names.py", "runs/score_table.py",
    "runs/tensor_files.py", "runs/top_score_files.py",
    "runs/thresholds.py", "runs/train.py", "runs/trained_model.py", "setting_types.py",
    "short_names.py", "version.py",
    "web.py",
}  # fmt: skip
"""Modules that `bench/run.py` reaches and that change no number of a run. Settings and the content of the
data, whichever reader delivers it, belong to the key of a run anyway."""

NO_NUMBERS_IN = (
    "audit/", "data/inspection/", "data/memory/", "data/readers/", "data/tables/", "data/writers/",
    "export/", "plots/", "runs/audits/", "runs/cluster/", "runs/recipes/", "serve/", "sklearn/", "testing/",
)  # fmt: skip


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


# -- labels of a candidate -------------------------------------------------------------------------------


def configs(spec):
    """Configuration of the first trial of each candidate, by name and seed."""
    trials = {series.key: plan.next_trial(spec, series, [], Path()) for series in plan.all_series(spec)}
    return {(key.candidate, key.seed): trial.config for key, trial in trials.items()}


@pytest.mark.parametrize("name", ["paper-voc", "paper-coco", "paper-nus", "paper-cub"])
def test_one_positive_and_all_negatives_of_the_papers_hides_the_other_positives(name):
    """With full labels, `iun` would be the ceiling under another name."""
    by_name = configs(find_spec(name))
    oracle, ceiling = (
        by_name[candidate, 0] for candidate in ("one positive and all negatives", "full labels")
    )
    assert oracle.method == "iun"
    assert (oracle.data.observe, oracle.data.observe_all_negatives) == ("protocol", True)
    assert (ceiling.data.observe, ceiling.data.observe_all_negatives) == ("none", False)
    check_observe(oracle.data)


def test_the_labels_of_a_candidate(tmp_path):
    text = TOY.replace(
        "  - an\n", "  - an\n  - {name: oracle, method: iun, labels: positive_and_negatives}\n"
    )
    by_name = configs(read_spec(save_spec(tmp_path, text)))
    settings = {
        (name, seed): (config.data.observe, config.data.observe_seed, config.data.observe_all_negatives)
        for (name, seed), config in by_name.items()
        if name != "em slow"
    }
    assert settings == {
        ("an", 0): ("frequency", 0, False), ("an", 1): ("frequency", 1, False),
        ("oracle", 0): ("frequency", 0, True), ("oracle", 1): ("frequency", 1, True),
        ("full", 0): ("none", 0, False), ("full", 1): ("none", 0, False),
    }  # fmt: skip


def test_all_negatives_need_a_rule_that_keeps_one_positive(tmp_path):
    text = TOY.replace(
        "  - an\n", "  - an\n  - {name: oracle, method: iun, labels: positive_and_negatives}\n"
    )
    path = save_spec(tmp_path, text.replace("{observe: single}", "{observe: questions}"))
    with pytest.raises(
        InputError, match=r"line 10: .*observe_all_negatives true has no effect with .*questions"
    ):
        read_spec(path)


@pytest.mark.parametrize(
    ("hiding", "seeds"),
    [
        ("observe: protocol", [0, 0]),
        ("observe: protocol, observe_noise: 0.1", [0, 1]),
        ("observe: none", [0, 0]),
    ],
)
def test_the_seed_of_what_is_drawn(hiding, seeds, tmp_path):
    """Published labels have no seed; the wrong ones among them do."""
    text = TOY.replace("observe: single", hiding).replace(
        "  frequent: {observe: frequency, observe_power: 1.0}\n", ""
    )
    by_name = configs(read_spec(save_spec(tmp_path, text)))
    assert [by_name["an", seed].data.observe_seed for seed in (0, 1)] == seeds
