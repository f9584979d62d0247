"""The commands `spml audit sample` and `spml audit use`. Heavy modules are imported when one runs."""

from __future__ import annotations

import shlex
from pathlib import Path

from ..common.errors import InputError
from ..config import DataConfig
from .arguments import DataSettings
from .shared import Network, Prediction, Tables, runs_and_data


def audit_sample(
    runs: list[str],
    *,
    data: DataSettings,
    network: Network,
    tables: Tables,
    rows: int = 100,
    seed: int = 0,
    mean_labels: float | None = None,
    output: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Draw random samples to label in full, write a table for their labels, and say what they would tell: the
    mean labels per sample K, mAP, and which of several models is better. Images are neither copied nor
    linked.

    Args:
        runs: Folder of a run, or of several to compare, and after them, optionally, the data to draw from;
            default: all samples that the runs have held-out scores of.
        data: Settings of the data.
        network: Network of the user's own.
        tables: How names are written.
        rows: Number of samples to label in full.
        seed: Seed of the draw.
        mean_labels: Mean labels per sample K, for what the samples would tell; default: that of the first
            run.
        output: Table to write (CSV); default: sample.csv in the folder of the first run.
        overwrite: Replace the table if it exists.
    """
    from ..audit.sheets import check_sheet
    from ..common.phrases import counted
    from ..runs.api import load_each
    from ..runs.audits.sample import sample_for_audit
    from .audit_text import worth

    folders, config = runs_and_data(runs, data)
    if not config.path and config != DataConfig():
        raise InputError("--data options say how data is read: name the data after the runs.")
    sheet = output or Path(folders[0]) / "sample.csv"
    loaded = dict(zip(folders, load_each(folders), strict=True))
    check_sheet(sheet, overwrite=overwrite)
    sample = sample_for_audit(
        loaded,
        config if config.path else None,
        rows=rows,
        seed=seed,
        mean_labels=mean_labels,
    )
    files = sample.write(sheet)
    print(
        f"{sheet}: {counted(len(sample.ids), 'sample')}, drawn at random (seed {sample.seed}) from "
        f"{counted(sample.available, 'sample')} with held-out scores. Names are those in "
        f"{sample.data['path'] if sample.data else 'the training data'}."
    )
    if sample.groups:
        print(
            f"They are of {counted(sample.groups, 'group')}. Each was drawn by itself, not with its group, "
            "so K and shares are those of the samples that they were drawn from; models are compared by "
            "draws of groups."
        )
    print(
        f"Label them on a page: spml review {shlex.quote(str(sheet))}. Or write ALL labels of each row into "
        "`labels`, with | between them, and then yes into `complete`. "
        f"The names of the {counted(len(sample.classes), 'class', 'classes')} are in {files.classes}."
    )
    for line in worth(sample):
        print(line)
    print(f"Afterwards: spml audit use {shlex.join([str(sheet), *folders])}")


def audit_use(
    file: str,
    runs: list[str],
    *,
    prediction: Prediction,
    target: str = "",
    per_class: bool = False,
    images: str | None = None,
    draws: int = 200,
    seed: int = 0,
) -> None:
    """Learn from samples that people labelled in full: the mean labels per sample K, the shares of the
    classes, thresholds and probabilities of each run, and which of several runs is best. Writes
    thresholds.json, thresholds.png and audited.json into the folder of each run.

    Args:
        file: Table that `spml audit sample` wrote and people filled in, or labelled with `spml review`.
        runs: Folder of a run, or of several to compare.
        prediction: How scores are computed.
        target: What thresholds aim at, as for `spml thresholds`; default: as in the run.
        per_class: Reach the target in each class.
        images: Folder that file names are relative to, for samples that a run has no held-out scores of;
            default: the folder of the table.
        draws: Number of bootstrap draws, at least 50.
        seed: Seed of the bootstrap draws.
    """
    from ..decisions import read_target
    from ..metrics import MIN_DRAWS
    from ..review.labelling import write_page_labels
    from ..runs.api import load_each
    from ..runs.audits.use import use_audit
    from ..runs.settle.conflicts import first_training
    from .audit_text import learned

    if draws < MIN_DRAWS:
        raise InputError(f"--draws must be at least {MIN_DRAWS}, got {draws}")
    if per_class and not target:
        raise InputError("--per_class belongs to --target: pass both.")
    aim = read_target(target, per_class=per_class) if target else None
    table, remarks = write_page_labels(Path(file))
    for remark in remarks:
        print(remark)
    models = dict(zip(runs, load_each(runs), strict=True))
    if len(runs) == 1 and (config := models[runs[0]].config) and config.data.classes:
        print(
            f"{table}: written. {runs[0]} was made from names of classes alone, so there is nothing to "
            f"estimate yet.\nnext: {first_training(config, str(table))}"
        )
        return
    engine = prediction.engine()
    used = use_audit(
        table,
        models,
        images=images,
        target=aim,
        draws=draws,
        seed=seed,
        engine=engine,
    )
    used.write(models, engine)
    for line in learned(used):
        print(line)
    for name, policy in used.thresholds.items():
        print(
            f"{name}: thresholds.json, thresholds.png and audited.json written ({policy.target.describe()})"
        )
