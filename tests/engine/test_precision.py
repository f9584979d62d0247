"""Training in bfloat16 is like training in float32, and a frozen backbone computes in it, too."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import spml
from spml.config import DataConfig, from_dict
from spml.data import Dataset, open_dataset
from spml.data.images.feature_store import store_folder
from spml.decisions.selection import Judge
from spml.engine import Trainer
from spml.engine.distributed import make_fabric
from spml.methods.base import Facts
from spml.methods.registry import create
from spml.models.backbones import create_backbone
from spml.models.classifier import Classifier
from spml.models.heads import QuerySettings
from spml.models.spec import BackboneSpec
from spml.models.top import Top

# One of each way from the network to the loss. What others do with the logits, which are float32 in both
# precisions, does not depend on it.
METHODS = (
    "gr",  # the loss of a logit alone
    "role",  # parameters of its own
    "opml_sp",  # a pass over the training samples, and a loss of the whole batch
    "plc",  # a second view, and a memory
    "pumlc",  # mixed images
    "ignore",  # class maps
    "boostlu",  # a head on maps
    "scl",  # regions, and averages of maps in half precision
    "lac",  # queries, and embeddings that are compared with each other
    "mime",  # random codes
    "smile_image",  # distributions
)


@pytest.fixture(scope="module")
def digits() -> Dataset:
    """Scenes of digits with one label each."""
    return open_dataset(DataConfig(path="digits", observe="single", sample_rows=100, flip=False))


def trained(method: str, data: Dataset, precision: str) -> tuple[list[float], float]:
    """Loss of the training samples in each of two epochs, and validation mAP after them."""
    optim = {"name": "adam", "lr": 2e-3}
    config = from_dict(
        {"method": method, "epochs": 2, "batch_size": 16, "precision": precision, "optim": optim}
    )
    train, val = data.splits["train"], data.splits["val"]
    torch.manual_seed(0)
    objective = create(method)
    objective.on_fit_start(Facts(train.observed, train.ids, data.classes, 2.0))
    size = train.inputs.fetch([0], None).shape[-1]
    backbone = create_backbone(
        BackboneSpec("small_cnn", size=size, mean=(0.5,), std=(0.5,), weights="random")
    )
    queries = QuerySettings(embedding=objective.needs.embedding)
    top = Top(backbone.num_features, len(data.classes), head=objective.card.head, queries=queries)
    fabric = make_fabric("cpu", 1, precision)
    judge = Judge(val, data.truth["val"], "oracle", 2.0)
    trainer = Trainer(config, fabric, Classifier(backbone, top), top.head, objective, data, judge)
    history = trainer.fit().history
    return [float(epoch["train/loss"]) for epoch in history], float(history[-1]["val/mAP"])


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_training_in_bfloat16_is_like_training_in_float32(method: str, digits: Dataset) -> None:
    (losses, score), (half_losses, half_score) = (
        trained(method, digits, precision) for precision in ("32-true", "bf16-mixed")
    )
    assert half_losses != losses  # bfloat16 was used at all
    assert half_losses[0] == pytest.approx(losses[0], rel=0.03)
    assert half_score == pytest.approx(score, abs=0.06)


def test_features_of_a_frozen_backbone_have_the_precision_of_the_run(tmp_path: Path) -> None:
    run = spml.train(
        "digits",
        method="an",
        epochs=1,
        data={"observe": "single", "sample_rows": 60},
        model={"backbone": "small_cnn", "frozen": "yes"},
        precision="bf16-mixed",
        output=str(tmp_path / "run"),
        quiet=True,
    )
    key = f"{run.classifier.backbone.key()} bf16-mixed"
    features = run.folder / "features"
    assert [path.name for path in features.iterdir() if path.is_dir()] == [store_folder(features, key).name]
