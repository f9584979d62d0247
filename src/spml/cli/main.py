"""The command `spml`. Imports what a sub-command needs when it runs, so that `--help` is quick."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from jsonargparse import ArgumentParser, Namespace

from ..config import Config, from_dict
from ..errors import InputError, SpmlError
from ..version import __version__
from .bench import add_bench_commands, run_bench
from .data import add_data_commands, run_data
from .evaluate import add_engine_arguments, add_evaluate_command, run_evaluate

if TYPE_CHECKING:
    from ..runs.api import Predictions


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command. Exit code 0, or 2 for wrong usage or input, 1 for a failure, 130 when interrupted."""
    parser = _parser()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given:
        parser.print_help()
        sys.exit(2)
    parsed = parser.parse_args(_in_full(given) if given[0] == "train" else given)
    command = parsed.subcommand
    try:
        _COMMANDS[command](parsed[command])
    except SpmlError as error:
        print(f"spml {command}: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print(f"spml {command}: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)


def _in_full(given: list[str]) -> list[str]:
    """The arguments of `train` with short names of settings replaced: the parser knows one name for each."""
    parts = [argument.partition("=") for argument in given]
    return [_SHORT.get(name, name) + equals + value for name, equals, value in parts]


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="spml",
        description="Single-positive multi-label learning: one known label per sample in, every label out.",
        version=__version__,
    )
    commands = parser.add_subcommands(required=True)

    demo = ArgumentParser(description="Compare methods on embedded scenes of digits and draw the results.")
    demo.add_argument("--output", default="demo", help="folder for the results")
    demo.add_argument("--processes", type=int, default=0, help="runs at a time; 0 = one per core")
    commands.add_subcommand("demo", demo, help="compare methods on embedded data")

    train = ArgumentParser(description="Train a model on one known label per sample.")
    train.add_argument(
        "path", nargs="?", default="", help="folder with one sub-folder per class, CSV, .npz, or `digits`"
    )
    train.add_argument(
        "--config", action="config", help="YAML file with settings, such as a run's config.yaml"
    )
    train.add_class_arguments(Config, as_group=False)
    train.add_argument("--resume", action="store_true", help="go on with the run in --output")
    train.add_argument("--overwrite", action="store_true", help="replace the run in --output")
    commands.add_subcommand("train", train, help="train a model")

    predict = ArgumentParser(description="Label new samples with a trained model.")
    predict.add_argument("run", help="folder of the run")
    predict.add_argument("paths", nargs="+", help="images, folders of images, or feature files")
    predict.add_argument("--output", default="", help="file to write; standard output if not given")
    predict.add_argument(
        "--format",
        type=Literal["csv", "jsonl"],
        default="csv",
        help="one column per class, or one object per line",
    )
    add_engine_arguments(predict)
    commands.add_subcommand("predict", predict, help="label new samples")

    add_evaluate_command(commands)
    add_data_commands(commands)
    add_bench_commands(commands)

    methods = ArgumentParser(description="List the registered methods, or show the card of one.")
    methods.add_argument("name", nargs="?", default="", help="a method")
    commands.add_subcommand("methods", methods, help="list methods")
    return parser


def _train(arguments: Namespace) -> None:
    from ..engine import Interrupted
    from ..runs.train import run_training

    settings = arguments.as_dict()
    resume, overwrite = settings.pop("resume"), settings.pop("overwrite")
    settings.pop("config", None)
    path = settings.pop("path")
    if path and settings["data"]["path"] not in ("", path):
        raise InputError(f"the data is named twice: {path} and --data.path {settings['data']['path']}")
    settings["data"]["path"] = path or settings["data"]["path"]
    config = from_dict(settings)
    try:
        run_training(config, resume=resume, overwrite=overwrite)
    except Interrupted as stop:
        raise Interrupted(
            f"{stop}; everything up to here is saved. Go on with the same command and --resume."
        ) from stop


def _predict(arguments: Namespace) -> None:
    from ..files import check_output, write_text
    from ..runs.api import load
    from ..runs.console import Console

    console = Console()
    if arguments.output:
        check_output(Path(arguments.output), map(Path, [arguments.run, *arguments.paths]))
    run = load(arguments.run)
    parted = next((name for name in run.classes if ";" in name), None)
    if parted and arguments.format == "csv":
        raise InputError(f"the class {parted!r} has a `;`, which parts labels in CSV. Say --format jsonl.")
    predictions = run.predict(
        arguments.paths,
        batch_size=arguments.batch_size,
        workers=arguments.workers,
        device=arguments.device,
        console=console,
    )
    for note in predictions.notes:
        console.line(note)
    text = _as_csv(predictions) if arguments.format == "csv" else _as_jsonl(predictions)
    if arguments.output:
        write_text(Path(arguments.output), text)
        console.line(f"{arguments.output}: {len(predictions.ids)} samples")
    else:
        sys.stdout.write(text)


def _as_csv(predictions: Predictions) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["file", "labels", *predictions.classes])
    for name, labels, scores in zip(predictions.ids, predictions.labels, predictions.scores, strict=True):
        writer.writerow([name, ";".join(labels), *(f"{score:.6g}" for score in scores)])
    return stream.getvalue()


def _as_jsonl(predictions: Predictions) -> str:
    lines = []
    for name, labels, scores in zip(predictions.ids, predictions.labels, predictions.scores, strict=True):
        by_class = {c: float(f"{score:.6g}") for c, score in zip(predictions.classes, scores, strict=True)}
        lines.append(json.dumps({"file": name, "labels": labels, "scores": by_class}, ensure_ascii=False))
    return "".join(line + "\n" for line in lines)


def _methods(arguments: Namespace) -> None:
    from ..methods.cards import NOTATION, readable
    from ..methods.registry import find, hyper_parameters, methods

    if arguments.name:
        cls = find(arguments.name)
        card = cls.card
        print(f"{arguments.name}: {card.title}\n{card.paper}\n{card.equations}\n")
        for line in card.formula.splitlines():
            print(f"    {line}")
        print("\n" + ";\n".join(NOTATION) + "\n")
        print(f"state: {card.state}\nhead: {card.head}\nscores: {card.scores}\nhead bias: {card.head_bias}")
        for name, default in hyper_parameters(cls).items():
            print(f"  --hp.{name}  (default {readable(default)})")
        for benchmark, values in card.defaults.items():
            print(f"{benchmark}: " + ", ".join(f"{k} = {readable(v)}" for k, v in values.items()))
        for deviation in card.deviations:
            print(f"note: {deviation}")
        print(f"\n{(cls.__doc__ or '').strip()}")
        return
    from rich.console import Console as RichConsole
    from rich.table import Table

    from ..models.closed_form import CLOSED_FORM

    table = Table(box=None, pad_edge=False)
    for column in ("name", "method", "year", "state", "paper"):
        table.add_column(column, no_wrap=column in ("name", "year"))
    for name, cls in methods().items():
        table.add_row(name, cls.card.title, str(cls.card.year), cls.card.state, cls.card.paper)
    RichConsole(width=None if sys.stdout.isatty() else 160).print(table)
    heads = ", ".join(f"--model.head {head}" for head in CLOSED_FORM)
    print(f"\nHeads that need no method: {heads}. `spml methods NAME` shows a card.")


def _demo(arguments: Namespace) -> None:
    from .demo import run_demo

    run_demo(Path(arguments.output), processes=arguments.processes)


_SHORT = {"--head": "--model.head", "--init-from": "--init_from"}
_COMMANDS = {
    "bench": run_bench,
    "data": run_data,
    "demo": _demo,
    "train": _train,
    "predict": _predict,
    "evaluate": run_evaluate,
    "methods": _methods,
}
