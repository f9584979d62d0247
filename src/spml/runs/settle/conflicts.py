"""Settings of a run that conflict: with each other, the data, the backbone, the method or the memory.

Most of it is two tables of conditions and sentences, in `check_stated` and `check_settled`. The first
condition that holds is refused.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
from torch import nn

from ... import models
from ...common.errors import InputError
from ...common.files import same_path
from ...common.phrases import counted
from ...common.safe import quote
from ...config import AUTO, LBFGS, Config, check
from ...data import Dataset, Inputs
from ...data.images.image_files import ImageFiles
from ...data.matrix import FeatureMatrix
from ...data.texts import Texts
from ...engine.process_memory import total_memory
from ...labels import ObservedLabels
from ...methods.base import Facts, Needs, Objective
from ...methods.registry import find, methods
from ...scores import fits
from .. import recipes

_ROUNDED = 0.05  # K is often stated with one decimal
_PROBED = 3  # samples on which a method is started to see what it keeps of each
_FEATURE = 32  # bytes per feature of a sample while neighbours are searched: in float64, with copies
_RECORDED = 10  # bytes per recorded score: logits as they are predicted, clipped, and in half precision

Row = tuple[object, str]
"""A condition, and the sentence that refuses what it holds for."""


def _refuse(rows: Iterable[Row]) -> None:
    for applies, sentence in rows:
        if applies:
            raise InputError(sentence)


def _leave_out_one(fact: str, options: dict[str, object]) -> list[Row]:
    """Rows that refuse each of the options that are stated, because of a fact."""
    return [
        (stated, f"{fact}, but {option} is given: leave out one of the two.")
        for option, stated in options.items()
    ]


def check_stated(config: Config) -> None:
    """Check what needs no data.

    Raises:
        InputError: A setting is outside its domain, or does not go together with another one.
    """
    if not config.data.path:
        raise InputError(
            "no data: name a folder with one sub-folder per class, a CSV file, a .npz feature file, or "
            "`digits`."
        )
    model, auto = config.model, config.method == AUTO
    closed_form, lbfgs = model.head in models.CLOSED_FORM, config.optim.name == LBFGS
    if config.method in models.CLOSED_FORM:
        raise InputError(f"{config.method!r} is a head, not a method: pass head={config.method} instead.")
    if config.objective and not closed_form:
        find(config.objective, [AUTO])
    check(config)
    head, start = f"model.head={model.head}", f"init_from={config.init_from}"
    solvers = {head: closed_form, f"method={AUTO}": auto, f"optim.name={LBFGS}": lbfgs}
    solver = next((option for option, stated in solvers.items() if stated), "")
    rows: list[Row] = []
    if auto:
        rows += _leave_out_one(
            f"method={AUTO} chooses and solves its heads from scratch",
            {
                head: model.head != "auto",
                "`hp`": config.hp,
                f"optim.name={LBFGS}": lbfgs,
                start: config.init_from,
            },
        )
    if closed_form:
        rows += _leave_out_one(
            f"{head} is solved from scratch without a method",
            {f"method={config.method}": config.method, "`hp`": config.hp, start: config.init_from},
        )
    if model.names:
        rows += _leave_out_one(
            f"names={model.names}: names of classes are compared with the features of its image tower, by "
            "the auto head or a method that takes pseudo-labels",
            {head: closed_form, "model.frozen=no": model.frozen == "no", start: config.init_from},
        )
    rows += [
        (
            model.names_lda,
            "model.names_lda is for photos without labels (data.classes=FILE names=MODEL). With "
            "labels, an auto head with `names` tries it by itself: leave it out.",
        ),
        (
            (model.names_file or model.prompts) and not model.names,
            "model.names_file and model.prompts are about what a text tower reads, but no model with one is "
            "named: pass names=MODEL, or leave them out.",
        ),
        (
            config.record != "none" and solver,
            f"record={config.record} keeps the scores of every epoch, but {solver} solves a head without "
            "epochs: leave out one of the two.",
        ),
        (
            config.minutes and (closed_form or lbfgs),
            f"minutes={config.minutes:g} limits an auto head, or a network that is trained, but {solver} "
            "solves one head, of which nothing can be left out: leave out one of the two.",
        ),
        (
            same_path(config.init_from, config.output),
            f"{config.output}: can't be both the run to start from (`init_from`) and the folder of the new "
            "run (`output`): name another `output`.",
        ),
    ]
    _refuse(rows)


def check_settled(config: Config, needs: Needs, spec: models.BackboneSpec, kind: str, inputs: Inputs) -> None:
    """Check settings that are complete with each other, with the method, the backbone and the data.

    Args:
        config: Settings of the run.
        needs: Needs of its method.
        spec: Backbone.
        kind: `image`, `text` or `feature`.
        inputs: Training samples.

    Raises:
        InputError: A setting can't be honoured, or the method or the head lacks something that it needs.
    """
    model, optim, method, head = config.model, config.optim, config.method, config.model.head
    lbfgs, feature = bool(config.objective) and optim.name == LBFGS, kind == "feature"
    solved = lbfgs or not config.objective
    trained = recipes.read("default")["trained"]
    solver, instead = f"model.head={head}", "model.head=linear"
    if method == AUTO:
        solver, instead = f"method={AUTO}", f"method={trained}"
    elif lbfgs:
        solver, instead = f"optim.name={LBFGS}", "optim.name=adamw"
    maps = needs_maps(method, head, needs)
    no_maps = "model.frozen is 'yes', which keeps pooled features only: pass model.frozen=no"
    if config.data.text:
        no_maps = "the data holds texts: choose another head or method"
    elif model.backbone == "none":
        no_maps = "the data holds feature vectors: give the images, or choose another head or method"
    untrained = ""
    if model.backbone == "none":
        untrained = "the data holds feature vectors"
    elif model.frozen == "yes":
        untrained = "the backbone is frozen, so its features are computed once (model.frozen=no trains it)"
    uncompiled = untrained
    if maps and not untrained:
        uncompiled = f"{maps} calls only the first part of the network, for its feature map"
    uncropped = untrained if isinstance(inputs, ImageFiles) else "the data holds no image files"
    whole = "texts" if isinstance(inputs, Texts) else "one feature vector of each sample"
    has_parts = not isinstance(inputs, (Texts, FeatureMatrix))
    if isinstance(inputs, FeatureMatrix) and model.local == "on":
        has_parts = inputs.num_parts > 0
    queries = f"model.head={models.QUERIES}"
    suitable = {  # what a method needs of its head: whether it does, and heads that have it
        "that predicts a distribution of every label": (needs.posterior, models.BETA, models.QUERIES),
        "with a random code": (
            needs.latent, models.GAUSSIAN, models.GAUSSIAN_PER_CLASS, models.BETA, models.QUERIES,
        ),
        "with an embedding of each class": (needs.embedding, models.QUERIES),
    }  # fmt: skip
    rows: list[Row] = []
    if lbfgs:
        rows += _leave_out_one(
            f"{solver} solves a linear head from scratch with L2 penalties of its own (optim.name=adamw "
            "trains one)",
            {
                f"model.head={head} (method {method!r})": head != models.LINEAR,
                f"init_from={config.init_from}": config.init_from,
                "optim.l1": optim.l1,
                "optim.l2": optim.l2,
                "model.dropout": model.dropout,
            },
        )
    rows += [
        (
            solved and not feature and not spec.is_pretrained,
            f"{solver} solves a head on the features of a pretrained backbone, but {spec.name} starts from "
            "random weights: choose a pretrained one (model.backbone=resnet50, or model.weights=FILE), "
            f"give a feature file, or train both ({instead}).",
        ),
        (
            solved and not feature and model.frozen == "no" and method != AUTO,
            f"{solver} needs features that do not change, but model.frozen is 'no': leave it out. To train "
            "the backbone too, start a second run from this one (init_from=RUN model.frozen=no).",
        ),
        (
            model.local in ("on", "crops") and not has_parts,
            f"local={model.local} scores parts of images, but the data holds {whole}: leave it out, or give "
            "images, or for local=on features of the parts of each sample as X of shape (N, P, D).",
        ),
        (
            model.names and config.objective and not needs.names,
            f"names={model.names}: method {method!r} makes no use of the names of classes: pass "
            f"method={AUTO}, or leave it out.",
        ),
        (
            head == models.GAUSSIAN_PER_CLASS and not model.code,
            f"the head {head!r} has a random code of each class, but model.code is 0: pass "
            "model.code=64, or another head.",
        ),
        *(
            (
                needed and head not in heads,
                f"method {method!r} needs a head {what}, but model.head is {head!r}: pass "
                + (f"model.head={heads[0]}, or for images {queries}." if heads[1:] else f"{queries}."),
            )
            for what, (needed, *heads) in suitable.items()
        ),
        (
            needs.latent and head == models.QUERIES and not model.code,
            f"method {method!r} needs a head with a random code, but model.code is 0, or the head of the "
            "run to start from has none: pass model.code=64, or start from a run of this method.",
        ),
        (
            maps and (config.data.text or model.backbone == "none" or model.frozen == "yes"),
            f"{maps} needs the feature map of a convolutional backbone in every step, but {no_maps}.",
        ),
        (
            untrained and model.frozen_parts,
            f"model.frozen_parts={quote(model.frozen_parts)} names parts of a network that is trained, but "
            f"{untrained}: leave it out.",
        ),
        (
            config.compile and uncompiled,
            f"compile=yes compiles the network that is trained, but {uncompiled}: leave it out.",
        ),
        (
            config.data.crop != 1 and uncropped,
            f"data.crop={config.data.crop:g} trains on random parts of images, but {uncropped}: leave it "
            "out.",
        ),
    ]
    _refuse(rows)


def needs_maps(method: str, head: str, needs: Needs) -> str:
    """Name of the part that needs the feature map of the backbone, for messages; empty if none does."""
    if needs.class_maps:
        return f"method {method!r}"
    return f"head {head!r} (method {method!r})" if head in models.MAP_HEADS else ""


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
    counts = known if all(part.full for part in observed) else known[known > 0]
    if mean_labels is None or not len(counts):
        return
    if mean_labels < counts.mean() - max(_ROUNDED, 3 * counts.std() / math.sqrt(len(counts))):
        raise InputError(
            f"mean_labels={mean_labels:g} is below {counts.mean():.3g}, the mean number of labels that "
            "are known of a sample. It counts all labels of a sample, the known ones included: state a "
            "larger number, or leave it out if you do not know it."
        )


# -- runs without a known label ----------------------------------------------------------------------------


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
    if config is not None and config.data.classes:
        raise InputError(
            f"{folder}: no label is known yet, so {what}. Label photos in full (spml audit sample "
            f"{shlex.quote(str(folder))}, then spml review), and train on them: "
            f"{first_training(config, 'TABLE')}"
        )


# -- memory: methods and recordings that hold a number per sample and class ----------------------------------


def check_method_memory(objective: Objective, method: str, facts: Facts) -> None:
    """Check, before a method is started, that what it keeps of each sample fits into memory.

    The size is measured: a copy of the method is started on a few samples.

    Args:
        objective: Method that was not started yet.
        method: Its name.
        facts: Properties of the training set.

    Raises:
        InputError: It does not fit.
    """
    samples, classes, memory = len(facts.observed), len(facts.classes), total_memory()
    searched = _FEATURE * samples * (facts.width or 0)
    if searched > memory:
        raise InputError(
            f"method {method!r} compares the features of all training samples, which takes "
            f"{searched / 1e9:.1f} GB for {counted(samples, 'sample')} x {facts.width} features, and this "
            f"process may take {memory / 1e9:.1f} GB. Train on fewer samples, or choose another method or "
            f"another form of it (spml methods {method})."
        )
    if fits(samples, classes):
        return
    needed = bytes_per_score(objective, facts) * samples * classes
    if needed > memory:
        others = ", ".join(name for name, cls in methods().items() if cls.card.state == "none")
        raise InputError(
            f"method {method!r} keeps {needed / 1e9:.1f} GB for {counted(samples, 'sample')} x {classes} "
            f"classes, and this process may take {memory / 1e9:.1f} GB. Choose a method that keeps nothing "
            f"of each sample (`method`): {others}; or train on fewer samples or classes."
        )


def bytes_per_score(objective: Objective, facts: Facts) -> float:
    """Bytes that a method keeps for each training sample and class, with the copy of its best epoch.

    A parameter also has a gradient and two moments of the optimiser; predictions for the whole training set
    are logits in float32.
    """
    few = min(_PROBED, len(facts.ids))
    probe = deepcopy(objective)
    observed = facts.observed.take(range(few))
    try:
        probe.on_fit_start(replace(facts, observed=observed, ids=facts.ids[:few]))
    except InputError:  # for the whole data set, it is raised again
        return 0.0
    size = 4.0 if objective.needs.train_pass else 0.0
    for tensor in (*probe.buffers(), *probe.parameters()):
        if tensor.shape[:2] == (few, len(facts.classes)):
            copies = 5 if isinstance(tensor, nn.Parameter) else 2
            size += copies * tensor.element_size() * tensor.numel() / (few * len(facts.classes))
    return size


def check_recording(data: Dataset, names: Sequence[str]) -> None:
    """Check that the scores of the splits to record fit into memory.

    Raises:
        InputError: They do not.
    """
    samples = sum(len(data.splits[name]) for name in names)
    classes, memory = len(data.classes), total_memory()
    needed = _RECORDED * samples * classes
    if needed > memory:
        raise InputError(
            f"recording the scores of {counted(samples, 'sample')} x {classes} classes takes "
            f"{needed / 1e9:.1f} GB of memory, and this process may take {memory / 1e9:.1f} GB. Record "
            "another split (record_samples)."
        )
