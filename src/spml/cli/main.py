"""The command `spml`. A command imports what it needs when it runs, so that `--help` is quick."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence

from jsonargparse import ArgumentParser, Namespace

from ..common.errors import SpmlError, escaped, memory_asked_for
from ..short_names import command_line
from ..version import __version__
from .analyse import add_analyse_command, run_analyse
from .arguments import PARSER_MODE, find_command, join_words, parse
from .audit import add_audit_command, run_audit_command
from .audit_sample import (
    add_audit_sample_command,
    add_audit_use_command,
    run_audit_sample,
    run_audit_use,
)
from .bench import add_bench_commands, run_bench
from .completion import add_completion_command, run_completion
from .data import add_data_commands, run_data
from .demo import add_demo_command, run_demo_command
from .evaluate import add_evaluate_command, run_evaluate
from .export import add_export_command, run_export
from .methods import add_methods_command, run_methods
from .own_network import own_network
from .predict import add_predict_command, run_predict
from .review import add_review_command, add_review_export_command, run_review, run_review_export
from .serve import add_serve_command, run_serve
from .streams import guarded_streams
from .thresholds import add_thresholds_command, run_thresholds
from .train import add_train_command, run_train

_COMMANDS: dict[str, Callable[[Namespace], None]] = {
    "analyse": run_analyse,
    "audit": run_audit_command,
    "audit-sample": run_audit_sample,
    "audit-use": run_audit_use,
    "bench": run_bench,
    "completion": lambda arguments: run_completion(arguments, make_parser()),
    "data": run_data,
    "demo": run_demo_command,
    "evaluate": run_evaluate,
    "export": run_export,
    "methods": run_methods,
    "predict": run_predict,
    "review": run_review,
    "review-export": run_review_export,
    "serve": run_serve,
    "thresholds": run_thresholds,
    "train": run_train,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command.

    Exit code 0, or 2 for wrong usage or input, 1 for a failure, 130 when interrupted, 141 if the process that
    reads standard output went away.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    parser = make_parser(with_figures=arguments[:1] == ["analyse"])
    arguments = join_words(parser, arguments)
    name = find_command(parser, arguments).name
    # Images with more than `data.max_pixels` are refused before they are decoded, which says more.
    warnings.filterwarnings("ignore", message=r"Image size \(\d+ pixels\) exceeds limit")
    with guarded_streams(name):
        if not arguments:
            parser.print_help()
            sys.exit(2)
        try:
            parsed = parse(parser, arguments)
            with command_line(), own_network(find_command(parser, arguments)):
                _COMMANDS[parsed.subcommand](parsed[parsed.subcommand])
        except SpmlError as error:
            print(f"{name}: {error}", file=sys.stderr)
            sys.exit(error.exit_code)
        except OSError as error:
            if error.filename is None:
                raise
            print(f"{name}: {escaped(f'{error.filename}: {error.strerror}')}.", file=sys.stderr)
            sys.exit(1)
        except (MemoryError, RuntimeError) as error:
            amount = memory_asked_for(error)
            if amount is None:
                raise
            at_once = f" ({amount} were asked for at once)" if amount else ""
            print(
                f"{name}: not enough memory{at_once}. Use smaller batches or images, a smaller model, or a "
                "machine with more memory.",
                file=sys.stderr,
            )
            sys.exit(1)
        except KeyboardInterrupt:
            print(f"{name}: interrupted", file=sys.stderr)
            sys.exit(130)


def make_parser(*, with_figures: bool = True) -> ArgumentParser:
    """Make the parser of all commands.

    Args:
        with_figures: Add the options of each figure, which imports PyTorch.
    """
    parser = ArgumentParser(
        prog="spml",
        description="Single-positive multi-label learning: one known label per sample in, every label out.",
        version=__version__,
        parser_mode=PARSER_MODE,
        exit_on_error=False,
    )
    commands = parser.add_subcommands(required=True)
    add_demo_command(commands)
    add_train_command(commands)
    add_thresholds_command(commands)
    add_predict_command(commands)
    add_evaluate_command(commands)
    add_export_command(commands)
    add_audit_command(commands)
    add_audit_sample_command(commands)
    add_audit_use_command(commands)
    add_data_commands(commands)
    add_review_command(commands)
    add_review_export_command(commands)
    add_serve_command(commands)
    add_analyse_command(commands, with_figures=with_figures)
    add_bench_commands(commands)
    add_methods_command(commands)
    add_completion_command(commands)
    return parser
