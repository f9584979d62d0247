"""Start a run from a finished one (`init_from`): its model, and what its method had inferred.

Linear initialisation (Cole et al. 2021) is two runs: the first trains a head on frozen features, the second
starts from it and trains the whole network.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ... import models
from ...common.errors import InputError
from ...common.phrases import class_differences
from ...config import ModelConfig
from ...data import Opening, Samples
from ...engine.checkpoint import BLANK, write_checked
from ...methods.base import Needs, Objective
from ...models.backbones import check_fit, create_backbone
from ...models.classifier import no_folder
from ...models.spec import OWN, origin_of
from ..folder import layout as run_files
from ..folder.contents import load_model, open_checked
from ..folder.layout import check_identity, identity_in

_FORMAT = "spml objective 2"

State = tuple[dict[str, Tensor], str]
"""State of a method, and a fingerprint of the samples that its rows belong to."""


@dataclass(frozen=True)
class Start:
    """A finished run that another one starts from.

    Attributes:
        folder: Folder of the finished run.
        classifier: Its model.
        card: Content of its model.json.
        state: State of its method where the run was not written to a folder, if the method has one.
    """

    folder: Path
    classifier: models.Classifier
    card: dict[str, Any]
    state: State | None = None

    @property
    def weights(self) -> str:
        """SHA-256 of the weights."""
        return str(self.card["weights_sha256"])

    def describe(self) -> dict[str, str]:
        """Description for the summary of the run that starts here."""
        return {"run": str(self.folder), "weights_sha256": self.weights}

    def correlates(self, config: ModelConfig) -> bool:
        """Whether the linear head of the finished run becomes a correlated one."""
        return config.head == models.CORRELATED and self.classifier.top.settings()["head"] == models.LINEAR

    def check_needs(self, method: str, needs: Needs) -> None:
        """Check that the codes of a head with label queries are of the kind that the method needs.

        Raises:
            InputError: It draws them and the method does not, or the reverse.
        """
        head = self.classifier.top.head
        if needs.latent and isinstance(head, models.QueryHead) and head.settings.posterior != needs.posterior:
            has = "predicts" if head.settings.posterior else "does not predict"
            raise InputError(
                f"the head of {self.folder} (`init_from`) {has} a distribution of every label, unlike that "
                f"of method {method!r}: start from a run of this method, or leave out `init_from`."
            )

    def model_settings(self, config: ModelConfig) -> ModelConfig:
        """Replace the settings that the user left at their defaults by those of the finished run's model.

        A correlated head may be chosen for a run from one with a linear head.

        Raises:
            InputError: The user chose another backbone, other weights, or another head.
        """
        spec, top = self.classifier.spec, self.classifier.top.settings()
        settings = {key: top[key] for key in ("head", "hidden", "dropout", "scaling")}
        settings |= top.get("queries", {}) | top.get("codes", {})
        for key in ("embedding", "posterior"):  # follow from the method
            settings.pop(key, None)
        settings["backbone"] = spec.name
        if self.correlates(config):
            settings["head"] = config.head
        if spec.weights != "none":
            settings["weights"] = spec.file or spec.weights
        for key, value in settings.items():
            chosen = getattr(config, key)
            same = chosen == value
            if key == "backbone":
                # A network of the user's own may be passed by another name; its weights are checked.
                same = chosen in (value, value.split(".")[0]) or origin_of(chosen) == origin_of(value) == OWN
            elif key == "weights":
                same = value in (chosen, Path(chosen).name)
            if not same and chosen != getattr(ModelConfig(), key):
                raise InputError(
                    f"model.{key} is {chosen!r}, but the model of {self.folder} (`init_from`) has "
                    f"{value!r}: leave out model.{key}, or start from another run."
                )
        return replace(config, **settings)

    def spec(self, size: int) -> models.BackboneSpec:
        """Backbone for images of `size` pixels; 0 = the size that it was trained with."""
        spec = self.classifier.spec
        return replace(spec, size=size) if size and spec.size else spec

    def backbone(self, spec: models.BackboneSpec) -> models.Backbone:
        """Backbone with the weights of the finished run, for images of the size of `spec`.

        Raises:
            InputError: The backbone does not take images of this size.
        """
        trained = self.classifier.backbone
        if spec == trained.spec:
            return trained
        backbone, weights = create_backbone(spec), trained.state_dict()
        what = f"{self.folder}: its weights are for images of {trained.spec.size} pixels, not of {spec.size}"
        check_fit(backbone.state_dict(), weights, what, "Leave out data.size.")
        backbone.load_state_dict(weights)
        return backbone

    def check(self, data: Opening) -> None:
        """Refuse data that the model was not made for.

        Raises:
            InputError: The data has other classes, or the same in another order; images instead of features
                or the other way round; or features of another width.
        """
        spec, classes = self.classifier.spec, tuple(self.card["classes"])
        if classes != data.classes:
            raise InputError(
                f"the model of {self.folder} (`init_from`) has other classes than {data.name}: "
                f"{class_differences(classes, data.classes)}. A run can start only from one with the same "
                "classes in the same order."
            )
        if data.kind != (kind := spec.kind):
            raise InputError(
                f"the model of {self.folder} (`init_from`) takes {kind}s, but {data.name} holds "
                f"{data.kind}s. Start from a run on {data.kind}s; one on images may keep its backbone frozen "
                "(model.frozen=yes)."
            )
        if spec.width and data.width != spec.width:
            raise InputError(
                f"the model of {self.folder} (`init_from`) takes {spec.width} features per sample, but "
                f"{data.name} has {data.width}. Give features made in the same way."
            )

    def carry(self, objective: Objective, method: str, train: Samples) -> str:
        """Load the state that the method of the finished run had at its best epoch, if it fits this run.

        Args:
            objective: Started method of this run; unchanged if nothing is carried over.
            method: Name of the method.
            train: Training samples of this run.

        Returns:
            `carried`; `none` if neither of the two methods has a state; or `not carried: ` and the reason.

        Raises:
            InputError: The file of the state is damaged.
        """
        own_state, path = objective.state_dict(), self.folder / run_files.OBJECTIVE
        trained_with, kept = self.card["method"]["name"], bool(self.state) or path.is_file()
        if not own_state and (method == trained_with or not kept):
            return "none"
        if method != trained_with:
            return f"not carried: it was trained with {trained_with}, this run with {method}"
        if not kept:
            return f"not carried: {path.name} is missing"
        state, labels = self.state or _read_state(path)
        if labels != fingerprint(train):
            return "not carried: it had other training samples or labels"
        if _shapes(state) != _shapes(own_state):
            return "not carried: other hyper-parameters gave it another kind or shape"
        objective.load_state_dict(state)
        return "carried"


def read_start(folder: Path) -> Start:
    """Read the finished run in a folder.

    Raises:
        InputError: The folder holds no run, the run has not finished, or its files are damaged.
    """
    if not folder.is_dir():
        raise InputError(f"{no_folder(folder)} (`init_from`)")
    if not (folder / run_files.SUMMARY).is_file():
        raise InputError(
            f"{folder}: holds no finished run to start from (`init_from`). Name the folder of one, or finish "
            f"it first: spml train --output {folder} --resume."
        )
    classifier, card = load_model(folder)
    classifier = classifier.of_one_size()
    classifier.top = classifier.top.linear_start()
    return Start(folder, classifier.eval(), card)


def write_state(folder: Path, state: dict[str, Tensor], train: Samples) -> None:
    """Write the state of an objective, with a fingerprint of the samples that its rows belong to.

    Args:
        folder: Folder of the run.
        state: Tensors from `state_dict`; not empty.
        train: Training samples of the run.

    Raises:
        SpmlError: The file could not be written.
    """
    tensors = {name: tensor.contiguous() for name, tensor in state.items()}
    metadata = {
        "format": _FORMAT,
        "labels": fingerprint(train),
        "run": identity_in(folder),
        "checksum": BLANK,
    }
    write_checked(folder / run_files.OBJECTIVE, tensors, metadata)


def fingerprint(samples: Samples) -> str:
    """SHA-256 over names and observed labels of samples; the size of images does not matter."""
    digest = hashlib.sha256(json.dumps([*samples.ids]).encode())
    digest.update(samples.observed.fingerprint().encode())
    return digest.hexdigest()


def _read_state(path: Path) -> State:
    with open_checked(path, "Restore it, or remove it to start from the model alone.") as stored:
        metadata = stored.metadata() or {}
        if metadata.get("format") != _FORMAT:
            raise ValueError(f"format {metadata.get('format')!r} instead of {_FORMAT!r}")
        check_identity(path, metadata.get("run", ""))
        return {name: stored.get_tensor(name) for name in stored.keys()}, metadata["labels"]  # noqa: SIM118


def _shapes(state: dict[str, Tensor]) -> dict[str, tuple[torch.Size, torch.dtype]]:
    return {name: (tensor.shape, tensor.dtype) for name, tensor in state.items()}
