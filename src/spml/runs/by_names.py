"""A run of photos of which no label is known: the names of the classes score them, nothing is trained."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from .. import models
from ..common.draws import permutation
from ..common.errors import InputError
from ..common.files import sha256_file, write_rows
from ..common.messages import log, progress
from ..common.phrases import counted, first_few
from ..common.safe import quote
from ..common.torch_draws import borrowed_generators
from ..config import Config, check, differences
from ..data import Dataset, Samples, start_opening
from ..decisions import (
    ClassCut,
    MeanLabels,
    Policy,
    Rows,
    Target,
    assumed_for_thresholds,
    global_threshold,
    scores_of,
    threshold_curve,
)
from ..engine import make_fabric, predict_logits
from ..scores import as_scores
from ..version import __version__
from .decide.policies import HELD_OUT, write_thresholds
from .fit.build import frozen_features
from .folder import layout as run_files
from .folder.held_out import HeldOut, drawn_part, keep_scores, write_held_out
from .folder.layout import identity_in, identity_of
from .settle.resolve import Resolved, settle_data

_MOST_WITH_CROPS = 5000  # photos whose crops are compared, for what scores have in common
_USED = (
    *(f"data.{name}" for name in ("path", "images", "classes", "missing", "max_unreadable")),
    *(f"data.{name}" for name in ("max_pixels", "draft", "decoder", "workers", "cache")),
    *(f"model.{name}" for name in ("backbone", "names", "names_file", "prompts", "names_lda")),
    *("batch_size", "seed", "accelerator", "precision", "threads", "output"),
)  # settings that have an effect
NOTHING_KNOWN = "no label is known yet: scores are those of the names of the classes alone"


def run_by_names(config: Config, *, resume: bool, overwrite: bool, cluster: str | None = None) -> Path:
    """Write the folder of a run whose scores are those of the names of its classes: the logarithm of the
    softmax at the temperature that the model of images and texts was trained with. With crops
    (`model.local`), the whole photo and the best crop of each size count alike; with `model.names_lda`, names
    are fitted to the photos before (see `fit_names`).

    Labels are predicted from one score on, at which a photo has an assumed number of them on average. All
    scores are of photos that nothing was fitted to, so they are kept as held-out ones, from which `spml audit
    sample` draws. What needs a known label is left out: a summary with metrics, estimates and the report.

    Args:
        config: Settings, with `data.classes`.
        resume, overwrite, cluster: As in `run_training`.

    Returns:
        The folder.

    Raises:
        InputError: A setting, the photos, the names of the classes or the folder do not suit; nothing was
            written.
    """
    folder = Path(config.output)
    run_files.check_free(folder, resume=resume, overwrite=overwrite)
    run = open_unlabelled(config, resume=resume)
    model = config.model
    names = models.read_name_evidence(model, run.data.classes)
    if unnamed := [quote(each) for each, name in zip(run.data.classes, names.names, strict=True) if not name]:
        raise InputError(
            f"{config.data.classes}: no label is known, and {first_few(unnamed, 3)} can't be read as a name "
            "either, so that nothing is known about it: give a name (model.names_file=FILE: rows of a "
            "class and the name to read), or leave it out."
        )
    with_crops = model.local == "crops"
    given = sum(map(len, run.data.splits.values())) * (1 + sum(models.crops().counts) if with_crops else 1)
    needed = models.LEAST_PER_NAME * len(names.names)
    if model.names_lda and given < needed:
        raise InputError(
            f"model.names_lda: LDA of {len(names.names):,} classes needs {needed:,} "
            f"{'photos and crops' if with_crops else 'photos'}, {models.LEAST_PER_NAME} of each class, but "
            f"there are {given:,}: leave it out{'' if with_crops else ', or pass local=crops, 14 for 1'}."
        )
    backbone = models.build_backbone(run.spec, model)
    fabric = make_fabric(config.accelerator, precision=config.precision)
    with run_files.only_trainer(folder, resume=False, overwrite=overwrite):
        run_files.clear(folder)
        identity = identity_of(run.config, run.data.fingerprint(), run.data.classes)
        run_files.write_config(folder, run.config, identity)
        if run.data.skipped:
            write_rows(folder / run_files.SKIPPED, ("file", "reason"), run.data.skipped)
        backbone, data = backbone.to(fabric.device), run.data
        if not with_crops:
            cache = Path(config.data.cache or folder / run_files.FEATURES)
            data = frozen_features(run, backbone, fabric, cache, cluster=cluster)
        _write(run, backbone, *_fit(run, backbone, names, data, fabric))
    photos, told = shlex.quote(config.data.path), shlex.quote(str(folder))
    log.info(
        f"{folder}: done; {NOTHING_KNOWN}\n"
        f"next: `spml predict {told} {photos} --output tags.csv` labels photos, "
        f"{assumed_for_thresholds(len(run.data.classes)):g} labels per photo on average (an assumption).\n"
        f"next: `spml audit sample {told}` draws random photos to label in full with `spml review`."
    )
    return folder


def open_unlabelled(config: Config, *, resume: bool) -> Resolved:
    """Check and settle the settings of such a run, and open its photos for the backbone. No weights are read.

    Raises:
        InputError: A setting or the photos do not suit.
    """
    check(config)
    model = config.model
    if not model.names:
        raise InputError(
            "data.classes is for photos without any known label, which are scored by the names of the "
            "classes: pass names=MODEL. For labelled data, leave data.classes out."
        )
    if resume:
        raise InputError("`resume`: nothing is trained without a known label. Start again with `overwrite`.")
    idle = [name for name in differences(config, Config()) if name not in _USED]
    suits = {
        "model.frozen": model.frozen == "yes",
        "model.local": model.local != "on",  # the image tower ends in one vector
        "data.size": len(config.data.sizes) < 2,
    }
    if idle := [name for name in idle if not suits.get(name, False)]:
        raise InputError(
            f"data.classes: no label is known, so nothing is trained and nothing judged, and "
            f"{first_few(idle, 5)} would have no effect: leave it out. Photos are scored at one size, whole "
            "or with their crops (local=crops)."
        )
    opening = start_opening(config.data, purpose="evaluate")
    spec = models.describe_backbone(
        model, opening.kind, opening.width, size=config.data.side, source=opening.name
    )
    data = opening.finish(size=config.data.side or spec.size, interpolation=spec.interpolation)
    for note in data.notes:
        log.info(note)
    model = replace(model, backbone=spec.name, frozen="yes")
    return Resolved(replace(config, data=settle_data(config.data, spec, data), model=model), spec, data, None)


class _WithWindows(nn.Module):
    """Features (B, (1 + n) D) of images, and of their n windows."""

    def __init__(
        self, backbone: models.Backbone, windows: models.Windows, advance: Callable[[int], None]
    ) -> None:
        super().__init__()
        self.backbone, self.windows, self._advance = backbone, windows, advance

    def forward(self, inputs: Tensor) -> Tensor:
        whole, parts = self.windows.features(self.backbone, inputs)
        self._advance(len(inputs))
        return torch.cat([whole[:, None], *parts], 1).flatten(1)


def _fit(
    run: Resolved,
    backbone: models.Backbone,
    names: models.NameEvidence,
    data: Dataset,
    fabric: Any,
) -> tuple[models.Top, Samples, npt.NDArray[np.float32]]:
    """What scores photos by the names of the classes, and some of them with their logits (H, C).

    `data` are features, or with crops the photos themselves.
    """
    config, classes = run.config, len(run.data.classes)
    (samples,) = data.splits.values()
    drawn = drawn_part(len(samples), classes, config.seed)
    with borrowed_generators():
        top = models.Top(backbone.num_features, classes, scores=models.LOG_SOFTMAX)
    scores = models.NameScores.of_texts(names.embeddings, names.temperature, models.NAMES_SOFTMAX)
    if config.model.local != "crops":
        part = samples.take(drawn)
        if config.model.names_lda:
            some = permutation(len(part), "windows", config.seed)[: models.MOST_WINDOWS]
            scores = models.fit_names(scores, part.inputs.fetch(np.sort(some), None).float())
            log.info(f"names: fitted to {counted(len(some), 'photo')} by LDA")
        top.set_ensemble(models.Ensemble.of_names(scores))
        logits = predict_logits(top.to(fabric.device), part, fabric, batch_size=config.batch_size)
        return top, part, logits
    windows = models.crops()
    most = min(len(drawn), _MOST_WITH_CROPS)
    part = samples.take(np.sort(permutation(len(samples), "windows", config.seed)[:most]))
    with progress(most, "crops of photos") as advance:
        found = predict_logits(
            _WithWindows(backbone, windows, advance), part, fabric,
            batch_size=config.batch_size, workers=config.data.workers,
        )  # fmt: skip
    parts = torch.from_numpy(found).view(most, -1, backbone.num_features)
    if config.model.names_lda:
        scores = models.fit_names(scores, parts.flatten(0, 1))
        log.info(f"names: fitted to {counted(most, 'photo')} and their crops by LDA")
    log.info(
        "local evidence: a photo, its best of 4 crops and its best of 9 count alike, each on the scale that "
        f"it has over {counted(most, 'photo')}"
    )
    top.set_ensemble(models.Ensemble.of_names(scores))
    variants, _ = top.variants(parts[:, 0], torch.split(parts[:, 1:], windows.counts, 1))
    top.local = models.weigh_alike(variants, windows)
    logits = top.local(variants).numpy()
    return top.to(fabric.device), part, logits


def _write(
    run: Resolved,
    backbone: models.Backbone,
    top: models.Top,
    part: Samples,
    logits: npt.NDArray[np.float32],
) -> None:
    """Write model, thresholds and held-out scores."""
    config, classes, folder = run.config, run.data.classes, Path(run.config.output)
    kept, assumed = as_scores(logits), assumed_for_thresholds(len(classes))
    cut = global_threshold(kept, assumed)
    form = models.NAMES_LDA if config.model.names_lda else models.NAMES_SOFTMAX
    card = {
        "classes": list(classes),
        "method": {"name": form, "hp": {}},
        "threshold": {
            "logit": cut,
            "labels_per_sample": assumed,
            "source": "default",
            "curve": threshold_curve(kept),
        },
        "thresholds": run_files.THRESHOLDS,
        "without_positives": [],
        "by_name": list(classes),
        "feature_names": [],
        "spml": __version__,
        "run": identity_in(folder),
    }
    held_out = HeldOut(tuple(part.ids), keep_scores(kept, part.observed), part.observed)
    write_held_out(folder, held_out, classes)
    classifier = models.Classifier(backbone, top, frozen=True)
    models.save_classifier(folder, classifier, classifier.spec, card)
    score = float(scores_of(cut, top.scale))
    policy = Policy(
        spml=__version__,
        model=sha256_file(folder / run_files.MODEL[0]),
        scale=top.scale,
        target=Target("labels"),
        mean_labels=MeanLabels(assumed, "default"),
        rows=Rows(0, HELD_OUT),
        classes=tuple(ClassCut(name, score, None, None, None, None, 0) for name in classes),
        warnings=(NOTHING_KNOWN,),
    )
    write_thresholds(folder, policy, held_out, picture=False)
