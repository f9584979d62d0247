"""Damaged image files have a reason, in bounded memory and time."""

from __future__ import annotations

import io

import pytest
from hypothesis import strategies as st
from PIL import Image

from spml.data.images.image_files import check_images
from tests.data.hostile.fuzzing import bounded, changes, damage, fuzz

SUFFIXES = ["jpeg", "png", "webp", "gif", "tiff", "bmp"]


@pytest.mark.filterwarnings("ignore")
@fuzz(some_read=False, suffix=st.sampled_from(SUFFIXES), changes=changes)
def test_damaged_images_have_a_reason(folder, suffix, changes):
    stream = io.BytesIO()
    Image.effect_noise((16, 16), 50).convert("RGB").save(stream, format=suffix)
    path = folder / "image"
    path.write_bytes(damage(stream.getvalue(), changes))
    with bounded():
        digests, reasons = check_images([path], max_pixels=10**6)
    assert bool(digests[0]) != bool(reasons)
    assert all(reason and "\n" not in reason for reason in reasons.values())
