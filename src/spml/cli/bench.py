"""The commands `spml bench run`, `status`, `report`, `config`. Heavy modules are imported when one runs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jsonargparse import ArgumentParser, Namespace

from ..common.errors import InputError, SpmlError, require_packages
from ..common.files import make_folder

if TYPE_CHECKING:
    from ..bench.state import State
    from ..bench.workers import Job
    from ..runs.console import Console

_SPEC = "spec.yaml"
_FIRST_PHASE = "first-phase"


def add_bench_commands(parent: Any) -> None:
    """Add `bench` and its commands to those of `spml`."""
    parser = ArgumentParser(description="Compare methods fairly: same data, labels, budget and seeds.")
    parent.add_subcommand("bench", parser, help="compare methods fairly")
    commands = parser.add_subcommands(required=True)

    run = ArgumentParser(description="Make all missing runs of a specification, then the report.")
    _add_common(run)
    run.add_argument("--workers", type=int, default=0, help="number of processes; 0 = one per core")
    run.add_argument("--retry", action="store_true", help="make failed runs again")
    run.add_argument("--engine", type=Literal["local", "ray"], default="local", help="where runs are made")
    run.add_argument("--address", default="", help="address of a Ray cluster; default: start one here")
    commands.add_subcommand("run", run, help="make runs and the report")

    status = ArgumentParser(description="Show how many runs are finished, failed and missing.")
    _add_common(status)
    status.add_argument(
        "--by", type=Literal["candidate", "data"], default="candidate",
        help="what a row of the table counts: a candidate, or a data set with a way of hiding labels",
    )  # fmt: skip
    status.add_argument(
        "--lines", action="store_true", help="also list failed runs, and series with missing runs"
    )
    commands.add_subcommand("status", status, help="show what is finished")

    report = ArgumentParser(description="Write the report of the finished runs.")
    _add_common(report)
    commands.add_subcommand("report", report, help="write the report")

    config = ArgumentParser(description="Print the configuration of a run, for `spml train --config`.")
    config.add_argument("store", help="folder of a comparison, or the URL of its store")
    config.add_argument("key", help="key of the run or its beginning; results.csv lists the keys")
    config.add_argument(
        "--first", action="store_true", help="print that of the first phase, from which the run starts"
    )
    commands.add_subcommand("config", config, help="print the configuration of a run")


def _add_common(parser: ArgumentParser) -> None:
    parser.add_argument("spec", help="YAML file, or the name of a ready-made specification")
    parser.add_argument("--output", default="", help="folder for results; default: bench/NAME")
    parser.add_argument("--root", default=".", help="folder that paths in the specification start from")
    parser.add_argument(
        "--store", default="", help="URL of a database for the runs; default: store.sqlite in --output"
    )


def run_bench(arguments: Namespace) -> None:
    """Run one of the commands of `spml bench`."""
    require_packages("bench", "sqlalchemy", "optuna")
    command = arguments.subcommand
    {"run": _run, "status": _status, "report": _report, "config": _config}[command](arguments[command])


def _job(arguments: Namespace, *, create: bool) -> Job:
    from ..bench.plan import CODE_VERSION
    from ..bench.read_spec import check_data_paths, find_spec
    from ..bench.store import check_store, store_url
    from ..bench.workers import Job

    spec = find_spec(arguments.spec)
    folder, root = Path(arguments.output or f"bench/{spec.path.stem}"), Path(arguments.root)
    if not root.is_dir():
        raise InputError(f"{root}: --root must be a folder.")
    if create:
        check_data_paths(spec, root)
        make_folder(folder)
    elif not arguments.store:
        check_store(folder)
    url = arguments.store or store_url(folder)
    return Job(str(spec.path), spec.text, str(root.resolve()), str(folder.resolve()), url, CODE_VERSION)


def _run(arguments: Namespace) -> None:
    from ..bench.state import read_state
    from ..bench.store import Store
    from ..bench.workers import check_data, raise_problems, run_all
    from ..common.files import remove_leftovers, write_text
    from ..runs.compute.cluster.connection import check_engine
    from ..runs.console import Console

    if arguments.workers < 0:
        raise InputError(f"--workers must be at least 0, got {arguments.workers}")
    check_engine(arguments.engine, arguments.address)
    console, job = Console(), _job(arguments, create=True)
    check_data(job)
    store = Store(job.url)
    store.release_ended()
    if arguments.retry:
        failed = read_state(job.spec(), store, Path(job.root)).failed
        store.forget(failed)
        console.line(f"Making {_runs(len(failed), 'failed ')} again")
    for folder in (Path(job.folder), Path(job.folder) / "features"):
        remove_leftovers(folder, hours=24)  # younger ones may belong to processes that are still running
    write_text(Path(job.folder) / _SPEC, job.text)
    workers = arguments.workers or os.cpu_count() or 1
    if arguments.engine == "ray":
        from ..bench.ray_engine import run_on_ray

        state, problems = run_on_ray(job, arguments.address, arguments.workers, console)
    else:
        state, problems = run_all(job, workers, console)
    if state.rows:
        _write(job, state, console)
    raise_problems(problems)
    _check_any_done(state)
    if state.missing:
        missing = _runs(sum(state.missing.values()))
        raise SpmlError(f"{missing} still missing, because workers were stopped. Run the same command again.")


def _status(arguments: Namespace) -> None:
    from ..bench.state import read_state
    from ..bench.store import Store
    from .bench_status import print_status

    job = _job(arguments, create=False)
    spec = job.spec()
    state = read_state(spec, Store(job.url, create=False), Path(job.root))
    print_status(spec, state, by=arguments.by, lines=arguments.lines)


def _report(arguments: Namespace) -> None:
    from ..bench.state import read_state
    from ..bench.store import Store
    from ..runs.console import Console

    job = _job(arguments, create=False)
    state = read_state(job.spec(), Store(job.url, create=False), Path(job.root), any_code=True)
    if not state.rows:
        raise SpmlError("No run is finished yet, so there is nothing to report.")
    _write(job, state, Console())
    _check_any_done(state)


def _check_any_done(state: State) -> None:
    if state.rows and len(state.failed) == len(state.rows):
        raise SpmlError(f"All {_runs(len(state.rows))} failed, the first of them: {state.failed[0].message}")


def _runs(count: int, kind: str = "") -> str:
    return f"{count:,} {kind}run{'' if count == 1 else 's'}"


def _write(job: Job, state: State, console: Console) -> None:
    from ..bench.plan import all_series
    from ..bench.report import build_report, print_report, write_report
    from ..common.locks import one_at_a_time

    spec = job.spec()
    report = build_report(
        state.rows,
        modes=spec.modes,
        baseline=spec.baseline or None,
        ceiling=spec.ceiling or None,
        reference_only=[candidate.name for candidate in spec.candidates if candidate.labels != "observed"],
        expected=[series.key for series in all_series(spec)],
        spaces={candidate.name: candidate.space for candidate in spec.candidates},
    )
    lock = Path(job.folder) / ".report.lock"
    with one_at_a_time(lock, console.line, "writes the report"):
        write_report(report, Path(job.folder), title=spec.title, about=spec.about)
    print_report(report)
    console.line(state.describe())
    print(f"{Path(job.folder) / 'report.md'}: done (also report.html, tables.tex, results.csv, figures)")


def _config(arguments: Namespace) -> None:
    from ..bench.store import find_store
    from ..config import from_dict, to_yaml

    row = find_store(arguments.store).get(arguments.key)
    if arguments.first and not row.first:
        raise InputError(f"{arguments.key}: this run has no first phase: leave out --first.")
    config = replace(from_dict(row.first if arguments.first else row.config), output="")
    if row.first and not arguments.first:
        # Without its first phase it would be another run, so the folder to start from must be made first.
        config = replace(config, init_from=_FIRST_PHASE)
        print("# To be trained before: `spml bench config STORE KEY --first > first.yaml`,")
        print(f"# `spml train --config first.yaml --output {_FIRST_PHASE}`.")
    print(to_yaml(config), end="")
