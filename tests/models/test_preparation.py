"""Preparation of images, as its user or a library states it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import timm
import torch
from torchvision import models, transforms

from spml.models.backbones.preparation import (
    DEFAULT,
    Preparation,
    default_preparation,
    read_processor,
    read_transform,
)
from tests.helpers.commands import refusal

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
HALF = [0.5] * 3


def words(preparation: Preparation) -> tuple[Any, ...]:
    return (preparation.size, preparation.mean[0], preparation.std[0], preparation.interpolation)


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (
            {"size": 64, "mean": HALF, "std": [0.25] * 3, "interpolation": "nearest"},
            (64, 0.5, 0.25, "nearest"),
        ),
        ({}, (224, 0.485, 0.229, "bilinear")),
        ({"size": (64, 64), "mean": torch.tensor(HALF)}, (64, 0.5, 0.229, "bilinear")),
        ({"input_size": (3, 96, 96), "crop_pct": 0.875}, (96, 0.485, 0.229, "bilinear")),
        (models.ResNet18_Weights.DEFAULT.transforms(), (224, 0.485, 0.229, "bilinear")),
    ],
)
def test_transforms_are_read(transform: Any, expected: tuple[Any, ...]) -> None:
    assert words(read_transform(transform)) == expected


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        ({"sise": 64}, "unknown setting 'sise'. Did you mean size?"),
        ({"size": "big"}, "size must be a whole number of pixels, got 'big'"),
        ({"size": (64, 32)}, "must be that of a square"),
        ({"size": 0}, "a whole number"),
        ({"mean": [0.5, 0.5]}, "mean must be three numbers, or one for grey images, got"),
        ({"mean": [0.5, "a", 0.5]}, "mean must be three numbers"),
        ({"std": [float("nan")] * 3}, "std must be three numbers"),
        (
            {"interpolation": "box"},
            "interpolation must be one of nearest, bilinear, bicubic, lanczos, got 'box'",
        ),
        (7, "transform: 7 is not read, because what its steps do is not known. State it: transform={"),
        (transforms.Compose([transforms.ToTensor()]), "weights.transforms()), or an image processor"),
    ],
)
def test_what_cannot_be_expressed_is_refused(transform: Any, message: str) -> None:
    assert message in refusal(read_transform, transform)


PROCESSOR = {"image_mean": HALF, "image_std": [0.25] * 3, "resample": 3, "rescale_factor": 1 / 255}


@pytest.mark.parametrize(
    ("processor", "expected"),
    [
        ({**PROCESSOR, "size": {"height": 64, "width": 64}}, (64, 0.5, 0.25, "bicubic")),
        ({**PROCESSOR, "size": {"shortest_edge": 64}}, (64, 0.5, 0.25, "bicubic")),
        (
            {
                **PROCESSOR, "size": {"shortest_edge": 80}, "do_center_crop": True,
                "crop_size": {"height": 64, "width": 64},
            },
            (64, 0.5, 0.25, "bicubic"),
        ),
        ({**PROCESSOR, "size": 64, "do_normalize": False, "resample": 2}, (64, 0.0, 1.0, "bilinear")),
        ({**PROCESSOR, "do_resize": False, "resample": None}, (224, 0.5, 0.25, "bilinear")),
        ({**PROCESSOR, "size": 64, "include_top": True}, (64, 0.5, 0.0625, "bicubic")),
    ],
)  # fmt: skip
def test_image_processors_are_read(processor: Any, expected: tuple[Any, ...]) -> None:
    assert words(read_processor(processor, "preprocessor_config.json")) == expected
    as_object = SimpleNamespace(image_mean=None, to_dict=lambda: processor)
    assert words(read_transform(as_object)) == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"do_rescale": False}, "does not scale pixels to [0, 1]"),
        ({"rescale_factor": 1 / 127.5}, "does not scale pixels to [0, 1]"),
        ({"rescale_factor": "1"}, "does not scale pixels to [0, 1]"),
        ({"do_flip_channel_order": True}, "do_flip_channel_order can't be done here"),
        ({"image_mean": None}, "image_mean must be three numbers"),
        ({"rescale_offset": True}, "does not scale pixels to [0, 1]"),
        ({"resample": 4}, "interpolation must be one of"),
        ({"size": {"height": 64, "width": 32}}, "must be that of a square"),
        ({"size": {"longest_edge": 64}}, "must be a whole number of pixels"),
    ],
)
def test_image_processors_that_do_something_else_are_refused(change: Any, message: str) -> None:
    assert message in refusal(read_processor, {**PROCESSOR, "size": 64, **change}, "preprocessor_config.json")


def test_a_network_states_its_preparation_itself() -> None:
    network = timm.create_model("test_resnet")
    assert words(default_preparation(network)) == (160, 0.5, 0.5, "bilinear")
    stated = SimpleNamespace(default_cfg={"input_size": (3, 32, 32), "interpolation": "random", "mean": MEAN})
    assert words(default_preparation(stated)) == (32, 0.485, 0.229, "bicubic")
    assert words(default_preparation(SimpleNamespace(config=SimpleNamespace(image_size=48)))) == (
        *(48, 0.485, 0.229),
        "bilinear",
    )
    assert default_preparation(torch.nn.Linear(1, 1)) == DEFAULT
    assert (DEFAULT.mean, DEFAULT.std, DEFAULT.size) == (MEAN, STD, 224)
    assert DEFAULT.describe().startswith(
        "images (defaults of spml, as nothing states them): 224 pixels, bilinear"
    )
