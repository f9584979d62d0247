"""Further views: what they change, how much, and what they depend on."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
import scipy.sparse
import torch
from PIL import Image
from torchvision.transforms import v2

from spml.data import Augment, Samples
from spml.data.images import views as module
from spml.data.images.image_files import ImageFiles, check_images
from spml.data.images.views import cut_out, feature_views, image_views, partners, shifted
from spml.data.matrix import FeatureMatrix, ImageArray
from spml.data.readers.digits import make_digits
from spml.engine.loader import EpochBatches, make_loader
from spml.labels import ObservedLabels

WEAK, STRONG = Augment(3, 5, 1, "weak"), Augment(3, 5, 1, "strong")
BOTH = pytest.mark.parametrize("augment", [WEAK, STRONG], ids=["weak", "strong"])


def noise(count: int, channels: int = 1, height: int = 24, width: int = 24) -> np.ndarray:
    """Noise images, in which no two regions are alike."""
    return np.random.default_rng(7).integers(0, 256, (count, channels, height, width), np.uint8)


def table(count: int = 50, width: int = 40, zeros: float = 0.3) -> np.ndarray:
    """Features with distinct values, except for the zeros."""
    rng = np.random.default_rng(8)
    return np.where(rng.random((count, width)) < zeros, 0, rng.normal(size=(count, width))).astype(np.float32)


@pytest.fixture(params=["grey", "colour", "files", "dense", "csr", "memmap"])
def inputs(request, picture, tmp_path):
    """Twelve samples of each kind of inputs."""
    if request.param == "grey":
        return ImageArray(noise(12))
    if request.param == "colour":
        return ImageArray(noise(12, 3))
    if request.param == "files":
        return opened([picture(f"{row}.png") for row in range(12)])
    dense = table(12)
    if request.param == "csr":
        return FeatureMatrix(scipy.sparse.csr_matrix(dense))
    if request.param == "memmap":
        mapped = np.memmap(tmp_path / "x.bin", np.float32, "w+", shape=dense.shape)
        mapped[:] = dense
        return FeatureMatrix(mapped)
    return FeatureMatrix(dense)


def opened(paths, size=24, **settings) -> ImageFiles:
    return ImageFiles(
        paths, check_images(paths, max_pixels=10**6)[0], size=size, **{"flip": True, **settings}
    )


# -- what views depend on --------------------------------------------------------------------------------


@BOTH
def test_views_depend_on_seed_epoch_row_and_view_only(inputs, augment):
    everything = list(range(12))
    views = inputs.fetch(everything, augment)
    plain = inputs.fetch(everything)
    assert views.shape == plain.shape
    assert views.dtype == plain.dtype
    assert inputs.fetch(everything, augment).equal(views)
    assert inputs.fetch(everything[::-1], augment).equal(views.flip(0))
    assert inputs.fetch([7], augment).equal(views[7:8])
    assert inputs.fetch(np.array([7, 2, 7]), augment).equal(views[[7, 2, 7]])
    assert all(not view.equal(original) for view, original in zip(views, plain, strict=True))
    for other in (augment._replace(seed=4), augment._replace(epoch=6), augment._replace(view=2)):
        different = inputs.fetch(everything, other)
        assert sum(not a.equal(b) for a, b in zip(views, different, strict=True)) > 9


@BOTH
def test_equal_samples_in_different_rows_change_differently(augment):
    views = ImageArray(np.repeat(noise(1), 12, axis=0)).fetch(range(12), augment)
    assert len(views.flatten(1).unique(dim=0)) > 9


def test_strengths_differ(inputs):
    assert not inputs.fetch(range(12), WEAK).equal(inputs.fetch(range(12), STRONG))


def test_the_ordinary_view_is_not_augmented(inputs):
    """It does not depend on the strength, and only image files are mirrored."""
    everything, plain = range(12), inputs.fetch(range(12))
    ordinary = inputs.fetch(everything, Augment(3, 5))
    assert inputs.fetch(everything, Augment(3, 5, 0, "strong")).equal(ordinary)
    if isinstance(inputs, ImageFiles):
        mirrored = [got.equal(was.flip(-1)) for got, was in zip(ordinary, plain, strict=True)]
        unchanged = [got.equal(was) for got, was in zip(ordinary, plain, strict=True)]
        assert mirrored == [not same for same in unchanged]
        assert 0 < sum(mirrored) < 12
    else:
        assert ordinary.equal(plain)


@BOTH
def test_global_random_states_are_not_changed(inputs, augment, monkeypatch):
    # Seeding through torch.manual_seed would reach the accelerators too.
    monkeypatch.setattr(torch, "manual_seed", None)
    monkeypatch.setattr(torch.cuda, "manual_seed_all", None)
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    first = inputs.fetch(range(12), augment)
    assert torch.get_rng_state().equal(states[0])
    assert (np.random.get_state()[1] == states[1]).all()
    assert random.getstate() == states[2]
    torch.rand(5), np.random.random(5), random.random()
    assert inputs.fetch(range(12), augment).equal(first)


def test_random_state_is_restored_after_an_error(monkeypatch):
    def fail(pixels):
        torch.rand(1)
        raise OSError

    monkeypatch.setattr(v2, "RandAugment", lambda **options: fail)
    state = torch.get_rng_state()
    with pytest.raises(OSError):  # noqa: PT011
        image_views(noise(1), [0], STRONG, flip=False)
    assert torch.get_rng_state().equal(state)


def test_worker_processes_make_the_same_views(picture):
    paths = [picture(f"{row}.png") for row in range(6)]
    observed = ObservedLabels.from_index(np.arange(6), 6)
    samples = Samples(tuple(map(str, range(6))), opened(paths, decoder="torchvision"), observed)

    def load(workers):
        batches = EpochBatches(6, 4, seed=1)
        return list(make_loader(samples, batches, 9, workers, False, views=("weak", "strong")))

    for without, with_worker in zip(load(0), load(1), strict=True):
        assert without[0].equal(with_worker[0])
        assert all(a.equal(b) for a, b in zip(without[1], with_worker[1], strict=True))
        assert not without[1][0].equal(without[1][1])


# -- images ----------------------------------------------------------------------------------------------


def test_shifted_moves_the_content_and_repeats_edges():
    pixels = np.arange(12, dtype=np.uint8).reshape(1, 3, 4)
    assert shifted(pixels, 1, -2).tolist() == [[[2, 3, 3, 3], [2, 3, 3, 3], [6, 7, 7, 7]]]
    assert shifted(pixels, -1, 1).tolist() == [[[4, 4, 5, 6], [8, 8, 9, 10], [8, 8, 9, 10]]]
    assert shifted(pixels, 0, 0).tolist() == pixels.tolist()


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("flip", [False, True])
def test_weak_views_are_flips_and_shifts(channels, flip):
    count, height, width = 600, 16, 25
    pixels = noise(count, channels, height, width)
    views = image_views(pixels, range(count), WEAK, flip=flip)
    flat = pixels.reshape(-1, height, width)  # so that all are shifted at once
    changes = [*itertools.product((False, True), range(-2, 3), range(-3, 4))]
    matches = [
        (shifted(flat[..., ::-1] if mirror else flat, *shift).reshape(views.shape) == views).all((1, 2, 3))
        for mirror, *shift in changes
    ]
    assert (np.sum(matches, axis=0) == 1).all()
    mirrored, down, right = np.array(changes)[np.argmax(matches, axis=0)].T
    # Four standard deviations around the expected counts of 300, 120 and 86.
    assert (abs(mirrored.sum() - 300) < 49) if flip else not mirrored.any()
    assert all(abs((down == moved).sum() - 120) < 40 for moved in range(-2, 3))
    assert all(abs((right == moved).sum() - 600 / 7) < 35 for moved in range(-3, 4))
    assert abs(np.corrcoef(down, right)[0, 1]) < 0.17


def test_cut_out_is_a_grey_square_of_half_the_side():
    pixels = np.zeros((3, 10, 14), np.uint8)
    covered = cut_out(pixels, 5, 6)
    assert covered.sum() == 127 * 3 * 5 * 5
    assert (covered[:, 3:8, 4:9] == 127).all()
    assert not pixels.any()
    assert (cut_out(pixels, 0, 0)[0] == 127).sum() == 3 * 3
    assert (cut_out(pixels, 9, 13)[0] == 127).sum() == 3 * 3
    assert (cut_out(pixels, 0, 6)[0, :3, 4:9] == 127).all()


@pytest.mark.parametrize("channels", [1, 3])
def test_strong_views_are_flip_rand_augment_and_cutout(channels, monkeypatch):
    monkeypatch.setattr(v2, "RandAugment", lambda **options: lambda image: image)
    count, side = 400, 16
    pixels = noise(count, channels, side, side) // 3  # darker than the square
    views = image_views(pixels, range(count), STRONG, flip=True)
    weak = image_views(pixels, range(count), WEAK, flip=True)
    squares, mirrored = set(), 0
    for was, light, got in zip(pixels, weak, views, strict=True):
        covered = (got == 127).all(0)
        down, across = np.flatnonzero(covered.any(1)), np.flatnonzero(covered.any(0))
        assert covered[down[0] : down[-1] + 1, across[0] : across[-1] + 1].all()
        assert 4 <= len(down) <= 8
        assert 4 <= len(across) <= 8
        squares.add((down[0], down[-1], across[0], across[-1]))
        mirror = (got == was[:, :, ::-1])[:, ~covered].all()
        assert mirror or (got == was)[:, ~covered].all()
        mirrored += mirror
        shifts = [(down, right) for down in range(-2, 3) for right in range(-2, 3)]
        base = was[:, :, ::-1] if mirror else was
        assert any((shifted(base, *moved) == light).all() for moved in shifts)  # the flip of the weak view
    assert abs(mirrored - 200) < 40
    assert len(squares) > 180  # of 256


def test_strong_views_are_rand_augments(monkeypatch):
    """The operations of torchvision with the same seed; each of them occurs."""
    used, apply = set(), v2.RandAugment._apply_image_or_video_transform
    monkeypatch.setattr(
        v2.RandAugment, "_apply_image_or_video_transform",
        lambda self, image, name, *rest, **named: used.add(name) or apply(self, image, name, *rest, **named),
    )  # fmt: skip
    monkeypatch.setattr(module, "cut_out", lambda pixels, y, x: pixels)
    for channels in (1, 3):
        used.clear()
        pixels = noise(200, channels, 16, 16)
        views = image_views(pixels, range(200), STRONG, flip=False)
        assert used == set(v2.RandAugment._AUGMENTATION_SPACE)
        unchanged = (views == pixels).all((1, 2, 3)).mean()
        assert unchanged < (0.1 if channels == 1 else 0.05)  # a grey image has no colour to change
        for row in (0, 57):
            seed = int(module.raw(4, "view", 3, 5, row, 1)[1])
            image = pixels[row, 0] if channels == 1 else pixels[row].transpose(1, 2, 0)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                expected = np.asarray(v2.RandAugment(2, 9)(Image.fromarray(image)))
            assert (views[row].transpose(1, 2, 0).squeeze() == expected).all()


@pytest.mark.parametrize("name", sorted(v2.RandAugment._AUGMENTATION_SPACE))
def test_every_operation_accepts_grey_images(name, monkeypatch):
    """The result is that of three equal channels, up to rounding of their weighted mean."""
    monkeypatch.setattr(
        v2.RandAugment, "_AUGMENTATION_SPACE", {name: v2.RandAugment._AUGMENTATION_SPACE[name]}
    )
    monkeypatch.setattr(module, "cut_out", lambda pixels, y, x: pixels)
    pixels = np.repeat(noise(1, 1, 32, 32) // 2 + 60, 5, axis=0)
    grey = image_views(pixels, range(5), STRONG, flip=False)
    colour = image_views(np.repeat(pixels, 3, axis=1), range(5), STRONG, flip=False)
    assert (abs(colour.astype(int) - grey) <= 1).all()
    changed = (grey != pixels).mean((1, 2, 3))  # the two operations may cancel each other
    assert (changed.max() > 0.05) == (name not in ("Identity", "Color"))


def test_digits_are_not_mirrored():
    inputs = make_digits(30, 1, 1).inputs
    plain = inputs.fetch(range(30)).numpy()
    moves = [(down, right) for down in range(-5, 6) for right in range(-5, 6)]
    for was, got in zip(plain, inputs.fetch(range(30), WEAK).numpy(), strict=True):
        assert any((shifted(was, *moved) == got).all() for moved in moves)


def test_flip_of_files_is_a_setting(picture):
    paths = [picture(f"{row}.png") for row in range(12)]
    for flip in (False, True):
        files = opened(paths, flip=flip)
        expected = image_views(files.fetch(range(12)).numpy(), range(12), WEAK, flip=flip)
        assert files.fetch(range(12), WEAK).numpy().tolist() == expected.tolist()


# -- features --------------------------------------------------------------------------------------------


@BOTH
def test_features_are_those_of_the_sample_or_its_partner(augment):
    count, width = 400, 500
    dense = table(count, width, zeros=0)
    rows = np.arange(count)
    other = partners(rows, count, augment)
    views = FeatureMatrix(dense).fetch(rows, augment).numpy()
    assert (feature_views(dense, dense[other], rows, augment) == views).all()
    assert (dense == table(count, width, zeros=0)).all()  # the input is not modified
    replaced = views != dense
    assert (views[replaced] == dense[other][replaced]).all()
    share = {"weak": 0.1, "strong": 0.4}[augment.strength]
    deviation = np.sqrt(share * (1 - share))
    assert abs(replaced.mean() - share) < 4 * deviation / np.sqrt(count * width)
    assert (abs(replaced.mean(1) - share) < 4.5 * deviation / np.sqrt(width)).all()  # per sample
    assert (abs(replaced.mean(0) - share) < 4.5 * deviation / np.sqrt(count)).all()  # and per feature


def test_views_of_features_are_pinned():
    """These values must never change: runs depend on them. They were computed with Python integers."""
    other = np.arange(1, 13, dtype=np.float32).reshape(2, 6)
    views = feature_views(other * 0, other, [0, 70_000], STRONG)
    assert views.tolist() == [[0, 0, 3, 0, 0, 0], [7, 8, 9, 10, 11, 0]]
    assert partners([0, 70_000, 5], 80_000, WEAK).tolist() == [78_224, 12_617, 76_014]


def test_strong_views_replace_the_features_of_weak_ones_and_more():
    dense = table(20, 100, zeros=0)
    weak, strong = (FeatureMatrix(dense).fetch(range(20), augment).numpy() for augment in (WEAK, STRONG))
    assert (strong[weak != dense] == weak[weak != dense]).all()


def test_partners_are_other_rows_each_equally_likely():
    drawn = np.concatenate([partners([4], 6, WEAK._replace(epoch=epoch)) for epoch in range(3000)])
    counts = np.bincount(drawn, minlength=6)
    assert counts[4] == 0
    assert all(abs(counts[row] - 600) < 100 for row in (0, 1, 2, 3, 5))
    all_partners = partners(range(500), 500, WEAK)
    assert (all_partners != np.arange(500)).all()
    assert 0 <= all_partners.min() <= all_partners.max() < 500
    assert len(set(all_partners)) > 280  # 1 - 1 / e of them is expected
    assert partners([0], 1, WEAK).tolist() == [0]
    assert partners([0, 1], 2, WEAK).tolist() == [1, 0]


@BOTH
def test_sparse_and_mapped_features_equal_dense_ones(augment, tmp_path):
    dense = table()
    mapped = np.memmap(tmp_path / "x.bin", np.float32, "w+", shape=dense.shape)
    mapped[:] = dense
    expected = FeatureMatrix(dense).fetch([3, 49, 3, 0], augment)
    for matrix in (scipy.sparse.csr_matrix(dense), mapped):
        assert FeatureMatrix(matrix).fetch([3, 49, 3, 0], augment).equal(expected)


def test_partners_come_from_the_same_split():
    dense = np.repeat(np.arange(40, dtype=np.float32)[:, None], 30, axis=1)
    part = FeatureMatrix(dense).take(range(10, 20))
    values = set(part.fetch(range(10), STRONG).numpy().ravel().tolist())
    assert values == set(range(10, 20))


def test_one_sample_and_no_sample():
    one = FeatureMatrix(table(1))
    assert one.fetch([0], STRONG).equal(one.fetch([0]))
    assert one.fetch([], STRONG).shape == (0, 40)
    assert feature_views(table(1)[:0], table(1)[:0], [], STRONG).shape == (0, 40)
    assert ImageArray(noise(2)).fetch([], STRONG).shape == (0, 1, 24, 24)
