"""Files of the Hugging Face hub, and of folders that hold what a repository of it does."""

from __future__ import annotations

import re
from pathlib import Path

from ...common.errors import InputError
from ..spec import HUGGING_FACE

CONFIG, PROCESSOR, WEIGHTS = "config.json", "preprocessor_config.json", "model.safetensors"
_INDEX, _PARTS = "model.safetensors.index.json", "model-*-of-*.safetensors"
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


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
    """Files of a network, in a folder or in a repository of the hub.

    Raises:
        InputError: The name is neither a folder nor that of a repository.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.folder = Path(name) if Path(name).is_dir() else None
        if self.folder is None and not _REPOSITORY.fullmatch(name):
            raise InputError(
                f"backbone {HUGGING_FACE}/{name}: there is no such folder. Name one with {CONFIG} and "
                f"{WEIGHTS} ({HUGGING_FACE}/FOLDER), or a repository of the Hugging Face hub "
                f"({HUGGING_FACE}/OWNER/NAME)."
            )

    def path(self, file: str) -> Path:
        """Path of a file.

        Raises:
            InputError: It is missing, or can't be downloaded.
        """
        if self.folder is not None:
            if not (self.folder / file).is_file():
                raise InputError(
                    f"{self.folder}: {file} is missing. Save the network there (save_pretrained), with "
                    f"{WEIGHTS}: other weights are not opened, because they can contain programs."
                )
            return self.folder / file
        try:
            return Path(hub_file(self.name, file))
        except Exception as error:  # the hub's client passes on all exceptions of its HTTP library
            first_line = str(error).strip().split("\n")[0]
            raise InputError(
                f"{file} of {self.name} could not be downloaded ({type(error).__name__}: {first_line}). "
                f"Check the name and the connection, or name a folder ({HUGGING_FACE}/FOLDER)."
            ) from error

    def weights(self) -> list[Path]:
        """Files with the weights, of which there may be several in a folder.

        Raises:
            InputError: They are missing, or can't be downloaded.
        """
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
