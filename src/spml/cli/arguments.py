"""Parse the command line of one command, and say in one sentence what is wrong with it."""

from __future__ import annotations

import argparse
import difflib
import inspect
import os
import re
import shutil
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from ..common.documents import parse_yaml, read_yaml_text
from ..common.errors import InputError
from ..config import Config, DataConfig, read_yaml
from ..config.read import SHORT_NAMES, describe_type, hints_of, parts_of, read_value, typed

Settings = Annotated[dict[str, Any], Config]
"""The part of `Config` that a user states, nested as in config.yaml."""

DataSettings = Annotated[dict[str, Any], DataConfig]
"""The part of `DataConfig` that a user states."""

TYPED: ContextVar[Sequence[str]] = ContextVar("typed")
"""Words of the command that runs, from `spml` on."""

_SHORT = {setting: name for name, setting in SHORT_NAMES.items()}
COMMON = {
    "method": "", "epochs": "", "mean_labels": "", "output": "", "config": "", "optim.lr": "",
    "model.head": "What is trained or solved on the features, such as `linear`, `ridge` or `lda`",
    "model.backbone": "Any timm model, `hf/FOLDER`, or `module:callable` of your own",
    "model.weights": "`pretrained`, `random`, or a .safetensors file",
    "model.frozen": "Compute the features of the backbone once and train the head only",
    "model.local": "Whether to score windows of each image, too",
    "data.images": "",
    "data.unlisted": "Meaning of a label that the data does not list, such as `unknown` or `negative`",
    "data.text": "Columns of a table whose text is the sample, such as `title,abstract`",
    "data.label_column": "Column of a table that holds the labels",
}  # fmt: skip
"""Settings of the short help, which leaves out the others, with a text in place of one that is too long."""
_MEANT = {"o": "output", "device": "accelerator", "gpu": "accelerator", "k": "mean_labels"}
"""Names of options that people know from other programs, and those of the same meaning here."""

_NAMELESS = {"data", "dataset", "input", "images", "model", "run", "path", "file", "folder"}
"""Names under which people pass an argument, which has none here."""

_TRAINING_ONLY = {"flip", "crop"}
"""Settings of the data that commands without a training do not have."""


class Parser(argparse.ArgumentParser):
    """Parser of one command, made from the function that runs it.

    The docstring of the function is the help, and its parameters are what the command takes: positional ones
    are arguments, of which a list takes several, and the others are options. A parameter whose type is a
    dataclass stands for an option per field; one of the type `Settings` or `DataSettings` for an option per
    setting. Values are read by their type hints, as in a configuration file. In the name of an option, a
    hyphen is as good as an underscore.

    Args:
        command: What a user types after `spml`, such as `data inspect`.
        function: Function that runs the command.
        description: Text of the help in place of that of the docstring.
        flags: Whether options that are true or false take no value.
        **settings: Of `argparse.ArgumentParser`.
    """

    def __init__(
        self,
        command: str,
        function: Callable[..., Any],
        *,
        description: str = "",
        flags: bool = True,
        **settings: Any,
    ) -> None:
        width = shutil.get_terminal_size().columns - 2
        about, _, examples = (inspect.getdoc(function) or "").partition("\n\nExamples:")
        about = re.split("\n\n(?:Args|Raises):", about)[0]
        super().__init__(
            prog=f"spml {command}".strip(),
            description=textwrap.fill(description or " ".join(about.split()), width),
            epilog=settings.pop("epilog", f"examples:{examples}" if examples else None),
            add_help=False,
            allow_abbrev=False,
            exit_on_error=False,
            argument_default=argparse.SUPPRESS,
            formatter_class=_Formatter,
            **settings,
        )
        self.function = function
        self.actions: dict[str, argparse.Action] = {}
        """Every argument and option by its name on the command line; one with two names is there twice."""
        self.hints: dict[str, Any] = {}
        """Type hints of arguments, options and settings by name, such as `optim.lr`."""
        self.defaults: dict[str, Any] = {}
        """Values of arguments and options that are not stated; settings have none."""
        self._hidden: list[argparse.Action] = []  # by the short help
        self.add_printing("-h", "--help", help="show this help and exit")
        self.add(function, flags=flags)
        if self._hidden:
            help_all = "show all options and exit"
            self.actions["--help"].help = "show the most used options and exit"
            self.add_printing("--help-all", action=_HelpAll, nargs=0, help=help_all)
        if "usage" in settings:
            return
        for short, name, text in (("-q", "quiet", "say nothing but results"), ("-v", "verbose", "say more")):
            self._keep(self.add_argument(short, f"--{name}", action="store_true", help=text), bool, False)
        forms = {"?": "[{}]", "+": "{} ..."}
        arguments = (
            forms.get(str(action.nargs), "{}").format(action.dest)
            for action in self.actions.values()
            if not action.option_strings
        )
        self.usage = " ".join((self.prog, "[options]", *arguments))

    def print_help(self, file: Any = None, *, everything: bool = False) -> None:
        """Print the help; where there are settings, only the most used ones, each in a sentence."""
        texts = {action: action.help for action in self._actions}
        if self._hidden and not everything:
            for action in self._actions:
                sentence, _, more = str(action.help).partition(". ")
                default = more[more.find("(default:") :] if "(default:" in more else ""
                short = COMMON.get(action.dest) or f"{sentence} {default}".rstrip()
                action.help = argparse.SUPPRESS if action in self._hidden else short
        super().print_help(file)
        for action, text in texts.items():
            action.help = text

    # -- what a command takes ------------------------------------------------------------------------------

    def add_printing(self, *names: str, action: Any = "help", **settings: Any) -> None:
        """Add an option that prints something and exits."""
        found = self.add_argument(*names, action=action, default=argparse.SUPPRESS, **settings)
        self.actions |= dict.fromkeys(names, found)

    def add(
        self,
        source: Any,
        prefix: str = "",
        *,
        without: Collection[str] = (),
        of_settings: bool = False,
        flags: bool = True,
    ) -> None:
        """Add the parameters of a function, or the fields of a dataclass, which its docstring describes.

        Args:
            source: The function or dataclass.
            prefix: What is in front of their names, such as `data.`.
            without: Names that are left out.
            of_settings: Whether they are settings.
            flags: Whether options that are true or false take no value.
        """
        group: Any = self
        if prefix:
            group = self.add_argument_group(re.split(r":|\.?\n", inspect.getdoc(source) or "")[0])
        texts, hints = descriptions(source), type_hints(source)
        parameters = inspect.signature(source).parameters.values()
        for parameter in parameters:
            name, hint = prefix + parameter.name, hints[parameter.name]
            if dataclass_of(source, parameter.name) or parameter.name in without:
                continue
            if parameter.kind is parameter.KEYWORD_ONLY or is_dataclass(source):
                self._add_option(group, name, hint, parameter.default, texts[parameter.name], flags=flags)
            else:
                many = get_origin(hint) in (list, Sequence)
                nargs = "+" if many else None if parameter.default is parameter.empty else "?"
                action = self.add_argument(name, nargs=nargs, help=_escape(texts[name]))
                self._keep(action, str if many else hint, parameter.default)
            if of_settings:
                del self.defaults[name]
                if name not in COMMON:
                    self._hidden.append(self.actions[f"--{name}"])
        for parameter in parameters:  # groups of options come last, as in the help
            cls = dataclass_of(source, parameter.name)
            if cls is Config:
                self._add_option(
                    self, "config", str, "", "YAML file with settings, such as config.yaml of a run"
                )
            if cls and cls is hints[parameter.name] and not of_settings:
                self.add(cls)
            elif cls:
                prefix = "" if cls is Config else f"{parameter.name}."
                trained = cls is not DataConfig or is_dataclass(source)
                self.add(
                    cls, prefix, without=() if trained else _TRAINING_ONLY, of_settings=True, flags=False
                )

    def _add_option(
        self, group: Any, name: str, hint: Any, default: Any, text: str, *, flags: bool = False
    ) -> None:
        names = [f"--{each}" for each in (name, _SHORT.get(name)) if each]
        if hint is bool and flags:
            self._keep(group.add_argument(*names, action="store_true", help=_escape(text)), hint, default)
            return
        if isinstance(default, str | int | float) and default != "" and "efault:" not in text:
            text += f" (default: {default})"
        choices = [choice for part in parts_of(hint) for choice in choices_of(part)]
        metavar = {int: "INT", float: "FLOAT"}.get(parts_of(hint)[0], name.rpartition(".")[2].upper())
        metavar = f"{{{','.join(map(str, choices))}}}" if choices else metavar
        self._keep(group.add_argument(*names, metavar=metavar, help=_escape(text)), hint, default)

    def _keep(self, action: argparse.Action, hint: Any, default: Any) -> None:
        self.actions |= dict.fromkeys(action.option_strings or [action.dest], action)
        self.hints[action.dest] = hint
        self.defaults[action.dest] = default

    # -- what a user has typed -----------------------------------------------------------------------------

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse the words after the name of the command.

        Returns:
            Arguments and options by name; `settings`, those of `--config` and of the command line, nested as
            in config.yaml; `stated`, what the command line itself states, by name; and `typed`, its words.

        Raises:
            InputError: Says in one sentence what is wrong, and what comes nearest to it.
        """
        typed, words = (*self.prog.split(), *words), self._spelled(words)
        needed = [
            each for each in self.actions.values() if self.defaults.get(each.dest) is inspect.Parameter.empty
        ]
        for action in needed:
            action.required = False  # the message below is better
        try:
            found, rest = self.parse_known_args(words)
        except argparse.ArgumentError as error:
            name = str(error.argument_name).rpartition("/")[2]
            hint = self.hints[self.actions[name].dest]
            if self.actions[name].nargs == 0:
                got = error.message.rpartition(" ")[2]
                raise InputError(f"{name} takes no value, got {got}.") from error
            expected = "" if str in parts_of(hint) else f": {describe_type(hint)}"
            raise InputError(f"{name} needs a value{expected}.") from error
        names = {
            action.dest: name if action.option_strings else name.upper()
            for name, action in self.actions.items()
        }
        stated = {
            dest: read_value(value, self.hints[dest], names[dest]) if isinstance(value, str) else value
            for dest, value in vars(found).items()
        }
        missing = [action for action in needed if action.dest not in stated]
        for action in sorted(missing, key=lambda action: len(action.option_strings)):
            text = str(action.help)
            text = text[0].lower() + text[1:] if text[1:2].islower() else text
            if action.option_strings:
                raise InputError(f"{action.option_strings[0]} is required: {text}")
            raise InputError(
                f"{action.dest.upper()} is missing: {text} `{self.prog} --help` shows how to call it."
            )
        if rest:
            raise InputError(self._unexpected(rest[0], stated))
        others = dict(self.defaults)
        settings: dict[str, Any] = {}
        if "config" in stated:
            settings = self._read_file(Path(stated["config"]))
            others |= {name: settings.pop(name) for name in others.keys() & settings.keys()}
        for name, value in stated.items():
            if name in others:
                others[name] = value
            else:
                *groups, last = name.split(".")
                inner = settings
                for group in groups:
                    inner = inner.setdefault(group, {})
                inner[last] = value
        return argparse.Namespace(**others, settings=settings, stated=stated, typed=typed)

    def run(self, parsed: argparse.Namespace) -> None:
        """Run the command.

        Args:
            parsed: Result of `parse`.
        """
        token = TYPED.set(parsed.typed)
        try:
            self.function(**self.values(self.function, parsed))
        finally:
            TYPED.reset(token)

    def values(self, source: Any, parsed: argparse.Namespace) -> dict[str, Any]:
        """Values of the parameters of a function, or of the fields of a dataclass, as they were typed."""
        values = {}
        for name, hint in type_hints(source).items():
            cls = dataclass_of(source, name)
            if cls is Config:
                values[name] = parsed.settings
            elif cls is hint:
                values[name] = cls(**self.values(cls, parsed))
            elif cls:
                values[name] = parsed.settings.get(name, {})
            else:
                values[name] = getattr(parsed, name)
        return values

    def error(self, message: str) -> Any:
        """Raise an error instead of ending the process."""
        raise InputError(" ".join(message.split()))

    def _spelled(self, words: Sequence[str]) -> list[str]:
        """Words with options spelled as the parser knows them; `--hp.some-rate` is an entry of `--hp`.

        A setting may also be stated as messages do, `data.images=FOLDER`.

        Raises:
            InputError: An option is unknown.
        """
        known = {option[2:].replace("-", "_"): option for option in self.actions if option.startswith("--")}
        spelled: list[str] = []
        is_value = False  # of the option before it
        for number, word in enumerate(words):
            if word == "--":
                return [*spelled, *words[number:]]
            name, equals, value = word.partition("=")
            plain = name.removeprefix("--").replace("-", "_")
            root, dot, _ = plain.partition(".")
            is_entry = bool(dot) and plain not in known and self.hints.get(root) == dict[str, Any]
            as_in_messages = bool(equals) and not is_value and (is_entry or plain in known)
            is_value = False
            if is_option(word) or as_in_messages:
                if is_entry:
                    known[plain] = f"--{plain}"
                    self._keep(self.add_argument(known[plain]), Any, None)
                    del self.defaults[plain]
                option = known.get(plain, name)
                if option not in self.actions:
                    raise InputError(self._unknown_option(name))
                action, follows = self.actions[option], words[number + 1 : number + 2]
                alone = not equals and not (follows and not is_option(follows[0]))
                if alone and action.nargs is None and self.hints.get(action.dest) is bool:
                    equals, value = "=", "true"  # a setting as a flag
                word = option + equals + value
                is_value = not equals and action.nargs != 0
            elif word in ("true", "false") and spelled:
                flag = self.actions.get(spelled[-1])
                if flag and flag.nargs == 0 and isinstance(self.defaults.get(flag.dest), bool):
                    spelled = spelled if word == "true" else spelled[:-1]  # as if it took a value
                    continue
            spelled.append(word)
        return spelled

    def _read_file(self, path: Path) -> dict[str, Any]:
        """Read a file of settings, which may also state arguments and other options of the command.

        Raises:
            InputError: It can't be read, or names something unknown, or a value is of the wrong type.
        """
        read_yaml(path, other=self.defaults)
        settings: dict[str, Any] = parse_yaml(read_yaml_text(path), str(path))
        if "config" in settings:
            raise InputError(
                f"{path}: names another configuration file (`config`), which is not supported. Copy its "
                "settings."
            )
        for name in settings.keys() & self.defaults.keys():
            settings[name] = typed(settings[name], self.hints[name], f"{path}: {name}")
        return settings

    # -- what is wrong -------------------------------------------------------------------------------------

    def _unexpected(self, word: str, stated: Mapping[str, Any]) -> str:
        """Say what to do about an argument too many: pass it otherwise, or name the folder above."""
        name, hint = f"unexpected argument {word!r}", "Put quotes round a name with spaces."
        first = stated.get("path")
        if f"--{word}" in self.actions:  # named as messages do
            hint = f"Did you mean --{word}?"
        elif first and os.path.isdir(word) and os.path.isdir(first):
            above = os.path.dirname(os.path.normpath(word)) or "."
            hint = f"The data is one folder or file: pass the folder that holds both, such as {above}."
        elif "--output" in self.actions and "output" not in stated and os.path.splitext(word)[1]:
            hint = f"To write to this file, pass --output {word}."
        return f"{name}. {hint} `{self.prog} --help` shows what the command takes."

    def _unknown_option(self, name: str) -> str:
        """Name the nearest options: those of this name in another group, or those of similar letters."""
        known = {_plain(option): option for option in self.actions if option.startswith("-")}
        plain = _plain(name)
        if (meant := _MEANT.get(plain)) in known:
            return f"unknown option {name}. Did you mean {known[str(meant)]}?"
        if plain in _NAMELESS and any(not action.option_strings for action in self.actions.values()):
            return f"unknown option {name}. What it names stands alone: `{self.usage}`."
        leaves = {_leaf(option): option for option in known}
        close = (
            [option for option in known if _leaf(option) == _leaf(plain)]
            or difflib.get_close_matches(plain, known, n=2, cutoff=0.75)
            or [leaves[leaf] for leaf in difflib.get_close_matches(_leaf(plain), leaves, n=2, cutoff=0.75)]
        )
        # One name of each option.
        suggested = {self.actions[known[option]]: known[option] for option in reversed(close)}
        if suggested:
            return f"unknown option {name}. Did you mean {' or '.join([*suggested.values()][::-1])}?"
        everything = "--help-all" if "--help-all" in self.actions else "--help"
        return f"unknown option {name}. `{self.prog} {everything}` lists the options."


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Writes an option with several names as `--lr, --optim.lr LR`."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings:
            return super()._format_action_invocation(action)
        names = ", ".join(reversed(action.option_strings))
        return names if action.nargs == 0 else f"{names} {action.metavar or action.dest.upper()}"


class _HelpAll(argparse.Action):
    """Prints the help with all options, and exits."""

    def __call__(self, parser: Any, *ignored: Any) -> None:
        parser.print_help(everything=True)
        parser.exit()


def type_hints(source: Any) -> dict[str, Any]:
    """Type hints of parameters or fields; a parameter without one takes several values as text."""
    hints = hints_of(source)
    return {name: hints.get(name, list[str]) for name in inspect.signature(source).parameters}


def dataclass_of(source: Any, name: str) -> Any:
    """Dataclass whose fields a parameter of a function, or a field of a dataclass, stands for, if it does."""
    hint = hints_of(source, include_extras=True).get(name)
    return next(filter(is_dataclass, (hint, *get_args(hint))), None)


def choices_of(hint: Any) -> tuple[Any, ...]:
    """Values that a user can choose from."""
    return ("true", "false") if hint is bool else get_args(hint) if get_origin(hint) is Literal else ()


def descriptions(documented: Any) -> dict[str, str]:
    """Texts on each attribute or argument in the docstring of a class or function."""
    text = inspect.getdoc(documented) or ""  # without docstrings (python -OO), help has no texts
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", text, re.M)
    found = {name: " ".join(words.split()) for name, words in entries}
    return {name: found.get(name, "") for name in inspect.signature(documented).parameters}


def is_option(word: str) -> bool:
    """Whether argparse treats a word as an option: negative numbers and words with spaces are values."""
    return re.fullmatch(r"-[^ \d.][^ ]*", word) is not None and word != "--"


def _escape(text: str) -> str:
    return text.replace("%", "%%")  # which argparse reads as a field


def _plain(option: str) -> str:
    return option.lstrip("-").replace("-", "_").lower()


def _leaf(option: str) -> str:
    return option.rpartition(".")[2]
