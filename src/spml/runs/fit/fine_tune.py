"""Method `auto` on a network that is trained: solve the auto head, fine-tune from it, keep the better one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ...common.budget import Budget
from ...common.documents import parse_json
from ...common.errors import InputError
from ...common.files import write_checked_json, write_with
from ...common.messages import log
from ...config import Config
from ...engine.checkpoint import check_classes
from ...metrics import TRUSTED, compare_ranks, ranks_of, shown_score
from .. import recipes
from ..folder import layout as run_files
from ..folder.contents import load_model, read_summary
from ..folder.held_out import read_held_out, write_held_out
from ..folder.summary import next_steps

HEAD, TUNED = "head", "fine-tuned"
_KEPT = (
    run_files.MODEL[0],
    run_files.THRESHOLDS,
    run_files.THRESHOLDS_PICTURE,
    run_files.METRICS,
    run_files.CURVES,
    run_files.EXAMPLES,
    run_files.SKIPPED,
)


def fine_tune(
    config: Config,
    classes: Sequence[str],
    command: str = "",
    identity: str = "",
    *,
    resume: bool,
    train: Callable[..., object],
    pictures: bool,
) -> dict[str, Any]:
    """Train the two runs in folders of their own, and copy one of them: the network if it is clearly better.

    Both are scored on the same validation samples, which neither was fitted to: the head by members that were
    not solved on them, the network at its best epoch. The network is kept if its SP-score is ahead by more
    than 2.5 standard deviations of the difference (paired bootstrap), since the best of several epochs looks
    better than it is, and the head learns from the validation samples in the end. With full labels, the
    higher mAP decides.

    Args:
        config: Complete settings with method `auto` and a backbone that is not frozen.
        classes: Class names of the data.
        command: Command that makes the run, for its summary.
        identity: Identity of the run.
        resume: Go on with what the folder holds.
        train: `run_training`, which trains one of the two.
        pictures: Whether a report is drawn afterwards.

    Returns:
        Content of summary.json.

    Raises:
        InputError: More than one device is asked for, or what the folder holds has other class names or is
            damaged; nothing was written.
        SpmlError: A training failed, or a file could not be written.
    """
    if config.devices > 1:
        # Every process would make both runs.
        raise InputError(
            f"method={config.method} model.frozen=no is two runs, which are made on one device only, but "
            f"`devices` is {config.devices}: make the first (model.frozen=yes), then the second from it "
            f"(method={recipes.read('default')['trained']} init_from=RUN model.frozen=no)."
        )
    folder, budget = Path(config.output), Budget(config.minutes)
    if not resume:
        run_files.clear(folder)
        run_files.write_config(folder, config, identity)
    frozen = replace(config.model, frozen="yes", scaling="auto", scores="auto")
    # What says how to train is for the second run.
    defaults = Config()
    head = replace(
        config,
        # Where `spml predict` looks for the features of a head that is kept.
        data=replace(config.data, cache=config.data.cache or str(folder / run_files.FEATURES)),
        model=frozen,
        optim=defaults.optim,
        epochs=defaults.epochs,
        patience=defaults.patience,
        compile=False,
        output=str(folder / HEAD),
    )
    tuned = replace(
        config,
        method=recipes.read("default")["trained"],
        # The size with the largest weight in the frozen run, unless one is stated.
        data=config.data if len(config.data.sizes) == 1 else replace(config.data, size="auto"),
        model=replace(frozen, frozen="no"),
        init_from=str(folder / HEAD),
        output=str(folder / TUNED),
    )
    summaries = {}
    for name, part in ((HEAD, head), (TUNED, tuned)):
        own = folder / name
        if complete := resume and (own / run_files.SUMMARY).is_file():
            check_classes(own, load_model(own)[1]["classes"], classes)
        if not complete:
            log.info(f"{own}:")
            goes_on = resume and run_files.holds_run(own)
            part = replace(part, minutes=budget.minutes_left)
            train(part, resume=goes_on, overwrite=not goes_on)
        summaries[name] = read_summary(own)
    scores = {
        name: float(summary["validation"][summary["selected"]["metric"]])
        for name, summary in summaries.items()
    }
    metric = summaries[HEAD]["selected"]["metric"]
    z = None
    chosen = TUNED if scores[TUNED] > scores[HEAD] else HEAD
    if chosen == TUNED and metric == "val/SP":
        z = _lead(folder, float(summaries[HEAD]["selected"]["mean_labels"]))
        chosen = TUNED if z is None or z > TRUSTED else HEAD
    for name in _KEPT:
        if (folder / chosen / name).is_file():
            with (folder / chosen / name).open("rb") as source:
                write_with(folder / name, partial(shutil.copyfileobj, source))
    # What states a run is that of this one.
    write_held_out(folder, read_held_out(folder / chosen), tuple(classes))
    if (card := folder / chosen / run_files.MODEL[1]).is_file():
        write_checked_json(folder / card.name, {**parse_json(card.read_bytes()), "run": identity})
    candidates = [
        {"run": name, metric: scores[name], "test": summaries[name]["test"], "kept": name == chosen}
        for name in summaries
    ]
    added = {"run": identity, "candidates": candidates, "lead_z": z, "command": command}
    summary = {**summaries[chosen], **added}
    write_checked_json(folder / run_files.SUMMARY, summary)
    told = ", ".join(f"{name} {shown_score(score)}" for name, score in scores.items())
    names = {"val/mAP": "mAP on validation samples", "val/SP": "SP-score on validation samples"}
    lead = "" if z is None else f" (z = {z:.1f}; above {TRUSTED:g} is trusted)"
    last = next_steps(folder, summary, pictures)
    log.info("\n".join([f"{names[metric]}: {told}{lead}; kept: {chosen}", f"{folder}: done", *last]))
    return summary


def _lead(folder: Path, mean_labels: float) -> float | None:
    """Lead of the network over the head in SP-score, in standard deviations of the difference.

    None where there were too many scores to keep, so that no samples can be ranked in every class.
    """
    head, tuned = (read_held_out(folder / name) for name in (HEAD, TUNED))
    if head.compared is not None:
        head = head._replace(scores=head.compared)
    if not (head.scores.complete and tuned.scores.complete):
        return None
    of_head = head.scores_of(tuned.ids)  # it may have scores of training samples, too
    assert of_head is not None
    positives = tuned.labels.entries(1)
    ranks = {
        name: ranks_of(scores, positives)[0] for name, scores in ((HEAD, of_head), (TUNED, tuned.scores))
    }
    compared = compare_ranks(ranks, len(tuned.ids), mean_labels, groups=tuned.groups)
    # JSON knows no infinity.
    return min(next(candidate.z for candidate in compared.candidates if candidate.name == HEAD), 1e6)
