"""Windows of feature maps, their scores, and how they are weighed, against slow loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from spml.common.errors import InputError
from spml.models import LOG_SOFTMAX, Classifier, Top, Windows, crops, fit_local, windows_of
from spml.models.local import LocalScores, LocalSettings
from tests.helpers.networks import images_for, random_backbone


@pytest.mark.parametrize(
    ("side", "sides", "step"),
    [
        (2, [1], 1),
        (3, [1, 2], 1),
        (7, [1, 2, 3, 4, 5], 1),
        (9, [1, 2, 3, 4, 5, 7], 1),
        (14, [2, 4, 6, 8, 10], 2),
    ],
)
def test_windows_of_a_map(side, sides, step):
    assert Windows.of_map(side, side) == Windows(side, side, sides, step)


def slow_windows(maps: Tensor, side: int, step: int) -> list[Tensor]:
    """Every window (B, D, side, side), row by row."""
    height, width = maps.shape[2:]
    rows, columns = range(0, height - side + 1, step), range(0, width - side + 1, step)
    return [maps[:, :, row : row + side, column : column + side] for row in rows for column in columns]


@pytest.mark.parametrize("name", ["mobilenetv2_100", "test_convnext"])
@pytest.mark.parametrize("step", [1, 2])
def test_a_window_is_pooled_like_an_image(name, step):
    backbone = random_backbone(name, 224 if name == "mobilenetv2_100" else 160)
    with torch.no_grad():
        images = images_for(backbone, 2)
        maps = backbone.maps(images)
        windows = Windows(*maps.shape[2:], [step, 2 * step], step)
        whole, parts = windows.features(backbone, images)
        torch.testing.assert_close(whole, backbone(images))
        for side, found in zip(windows.sides, parts, strict=True):
            expected = torch.stack([backbone.pool(each) for each in slow_windows(maps, side, step)], 1)
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


@pytest.mark.parametrize("scores", ["logits", LOG_SOFTMAX])
def test_scores_of_windows_equal_slow_ones(scores):
    torch.manual_seed(0)
    backbone = random_backbone("mobilenetv2_100", 160)
    windows = Windows.of_map(5, 5)
    local = LocalSettings(windows, [0.1, 0.2, *[0.1] * (len(windows.sides) - 1), 0.4])
    top = Top(1280, 3, scores=scores, scaling="sqrtl2", local=local)
    assert top.local is not None
    for buffer in (top.local.centre, top.local.spread, top.local.offset, top.local.scale):
        buffer.copy_(torch.rand(buffer.shape) + 0.5)
    model = Classifier(backbone, top, frozen=True).eval()
    images = images_for(backbone, 2)
    with torch.no_grad():
        found = model(images)
        maps, log = backbone.maps(images), nn.functional.logsigmoid
        if scores == LOG_SOFTMAX:
            log = lambda logits: torch.log_softmax(logits, 1)  # noqa: E731

        def of_features(features: Tensor) -> Tensor:
            return log(top.head(top.scaling(features)))

        whole = of_features(backbone.pool(maps))
        best = [
            torch.stack([of_features(backbone.pool(each)) for each in slow_windows(maps, side, 1)]).amax(0)
            for side in windows.sides
        ]
        variants = [whole, *best, sum(best) / len(best)]
        expected = top.local.offset.clone()
        for weight, centre, spread, each in zip(
            local.weights, top.local.centre, top.local.spread, variants, strict=True
        ):
            expected = expected + top.local.scale * weight * (each - centre) / spread
    torch.testing.assert_close(found.logits.double(), expected.double(), rtol=1e-4, atol=1e-4)
    assert found.features.shape == (2, 1280)
    assert top.scale == "sigmoid"


def test_many_windows_are_scored_in_parts(monkeypatch):
    torch.manual_seed(0)
    top = Top(4, 3)
    features, windows = torch.randn(5, 4), [torch.randn(5, 6, 4), torch.randn(5, 2, 4)]
    whole = top.variants(features, windows)
    monkeypatch.setattr("spml.models.top._WINDOW_SCORES", 40)
    torch.testing.assert_close(top.variants(features, windows), whole)


def test_places_of_windows():
    windows = Windows(6, 8, [2, 4], 2)
    assert windows.counts == [12, 6]
    places = windows.places()
    assert places.shape == (18, 4)
    np.testing.assert_allclose(places[0], (0, 0, 0.25, 1 / 3))
    np.testing.assert_allclose(places[5], (0.25, 1 / 3, 0.25, 1 / 3))
    np.testing.assert_allclose(places[12 + 5], (0.5, 1 / 3, 0.5, 2 / 3), rtol=1e-6)


def test_the_window_that_speaks_most_for_a_class():
    """Of the best windows of each size, the one that is most deviations above its mean."""
    local = LocalScores(2, LocalSettings(Windows(3, 3, [1, 2]), [0.5, 0.3, 0.2, 0.0]))
    local.centre.copy_(torch.tensor([[0.0, 0], [5, 0], [0, 0], [0, 0]]))
    local.spread.copy_(torch.tensor([[1.0, 1], [1, 1], [1, 4], [1, 1]]))
    scores = torch.tensor([[[9.0, 9]], [[6, 1]], [[2, 2]], [[9, 9]]])
    numbers = [torch.tensor([[7, 8]]), torch.tensor([[3, 1]])]
    assert local.strongest(scores, numbers).tolist() == [[9 + 3, 8]]
    settings = LocalSettings(Windows(3, 3, [1, 2]), [0.5, 0.5, 0.0, 0.0])
    unused = LocalScores(2, settings)
    assert unused.strongest(scores, numbers).tolist() == [[7, 8]]
    small = LocalScores(2, LocalSettings(Windows(3, 3, [1, 2]), [0.2, 0.3, 0.0, 0.5]))
    assert small.strongest(scores, numbers).tolist() == [[7, 8]]
    mean_alone = LocalScores(2, LocalSettings(Windows(3, 3, [1, 2]), [0.5, 0.0, 0.0, 0.5]))
    assert mean_alone.strongest(scores, numbers).tolist() == [[7, 9 + 1]]


def make_variants(quality):
    """Held-out scores (V, 200, 2) of variants whose positives are so many deviations ahead, and labels."""
    generator = np.random.default_rng(0)
    known = np.eye(2, dtype=bool)[generator.integers(0, 2, 200)]
    scores = [generator.normal(size=known.shape) + each * known for each in quality]
    return torch.from_numpy(np.stack(scores).astype(np.float32)), torch.from_numpy(known)


def test_the_mean_of_the_sizes_is_what_is_scored():
    variants, known = make_variants([0, 3, 1, 2])
    given = iter([0.5, 0.9, 0.6, 0.89])
    windows = Windows(3, 3, [1, 2])
    found, tried, _ = fit_local(variants, known, windows, lambda scores: next(given), mean_labels=1.0)
    assert tried == {
        "whole image": 0.5,
        "windows of 1": 0.9,
        "windows of 2": 0.6,
        "mean of the sizes": 0.89,
    }
    assert found is not None
    assert found.settings.weights == [0, 0, 0, 1]
    logits = found(variants)
    assert float(logits.sigmoid().sum(1).mean()) == pytest.approx(1.0, abs=1e-3)
    spread, centre = torch.std_mean(variants.double(), 1, correction=0)
    standardised = ((variants - centre[:, None]) / spread[:, None]).numpy()
    total = sum(weight * each for weight, each in zip(found.settings.weights, standardised, strict=True))
    for column in range(2):
        slope, intercept = np.polyfit(total[:, column], logits[:, column].numpy(), 1)
        assert slope > 0
        np.testing.assert_allclose(slope * total[:, column] + intercept, logits[:, column], atol=1e-4)


def test_windows_are_left_out_where_the_whole_image_scores_clearly_better():
    variants, known = make_variants([3, 0, 0])

    def fit(values, **options):
        given = iter(values)
        return fit_local(
            variants, known, Windows(2, 2, [1]), lambda scores: next(given), mean_labels=1.0, **options
        )[0]

    assert fit([0.9, 0.86, 0.2]) is None  # exp(-.04 / .027) = .23
    near = fit([0.9, 0.2, 0.89])  # exp(-.01 / .027) = .69
    required = fit([0.9, 0.86, 0.2], required=True)
    for scores in (near, required):
        assert scores is not None
        assert scores.settings.weights == [0.5, 0, 0.5]  # as windows of 1 are a quarter of the image


def test_networks_without_windows_are_refused():
    assert windows_of(random_backbone("mobilenetv2_100", 160)) == Windows.of_map(5, 5)
    with pytest.raises(InputError, match="maps of 1 x 1 positions, which have no windows"):
        windows_of(random_backbone("mobilenetv2_100", 32))
    with pytest.raises(InputError, match="are not the mean of its map"):
        windows_of(random_backbone("small_cnn", 40))
    with pytest.raises(InputError, match="has no feature map"):
        windows_of(random_backbone("test_vit", 160))


def test_crops_are_parts_of_the_image_as_images():
    backbone = random_backbone("test_vit", 96)
    images = images_for(backbone, 2)
    windows = crops()
    assert windows.counts == [4, 9]
    assert windows.places()[[1, 4 + 5]] == pytest.approx(
        np.array([[0.5, 0, 0.5, 0.5], [2 / 3, 1 / 3, 1 / 3, 1 / 3]])
    )
    with torch.no_grad():
        whole, parts = windows.features(backbone, images)
        torch.testing.assert_close(whole, backbone(images))
        for grid, found in zip((2, 3), parts, strict=True):
            side = 96 // grid
            for number in range(grid**2):
                row, column = divmod(number, grid)
                crop = images[:, :, row * side : (row + 1) * side, column * side : (column + 1) * side]
                large = nn.functional.interpolate(crop.float(), (96, 96), mode="bilinear")
                expected = backbone(large)
                torch.testing.assert_close(
                    found[:, number], expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max())
                )


@pytest.mark.parametrize("name", ["test_vit2", "test_vit_relpos", "swin_tiny_patch4_window7_224"])
def test_tokens_and_maps_with_channels_last_are_maps(name):
    backbone = random_backbone(name, 224 if name.startswith("swin") else 160)
    images = images_for(backbone, 2)
    with torch.no_grad():
        maps = backbone.maps(images)
        assert maps.shape == (2, backbone.num_features, *maps.shape[2:])
        torch.testing.assert_close(backbone.pool(maps), backbone(images), rtol=0, atol=0)
        inner = backbone.network.forward_features(backbone._normalised(images))
        if name.startswith("swin"):
            torch.testing.assert_close(maps, inner.permute(0, 3, 1, 2))
        else:
            torch.testing.assert_close(maps[:, :, 1, 2], inner[:, -100:][:, 12])  # row 1, column 2 of 10 x 10
    assert windows_of(backbone) == Windows.of_map(*maps.shape[2:])


def test_windows_that_do_not_fit_are_refused():
    backbone = random_backbone("test_convnext", 96)
    with pytest.raises(InputError, match=r"windows of maps of 4 x 4 positions.*have 3 x 3"):
        Windows(4, 4, [1]).features(backbone, images_for(backbone, 1))
    with pytest.raises(ValueError, match="a window of 4 on a map of 3 x 5"):
        Windows(3, 5, [1, 4])
    with pytest.raises(ValueError, match=r"crops of \[1\] on an image of 8"):
        Windows(8, 8, [1], crops=True)


def test_settings_of_another_number_of_weights_are_refused():
    with pytest.raises(ValueError, match="2 weights for 1 sizes of windows"):
        LocalSettings(Windows(2, 2, [1]), [0.5, 0.5])
    assert LocalScores(4, LocalSettings(Windows(2, 2, [1]), [0.5, 0.5, 0.0])).centre.shape == (3, 4)
