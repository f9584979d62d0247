"""All targets by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tests.hostile.fuzz import data_targets, prediction_targets, review_targets, run_targets, table_targets
from tests.hostile.fuzz.judge import Target

GROUPS: dict[Callable[[Path], list[Target]], str] = {
    data_targets.tables: "csv tsv parquet files-to-predict",
    table_targets.cell_targets: "cells marks jsonl",
    data_targets.documents: "coco labelstudio coco-folder manifest",
    data_targets.feature_targets: "npz npz-labels arff arff-labels",
    data_targets.folders: "voc-list voc huggingface-dataset_info huggingface-state huggingface-data folders",
    data_targets.image_targets: "images images-in-training",
    run_targets.models: "model-card model-weights",
    run_targets.image_models: "images-card images-weights",
    run_targets.decisions: "thresholds summary held-out audit-answers",
    run_targets.training: "metrics config recorded-samples recorded-scores inferred-state checkpoint resume",
    run_targets.settings: "train-config train-settings beside-weights",
    prediction_targets.predictions: "predictions-csv predictions-parquet "
    "journal features-index features-rows",
    review_targets.audits: "audit-audit-json audit-missing-csv audit-wrong-csv audit-classes-csv "
    "rows-to-show review-answers review-database",
    review_targets.requests: "http http-body",
    review_targets.comparisons: "spec store-body store-packed store",
}
"""Functions that make targets in a folder of their own, and the names of these."""

DATA = (
    data_targets.tables,
    data_targets.documents,
    data_targets.feature_targets,
    data_targets.folders,
    data_targets.image_targets,
)
"""Those of the formats of data."""

NAMES = tuple(name for names in GROUPS.values() for name in names.split())


def make_targets(folder: Path, names: Sequence[str] = NAMES) -> list[Target]:
    """Make targets by their names.

    Args:
        folder: Empty folder for the files that they need; it must stay.
        names: Names of the targets, whose order is that of `NAMES`.
    """
    targets = []
    for make, all_names in GROUPS.items():
        if {*names} & {*all_names.split()}:
            targets += make(folder / make.__name__)
    return [target for target in targets if target.name in names]
