"""Settings of a run that do not go together: with each other, with the backbone or with the method."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ... import models
from ...common.errors import InputError
from ...common.files import same_path
from ...common.safe import quote
from ...config import AUTO, LBFGS, Config, ModelConfig, check
from ...data import Inputs
from ...data.images.image_files import ImageFiles
from ...data.matrix import FeatureMatrix
from ...data.texts import Texts
from ...labels import ObservedLabels
from ...methods.base import Needs
from ...methods.registry import find
from .. import recipes

_ROUNDED = 0.05  # K is often stated with one decimal


def check_without_data(config: Config) -> None:
    """Check what needs no data.

    Raises:
        InputError: A setting is outside its domain, or does not go together with another one.
    """
    if not config.data.path:
        raise InputError(
            "no data: name a folder with one sub-folder per class, a CSV file, a .npz feature file, or "
            "`digits`."
        )
    if config.objective and config.model.head not in models.CLOSED_FORM:
        find(config.objective, [AUTO])
    check(config)
    head = f"model.head={config.model.head}"
    if config.method == AUTO:
        _leave_out_one(
            f"method={AUTO} chooses and solves its heads from scratch",
            {
                head: config.model.head != "auto",
                "`hp`": bool(config.hp),
                f"optim.name={LBFGS}": config.optim.name == LBFGS,
                f"init_from={config.init_from}": bool(config.init_from),
            },
        )
    if config.model.head in models.CLOSED_FORM:
        stated = {f"method={config.method}": bool(config.method), "`hp`": bool(config.hp)}
        _leave_out_one(f"{head} is solved without a method", stated)
        if config.init_from:
            raise InputError(
                f"{head} is solved from scratch, but init_from={config.init_from} is given: leave out "
                "model.head to train the head of that run further."
            )
    _check_names(config)
    if config.record != "none":
        solvers = {
            head: config.model.head in models.CLOSED_FORM,
            f"method={AUTO}": config.method == AUTO,
            f"optim.name={LBFGS}": config.optim.name == LBFGS,
        }
        if solver := next((option for option, stated in solvers.items() if stated), ""):
            raise InputError(
                f"record={config.record} keeps the scores of every epoch, but {solver} solves a head "
                "without epochs: leave out one of the two."
            )
    if same_path(config.init_from, config.output):
        raise InputError(
            f"{config.output}: can't be both the run to start from (`init_from`) and the folder of the new "
            "run (`output`): name another `output`."
        )


def _check_names(config: Config) -> None:
    """Check that settings go together with names of classes."""
    model = config.model
    if model.names_lda:
        raise InputError(
            "model.names_lda is for photos without labels (data.classes=FILE names=MODEL). With "
            "labels, an auto head with `names` tries it by itself: leave it out."
        )
    if not model.names:
        for name in ("names_file", "prompts"):
            if getattr(model, name):
                raise InputError(
                    f"model.{name} is about what a text tower reads, but no model with one is named: pass "
                    "names=MODEL, or leave it out."
                )
        return
    _leave_out_one(
        f"names={model.names}: names of classes are compared with the features of its image tower, by the "
        "auto head or a method that takes pseudo-labels",
        {
            f"model.head={model.head}": model.head in models.CLOSED_FORM,
            "model.frozen=no": model.frozen == "no",
            f"init_from={config.init_from}": bool(config.init_from),
        },
    )


def _leave_out_one(fact: str, options: dict[str, bool]) -> None:
    for option, stated in options.items():
        if stated:
            raise InputError(f"{fact}, but {option} is given: leave out one of the two.")


def first_training(config: Config, table: str) -> str:
    """Command that learns from a table of labels what a run knows by the names of the classes alone."""
    path, names = Path(config.data.path), shlex.quote(config.model.names)
    images = shlex.quote(config.data.images or str(path if path.is_dir() else path.parent))
    return f"spml train {shlex.quote(table)} --data.images {images} --data.unlisted negative --names {names}"


def check_labels_known(folder: Path, config: Config | None, what: str) -> None:
    """Refuse what needs a known label, of a run that was made from the names of the classes alone.

    Args:
        folder: Folder of the run.
        config: Its settings, if it records them.
        what: What can't be done.

    Raises:
        InputError: No label was known when the run was made.
    """
    if config is None or not config.data.classes:
        return
    raise InputError(
        f"{folder}: no label is known yet, so {what}. Label photos in full (spml audit sample "
        f"{shlex.quote(str(folder))}, then spml review), and train on them: {first_training(config, 'TABLE')}"
    )


def check_mean_labels(
    mean_labels: float | None, classes: int, observed: Sequence[ObservedLabels] = ()
) -> None:
    """Refuse a mean number of labels per sample K that is impossible for classes or known labels.

    Args:
        mean_labels: K as stated; None = not stated.
        classes: Number of classes.
        observed: Observed labels, in any number of parts.

    Raises:
        InputError: K does not lie between 0 and the number of classes, or is below the mean number of known
            labels of a sample (of one with a known label, unless all labels are known) by more than it may
            have been rounded and three standard errors: K may be that of a larger set.
    """
    if mean_labels is not None and not 0 < mean_labels < classes:
        raise InputError(
            f"`mean_labels` is the mean number of labels per sample, between 0 and the {classes} classes, "
            f"got {mean_labels:g}. State another value, or leave it out if you do not know it."
        )
    known = np.concatenate([np.zeros(0, np.int64), *(part.positives_per_sample() for part in observed)])
    counted = known if all(part.full for part in observed) else known[known > 0]
    if mean_labels is None or not len(counted):
        return
    if mean_labels < counted.mean() - max(_ROUNDED, 3 * counted.std() / math.sqrt(len(counted))):
        raise InputError(
            f"mean_labels={mean_labels:g} is below {counted.mean():.3g}, the mean number of labels that "
            "are known of a sample. It counts all labels of a sample, the known ones included: state a "
            "larger number, or leave it out if you do not know it."
        )


def check_solver(config: Config, model: ModelConfig, spec: models.BackboneSpec, kind: str) -> None:
    """Check the model of a run whose head is solved.

    Args:
        config: Settings of the run.
        model: Settings of its model, completed by the card of the method.
        spec: Backbone.
        kind: `image` or `feature`.

    Raises:
        InputError: The solver can't honour a setting, or the features of the backbone are of no use to it.
    """
    minimised = bool(config.objective) and config.optim.name == LBFGS
    if minimised:
        _check_lbfgs(config, model.head)
    if kind == "feature" or (config.objective and not minimised):
        return
    solver, instead = f"model.head={model.head}", "model.head=linear"
    if config.method == AUTO:
        solver, instead = f"method={AUTO}", f"method={recipes.read('default')['trained']}"
    elif minimised:
        solver, instead = f"optim.name={LBFGS}", "optim.name=adamw"
    if not spec.is_pretrained:
        raise InputError(
            f"{solver} solves a head on the features of a pretrained backbone, but {spec.name} starts from "
            "random weights: choose a pretrained one (model.backbone=resnet50, or model.weights=FILE), "
            f"give a feature file, or train both ({instead})."
        )
    if model.frozen == "no" and config.method != AUTO:
        raise InputError(
            f"{solver} needs features that do not change, but model.frozen is 'no': leave it out. To train "
            "the backbone too, start a second run from this one (init_from=RUN model.frozen=no)."
        )


def check_crop(config: Config, inputs: Inputs) -> None:
    """Check that random parts of images can be trained on, if the user wants it.

    Raises:
        InputError: There are no image files, or their backbone is frozen.
    """
    if config.data.crop == 1:
        return
    reason = ""
    if not isinstance(inputs, ImageFiles):
        reason = "the data holds no image files"
    elif config.model.frozen == "yes":
        reason = "features of a frozen backbone are computed once (model.frozen=no trains it)"
    if reason:
        raise InputError(
            f"data.crop={config.data.crop:g} trains on random parts of images, but {reason}: leave it out."
        )


def check_local(model: ModelConfig, inputs: Inputs) -> None:
    """Check that there is something to look at locally, if the user wants it.

    Raises:
        InputError: There is not.
    """
    if model.local in ("auto", "off"):
        return
    if isinstance(inputs, Texts):
        raise InputError(
            f"local={model.local} scores parts of images, but the data holds texts: leave it out."
        )
    if not isinstance(inputs, FeatureMatrix):
        return
    if model.local == "crops" or not inputs.num_parts:
        raise InputError(
            f"local={model.local} scores parts of images, but the data holds one feature vector of each "
            "sample: give the images, features of the parts of each sample as X of shape (N, P, D) (local="
            "on), or leave it out."
        )


def _check_lbfgs(config: Config, head: str) -> None:
    solver = f"optim.name={LBFGS}"
    if head != models.LINEAR:
        raise InputError(
            f"{solver} solves a linear head, but method {config.method!r} has a {head!r} head here: pass "
            "model.head=linear, or train it (optim.name=adamw)."
        )
    if config.init_from:
        raise InputError(
            f"{solver} starts from scratch, but init_from={config.init_from} is given: leave it out, or "
            "train further (optim.name=adamw)."
        )
    penalties = {
        "optim.l1": config.optim.l1,
        "optim.l2": config.optim.l2,
        "model.dropout": config.model.dropout,
    }
    for name, value in penalties.items():
        if value:
            raise InputError(
                f"{solver} tries L2 penalties of its own and no other ones, but {name} is {value:g}: leave "
                "it out, or train (optim.name=adamw)."
            )


def check_needs(config: Config, needs: Needs) -> None:
    """Check that the model gives what the method or the head needs, and that a network is trained where
    settings are about one.

    Raises:
        InputError: It does not.
    """
    model = config.model
    if model.names and config.objective and not needs.names:
        raise InputError(
            f"names={model.names}: method {config.method!r} makes no use of the names of classes: pass "
            f"method={AUTO}, or leave it out."
        )
    _check_head(config.method, model, needs)
    consumer = needs_maps(config.method, model.head, needs)
    if consumer and config.data.text:
        raise InputError(
            f"{consumer} needs the feature map of a convolutional backbone, but the data holds texts: choose "
            "another head or method."
        )
    if consumer and model.backbone == "none":
        raise InputError(
            f"{consumer} needs the feature map of a convolutional backbone, but the data holds feature "
            "vectors: give the images that they were made from, or choose another head or method."
        )
    if consumer and model.frozen == "yes":
        raise InputError(
            f"{consumer} needs the feature map of the backbone in every step, but model.frozen is 'yes', "
            "which keeps pooled features only: pass model.frozen=no."
        )
    reason = ""
    if model.backbone == "none":
        reason = "the data holds feature vectors"
    elif model.frozen == "yes":
        reason = "the backbone is frozen (model.frozen=no trains it)"
    if reason and model.frozen_parts:
        raise InputError(
            f"model.frozen_parts={quote(model.frozen_parts)} names parts of a network that is trained, but "
            f"{reason}: leave it out."
        )
    if consumer and not reason:
        reason = f"{consumer} calls only the first part of the network, for its feature map"
    if config.compile and reason:
        raise InputError(f"compile=yes compiles the network that is trained, but {reason}: leave it out.")


def _check_head(method: str, model: ModelConfig, needs: Needs) -> None:
    """Check that the head gives what the method needs."""
    if model.head == models.GAUSSIAN_PER_CLASS and not model.code:
        raise InputError(
            f"the head {model.head!r} has a random code of each class, but model.code is 0: pass "
            "model.code=64, or another head."
        )
    if needs.posterior and model.head not in (models.BETA, models.QUERIES):
        raise InputError(
            f"method {method!r} needs a head that predicts a distribution of every label, but model.head "
            f"is {model.head!r}: pass model.head={models.BETA}, or for images model.head="
            f"{models.QUERIES}."
        )
    coded = (models.GAUSSIAN, models.GAUSSIAN_PER_CLASS, models.BETA, models.QUERIES)
    if needs.latent and model.head not in coded:
        raise InputError(
            f"method {method!r} needs a head with a random code, but model.head is {model.head!r}: pass "
            f"model.head={models.GAUSSIAN}, or for images model.head={models.QUERIES}."
        )
    if needs.latent and model.head == models.QUERIES and not model.code:
        raise InputError(
            f"method {method!r} needs a head with a random code, but model.code is 0, or the head of the "
            "run to start from has none: pass model.code=64, or start from a run of this method."
        )
    if needs.embedding and model.head != models.QUERIES:
        raise InputError(
            f"method {method!r} needs a head with an embedding of each class, but model.head is "
            f"{model.head!r}: pass model.head={models.QUERIES}, which takes images."
        )


def needs_maps(method: str, head: str, needs: Needs) -> str:
    """Name of the part that needs the feature map of the backbone, for messages; empty if none does."""
    if needs.class_maps:
        return f"method {method!r}"
    return f"head {head!r} (method {method!r})" if head in models.MAP_HEADS else ""
