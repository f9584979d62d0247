"""Files of weights: where they are, reading them, and checking that they fit a network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from torch import Tensor, nn

from ...common.errors import InputError, first_line
from ...common.files import sha256_file
from ...common.phrases import first_few
from ..spec import HUGGING_FACE, BackboneSpec

CONFIG, PROCESSOR, WEIGHTS = "config.json", "preprocessor_config.json", "model.safetensors"
TOKENIZER = "tokenizer.json"
_INDEX, _PARTS = "model.safetensors.index.json", "model-*-of-*.safetensors"
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_EXAMPLES = 3  # names of weights in a message


def with_file(spec: BackboneSpec, path: Path) -> BackboneSpec:
    """Add name and SHA-256 of a weights file to a description."""
    check_suffix(path)
    try:
        return replace(spec, weights="file", file=path.name, sha256=sha256_file(path))
    except OSError as error:
        raise InputError(
            f"{path}: can't be read ({error.strerror or error}): check model.weights."
        ) from error


def check_suffix(path: Path) -> None:
    """Refuse a weights file of another format."""
    if path.suffix != ".safetensors":
        raise InputError(
            f"model.weights must be pretrained, random, or a .safetensors file, got {str(path)!r}. "
            "Other formats are not opened, because they can contain programs."
        )


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read a weights file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        weights: dict[str, Tensor] = load_file(path)
        return weights
    except (OSError, SafetensorError) as error:
        raise InputError(
            f"{path}: not a readable .safetensors file ({error}). Download or copy it again."
        ) from error


def fill(network: nn.Module, name: str, path: Path, advice: str, ignored: Iterable[str] = ()) -> None:
    """Load a weights file into a network; all weights must fit.

    Args:
        network: Network without a classifier.
        name: Name of the backbone in messages.
        path: Weights file.
        advice: Last sentence of the message about weights that do not fit.
        ignored: How names of weights start that are left out, those of the classifier.
    """
    expected, ignored = network.state_dict(), tuple(ignored)
    weights = {
        key: tensor
        for key, tensor in read_weights(path).items()
        if key in expected or not key.startswith(ignored)
    }
    check_fit(expected, weights, f"{path}: these weights do not fit {name}", advice)
    network.load_state_dict(weights, strict=False)


def check_fit(expected: Mapping[str, Tensor], weights: Mapping[str, Tensor], what: str, advice: str) -> None:
    """Check that weights have the names and shapes that a model expects.

    Args:
        expected: State of the model.
        weights: Weights to be loaded.
        what: First part of the message.
        advice: Last sentence of the message.

    Raises:
        InputError: Names or shapes differ; the message counts them and names the first.
    """
    # Files of other programs may lack these counters, which are never used.
    missing = [n for n in expected if n not in weights and not n.endswith("num_batches_tracked")]
    unexpected = [name for name in weights if name not in expected]
    shapes = [
        f"{name} {tuple(weights[name].shape)} instead of {tuple(expected[name].shape)}"
        for name in expected
        if name in weights and weights[name].shape != expected[name].shape
    ]
    parts = [
        f"{len(names)} {label}: {first_few(names, _EXAMPLES)}"
        for label, names in (("missing", missing), ("unexpected", unexpected), ("of another shape", shapes))
        if names
    ]
    if parts:
        raise InputError(f"{what} ({'; '.join(parts)}). {advice}")


def hub_file(repository: str, file: str) -> str:
    """Path of a file of the Hugging Face hub, downloaded unless it is in the cache."""
    import huggingface_hub

    path = huggingface_hub.try_to_load_from_cache(repository, file)
    if isinstance(path, str):
        return path
    # Asks once and fails at once without a network, where the download would ask again for a minute.
    huggingface_hub.get_hf_file_metadata(huggingface_hub.hf_hub_url(repository, file))
    return huggingface_hub.hf_hub_download(repository, file)


class Source:
    """Files of a network of transformers, in a folder or in a repository of the Hugging Face hub.

    With `of_names`, messages call it the model of `--names` instead of a backbone.

    Raises:
        InputError: The name is neither a folder nor that of a repository.
    """

    def __init__(self, name: str, *, of_names: bool = False) -> None:
        self.name = name
        self.folder = Path(name) if Path(name).is_dir() else None
        self._form = "names=" if of_names else f"{HUGGING_FACE}/"
        if self.folder is None and not _REPOSITORY.fullmatch(name):
            raise InputError(
                f"{'' if of_names else 'backbone '}{self._form}{name}: no such folder. Name one with "
                f"{CONFIG} and {WEIGHTS} ({self._form}FOLDER), or a repository of the Hugging Face hub "
                f"({self._form}OWNER/NAME)."
            )

    def path(self, file: str) -> Path:
        """Path of a file."""
        if self.folder is not None:
            if not (self.folder / file).is_file():
                what, other = f"Save the network there (save_pretrained), with {WEIGHTS}", "weights"
                if file == TOKENIZER:
                    what, other = "Save the tokenizer there, too (save_pretrained)", "files"
                raise InputError(
                    f"{self.folder}: {file} is missing. {what}: other {other} are not opened, because they "
                    "can contain programs."
                )
            return self.folder / file
        try:
            return Path(hub_file(self.name, file))
        except Exception as error:  # the hub's client passes on all exceptions of its HTTP library
            raise InputError(
                f"{file} of {self.name} could not be downloaded ({first_line(error)}). Check the name and "
                f"the connection, fetch it where there is one (hf download {self.name}), or name a folder "
                f"({self._form}FOLDER)."
            ) from error

    def weights(self) -> list[Path]:
        """Files with the weights, of which there may be several in a folder."""
        if self.folder is not None and (self.folder / _INDEX).is_file():
            return sorted(self.folder.glob(_PARTS)) or [self.path(WEIGHTS)]
        return [self.path(WEIGHTS)]

    def has(self, file: str) -> bool:
        """Whether there is a file.

        Raises:
            InputError: The hub does not answer.
        """
        if self.folder is not None:
            return (self.folder / file).is_file()
        from huggingface_hub.errors import EntryNotFoundError

        try:
            self.path(file)
        except InputError as error:
            if isinstance(error.__cause__, EntryNotFoundError):
                return False
            raise
        return True
