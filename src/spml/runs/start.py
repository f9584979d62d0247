"""What a run may start from: the model of a finished run, and what its method had inferred (`init_from`).

Linear initialisation (Cole et al. 2021) is two runs: the first trains a head on frozen features, the second
starts from it and trains everything.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import models
from ..config import ModelConfig
from ..data import Dataset, Samples
from ..errors import InputError
from ..files import write_bytes
from ..methods.base import Objective
from ..models.backbones import check_fit, create_backbone
from . import folder as runfolder

_FORMAT = "spml objective 1"


@dataclass(frozen=True)
class Start:
    """A finished run that another starts from.

    Attributes:
        folder: of the run.
        classifier: its model.
        card: its model.json.
    """

    folder: Path
    classifier: models.Classifier
    card: dict[str, Any]

    @property
    def weights(self) -> str:
        """SHA-256 of its weights."""
        return str(self.card["weights_sha256"])

    def model_settings(self, given: ModelConfig) -> ModelConfig:
        """The settings of its model in place of those that the user left at their defaults.

        Raises:
            InputError: the user chose another backbone, other weights, another head.
        """
        spec, defaults = self.classifier.spec, ModelConfig()
        top = self.classifier.top.settings()
        theirs = {key: top[key] for key in ("head", "hidden", "dropout", "standardise")}
        theirs["backbone"] = spec.name
        if spec.weights != "none":
            theirs["weights"] = spec.file or spec.weights
        for key, value in theirs.items():
            mine = getattr(given, key)
            same = mine == value
            if key == "backbone":
                same = mine in (value, value.split(".")[0])
            elif key == "weights":
                same = value in (mine, Path(mine).name)
            if not same and mine != getattr(defaults, key):
                raise InputError(
                    f"--model.{key} is {mine!r}, but the model of {self.folder} (--init_from) has {value!r}: "
                    f"leave out --model.{key}, or start from another run."
                )
        return replace(given, **theirs)

    def spec(self, size: int) -> models.BackboneSpec:
        """Its backbone, for images of `size` pixels; 0 = the size it was trained with."""
        spec = self.classifier.spec
        return replace(spec, size=size) if size and spec.size else spec

    def backbone(self, spec: models.BackboneSpec) -> models.Backbone:
        """Its backbone with its weights, for images of the size of `spec`.

        Raises:
            InputError: the backbone does not take images of this size.
        """
        theirs = self.classifier.backbone
        if spec == theirs.spec:
            return theirs
        backbone, found = create_backbone(spec), theirs.state_dict()
        what = f"{self.folder}: its weights are for images of {theirs.spec.size} pixels, not of {spec.size}"
        check_fit(backbone.state_dict(), found, what, "Leave out --data.size.")
        backbone.load_state_dict(found)
        return backbone

    def check(self, data: Dataset) -> None:
        """Refuse data that its model was not made for.

        Raises:
            InputError: other classes, or the same in another order; images instead of features or the other
                way round; features of another width.
        """
        spec, classes = self.classifier.spec, tuple(self.card["classes"])
        if classes != data.classes:
            raise InputError(
                f"the model of {self.folder} (--init_from) has other classes than {data.name}: "
                f"{_difference(classes, data.classes)}. A run can start only from one with the same classes "
                "in the same order."
            )
        wanted = "image" if spec.size else "feature"
        if data.kind != wanted:
            raise InputError(
                f"the model of {self.folder} (--init_from) takes {wanted}s, but {data.name} holds "
                f"{data.kind}s. Start from a run on {data.kind}s; one on images may keep its backbone frozen "
                "(--model.frozen yes)."
            )
        width = int(data.splits["train"].inputs.fetch([0], None).shape[1])
        if not spec.size and width != spec.width:
            raise InputError(
                f"the model of {self.folder} (--init_from) takes {spec.width} features per sample, but "
                f"{data.name} has {width}. Give features made in the same way."
            )

    def carry(self, objective: Objective, method: str, train: Samples) -> str:
        """Give the objective the state that that of the run had at its best epoch, if it is of use here.

        Args:
            objective: started (`on_fit_start`); unchanged if nothing is carried.
            method: its name.
            train: training samples of this run.

        Returns:
            `carried`, `none` if neither of the two has a state, or `not carried: ` and the reason.

        Raises:
            InputError: the file of the state is damaged.
        """
        own, path = objective.state_dict(), self.folder / runfolder.OBJECTIVE
        before = self.card["method"]["name"]
        if not own and (method == before or not path.is_file()):
            return "none"
        if method != before:
            return f"not carried: it was trained with {before}, this run with {method}"
        if not path.is_file():
            return f"not carried: {path.name} is missing"
        state, labels = _read_state(path)
        if labels != fingerprint(train):
            return "not carried: its training samples or their labels were others"
        shapes = [{name: (t.shape, t.dtype) for name, t in part.items()} for part in (own, state)]
        if shapes[0] != shapes[1]:
            return "not carried: it is of another kind or shape, as other hyper-parameters make it"
        objective.load_state_dict(state)
        return "carried"


def read_start(folder: Path) -> Start:
    """The finished run in a folder.

    Raises:
        InputError: there is none, it has not finished, or its files are damaged.
    """
    if not (folder / runfolder.SUMMARY).is_file():
        if runfolder.holds_run(folder):
            raise InputError(
                f"{folder}: this run has not finished, so no other can start from it (--init_from). Go on "
                f"with it first: spml train --output {folder} --resume."
            )
        raise InputError(f"{folder}: holds no run to start from (--init_from): name the folder of one.")
    classifier, card = models.load_classifier(folder)
    return Start(folder, classifier, card)


def write_state(folder: Path, state: dict[str, Tensor], train: Samples) -> None:
    """Write an objective's state, with what says later which samples its rows belong to.

    Args:
        folder: of the run.
        state: from `state_dict`; not empty.
        train: training samples of the run.

    Raises:
        SpmlError: the file could not be written.
    """
    from safetensors.torch import save

    tensors = {name: tensor.contiguous() for name, tensor in state.items()}
    about = {"format": _FORMAT, "labels": fingerprint(train)}
    write_bytes(folder / runfolder.OBJECTIVE, save(tensors, about))


def fingerprint(samples: Samples) -> str:
    """SHA-256 over names and observed labels; how large images are does not count."""
    digest = hashlib.sha256(json.dumps(samples.ids).encode())
    digest.update(samples.observed.fingerprint().encode())
    return digest.hexdigest()


def _read_state(path: Path) -> tuple[dict[str, Tensor], str]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as stored:
            about = stored.metadata() or {}
            if about.get("format") != _FORMAT:
                raise ValueError(f"format {about.get('format')!r} instead of {_FORMAT!r}")
            state: dict[str, torch.Tensor] = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
            return state, about["labels"]
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise InputError(
            f"{path}: damaged, or of another version of spml ({error}). Restore it, or remove it to start "
            "from the model alone."
        ) from error


def _difference(theirs: tuple[str, ...], ours: tuple[str, ...]) -> str:
    if len(theirs) != len(ours):
        return f"{len(theirs)} instead of {len(ours)}"
    place = next(i for i, (one, other) in enumerate(zip(theirs, ours, strict=True)) if one != other)
    return f"class {place} (counted from 0) is {theirs[place]!r} instead of {ours[place]!r}"
