"""The commands `spml bench ...`, and `spml demo`. Heavy modules are imported when one runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..common.errors import InputError, SpmlError, escaped, nearest, require_packages
from ..common.files import make_folder
from ..common.messages import log
from ..common.phrases import counted
from .shared import Cluster, new_table, print_table

if TYPE_CHECKING:
    from ..bench.spec import Spec
    from ..bench.state import State
    from ..bench.workers import Job

_SPEC = "spec.yaml"
_FIRST_PHASE = "first-phase"
_STATUSES = ("done", "failed", "missing")
_MESSAGES = 10  # of failed runs that are shown


@dataclass
class Comparison:
    """Options of the commands about a comparison.

    Attributes:
        output: Folder for results; default: bench/NAME.
        root: Folder that paths in the specification start from.
        store: URL of a database for the runs; default: store.sqlite in --output.
        candidates: Candidates to run and report, such as `an,gr`; default: all.
        seeds: Seeds to run and report, such as `0,1`; default: all.
        method: Methods of your own that the specification names, as `file.py:Class`, separated by commas.
    """

    output: str = ""
    root: str = "."
    store: str = ""
    candidates: str = ""
    seeds: str = ""
    method: str = ""


def _job(name: str, comparison: Comparison, *, create: bool) -> Job:
    from ..bench.plan import CODE_VERSION
    from ..bench.spec import check_data_paths, chosen, find_spec
    from ..bench.store import store_url
    from ..bench.workers import Job
    from ..methods.registry import load_own, source_of

    own = {each: source_of(load_own(each)) for each in filter(None, comparison.method.split(","))}
    spec = find_spec(name)
    chosen(spec, comparison.candidates, comparison.seeds)
    folder, root = Path(comparison.output or f"bench/{spec.path.stem}"), Path(comparison.root)
    if not root.is_dir():
        raise InputError(f"{root}: --root must be a folder.")
    if create:
        check_data_paths(spec, root)
        make_folder(folder)
    url = comparison.store or store_url(folder)
    return Job(
        str(spec.path), spec.text, str(root.resolve()), str(folder.resolve()), url, CODE_VERSION,
        comparison.candidates, comparison.seeds, own,
    )  # fmt: skip


def bench_run(
    spec: str,
    *,
    comparison: Comparison,
    cluster: Cluster,
    workers: int = 0,
    retry: bool = False,
    against: str = "",
) -> None:
    """Make all missing runs of a specification, then the report.

    Args:
        spec: YAML file, or the name of a ready-made specification.
        comparison: Where the comparison lies.
        cluster: Where runs are made.
        workers: Number of processes; 0 = one per GPU, or per core where there is none.
        retry: Make failed runs again.
        against: Candidate that p-values compare with; default: the best of each column.
    """
    require_packages("bench", "sqlalchemy", "optuna")
    from ..bench.state import read_state
    from ..bench.store import Store
    from ..bench.workers import check_data, raise_problems, run_all, run_on_ray
    from ..common.files import remove_leftovers, write_text

    if workers < 0:
        raise InputError(f"`workers` must be at least 0, got {workers}.")
    cluster.find()
    job = _job(spec, comparison, create=True)
    check_data(job)
    store = Store(job.url)
    store.release_ended()
    if retry:
        failed = read_state(job.spec(), store, Path(job.root)).failed
        store.forget(failed)
        log.info(f"Making {counted(len(failed), 'failed run')} again")
    for folder in (Path(job.folder), Path(job.folder) / "features"):
        remove_leftovers(folder, hours=24)  # younger ones may belong to processes that are still running
    write_text(Path(job.folder) / _SPEC, job.text)
    if cluster.engine == "ray":
        state, problems = run_on_ray(job, cluster.address, workers)
    else:
        state, problems = run_all(job, workers)
    if state.rows:
        _write(job, state, against)
    raise_problems(problems)
    _check_any_done(state)
    if state.missing:
        missing = counted(sum(state.missing.values()), "run")
        raise SpmlError(f"{missing} still missing, because workers were stopped. Run the same command again.")


def demo(*, output: Path = Path("demo"), workers: int = 0) -> None:
    """Compare four methods on embedded scenes of digits: `spml bench run demo`, with the results in a folder
    called demo.

    Args:
        output: Folder for the results.
        workers: Number of processes; 0 = one per GPU, or per core where there is none.
    """
    bench_run("demo", comparison=Comparison(str(output)), cluster=Cluster(), workers=workers)


def bench_status(spec: str, *, comparison: Comparison) -> None:
    """Show how many runs are finished, failed and missing.

    Args:
        spec: YAML file, or the name of a ready-made specification.
        comparison: Where the comparison lies.
    """
    job, state = _read(spec, comparison)
    print_status(job.spec(), state)


def bench_report(spec: str, *, comparison: Comparison, against: str = "") -> None:
    """Write the report of the finished runs.

    Args:
        spec: YAML file, or the name of a ready-made specification.
        comparison: Where the comparison lies.
        against: Candidate that p-values compare with; default: the best of each column.
    """
    job, state = _read(spec, comparison, any_code=True)
    if not state.rows:
        raise SpmlError("No run is finished yet, so there is nothing to report.")
    _write(job, state, against)
    _check_any_done(state)


def _read(name: str, comparison: Comparison, *, any_code: bool = False) -> tuple[Job, State]:
    require_packages("bench", "sqlalchemy", "optuna")
    from ..bench.state import read_state
    from ..bench.store import find_store

    job = _job(name, comparison, create=False)
    store = find_store(comparison.store or job.folder)
    return job, read_state(job.spec(), store, Path(job.root), any_code=any_code)


def _check_any_done(state: State) -> None:
    if state.rows and len(state.failed) == len(state.rows):
        runs, first = counted(len(state.rows), "run"), state.failed[0].message
        raise SpmlError(f"All {runs} failed, the first of them: {first}")


def _write(job: Job, state: State, against: str) -> None:
    from rich.text import Text

    from ..bench.plan import all_series
    from ..bench.report import build_report, write_report
    from ..bench.report.markdown import UNKNOWN, task_name, with_sd
    from ..common.locks import one_at_a_time

    spec = job.spec()
    names = [candidate.name for candidate in spec.candidates]
    if against and against not in names:
        raise InputError(f"against: no candidate is called {against!r}. {nearest(against, names)}")
    report = build_report(
        state.rows,
        modes=spec.modes,
        baseline=spec.baseline or None,
        ceiling=spec.ceiling or None,
        reference_only=[candidate.name for candidate in spec.candidates if candidate.labels != "observed"],
        expected=[series.key for series in all_series(spec)],
        against=against or None,
        notes={candidate.name: candidate.note for candidate in spec.candidates if candidate.note},
    )
    lock = Path(job.folder) / ".report.lock"
    with one_at_a_time(lock, "writes the report"):
        write_report(report, Path(job.folder), title=spec.title, about=spec.about)
    if report.entries:
        # The mAP of each candidate; its mean rank where there are several data sets or ways of hiding.
        (task, entries), *others = report.entries.items()
        if others:
            first = report.rankings[report.modes[0]]
            title = f"mean ranks over {len(first.tasks)} data sets and ways of hiding"
            shown: Sequence[str] = first.candidates
            cells = {
                (name, mode): f"{rank:.2f}"
                for mode, ranking in report.rankings.items()
                for name, rank in zip(ranking.candidates, ranking.ranks, strict=True)
            }
        else:
            title, shown = f"{task_name(task)}: test mAP", report.candidates[task]
            cells = {key: with_sd(entry.test.mean, entry.test.sd) for key, entry in entries.items()}
        table = new_table(["candidate", *report.modes], lines=True)
        for name in shown:
            reference = " (reference)" if name in report.reference_only else ""
            of_modes = [cells.get((name, mode), UNKNOWN) for mode in report.modes]
            table.add_row(*map(Text, [name + reference, *of_modes]))
        print(title)
        print_table(table)
        print()
    log.info(state.describe())
    print(f"{Path(job.folder) / 'report.md'}: done (also report.html, results.csv, figures)")


def bench_list() -> None:
    """List the specifications that come with the package: what they compare, and their runs."""
    from ..bench.spec import read_ready_made, ready_made

    table = new_table(("name", "what it compares", "runs"), left=2, lines=True)
    for spec in map(read_ready_made, ready_made()):
        table.add_row(spec.path.stem, spec.title, f"{spec.runs:,}")
    print_table(table)


def bench_show(spec: str, *, method: str = "") -> None:
    """Print a specification as YAML, with its number of runs and of trials; a start for one of your own.

    Args:
        spec: YAML file, or the name of a ready-made specification.
        method: Methods of your own that the specification names, as `file.py:Class`, separated by commas.
    """
    from ..bench.spec import find_spec
    from ..methods.registry import load_own

    for each in filter(None, method.split(",")):
        load_own(each)
    found = find_spec(spec)
    sizes = [len(found.data), len(found.hidings), len(found.seeds), len(found.candidates)]
    nouns = [("data set", ""), ("way of hiding", "ways of hiding"), ("seed", ""), ("candidate", "")]
    parts = [counted(size, *noun) for size, noun in zip(sizes, nouns, strict=True)]
    print(f"# {counted(found.runs, 'run')} of {', '.join(parts)}:")
    for candidate in found.candidates:
        print(f"#   {candidate.name}: {counted(found.trials_of(candidate), 'trial')}")
    print(found.text, end="")


def bench_config(store: str, key: str, *, first: bool = False) -> None:
    """Print the configuration of a run, for `spml train --config`.

    Args:
        store: Folder of a comparison, or the URL of its store.
        key: Key of the run or its beginning; results.csv lists the keys.
        first: Print that of the first phase, from which the run starts.
    """
    require_packages("bench", "sqlalchemy", "optuna")
    from ..bench.store import find_store
    from ..config import from_dict, to_yaml

    row = find_store(store).get(key)
    if first and not row.first:
        raise InputError(f"{key}: this run has no first phase: leave out --first.")
    config = replace(from_dict(row.first if first else row.config), output="")
    if row.first and not first:
        # Without its first phase it would be another run, so the folder to start from must be made first.
        config = replace(config, init_from=_FIRST_PHASE)
        print("# To be trained before: `spml bench config STORE KEY --first > first.yaml`,")
        print(f"# `spml train --config first.yaml --output {_FIRST_PHASE}`.")
    print(to_yaml(config), end="")


def print_status(spec: Spec, state: State) -> None:
    """Print how many runs are done, failed and missing, and why the first of them failed."""
    from rich.text import Text

    print(state.describe())
    print()
    counts = {candidate.name: Counter[str]() for candidate in spec.candidates}
    for row in state.rows:
        counts[row.series.candidate][row.status] += 1
    for series, missing in state.missing.items():
        counts[series.candidate]["missing"] += missing
    every = {"all": sum(counts.values(), Counter[str]())} if len(counts) > 1 else {}
    table = new_table(("candidate", *_STATUSES), lines=True)
    for name, by_status in {**counts, **every}.items():
        table.add_row(Text(name), *(f"{by_status[status]:,}" for status in _STATUSES))
    print_table(table)
    messages = list(dict.fromkeys(" ".join(row.message.split()) for row in state.failed))
    if messages:
        print("\nwhy runs failed:")
    for message in messages[:_MESSAGES]:
        print(f"  {escaped(message)}")
    if len(messages) > _MESSAGES:
        print(f"  and {counted(len(messages) - _MESSAGES, 'other message')}")
