"""Names of classes as a member of the auto head."""

from __future__ import annotations

from functools import cache

import msgspec
import numpy as np
import pytest
import torch

from spml.metrics import mean_average_precision, sp_score
from spml.models import NameEvidence
from spml.models.solved.ensemble import Ensemble, EnsembleSettings
from spml.models.solved.members import NAME_SHARES, Members, with_names
from spml.models.solved.names import (
    NAME_FORMS,
    NAMES_LDA,
    NAMES_SOFTMAX,
    NameScores,
    fit_names,
)
from spml.models.solved.search import Candidate
from spml.models.solved.spaces import Pool
from tests.helpers.solved import fit_by_sp, samples_of
from tests.reference.names import lda_of_names, name_scores, sum_with_names

D, C = 40, 5
TEXT_FORMS = NAME_FORMS[:2]


def make_images(count, seed=0, classes=C):
    """Features in which every class has a direction, with one or two classes each, and the directions."""
    directions = np.random.default_rng(9).normal(size=(C, D))
    generator = np.random.default_rng(seed)
    truth = np.zeros((count, C), np.int8)
    for row in truth:
        row[generator.permutation(classes)[: generator.integers(1, 3)]] = 1
    features = truth @ directions + 3 * generator.normal(size=(count, D))
    return features.astype(np.float32), truth, directions.astype(np.float32)


def one_known(features, truth):
    """Samples of which one label is known."""
    generator = np.random.default_rng(1)
    return samples_of(features, [generator.choice(np.flatnonzero(row)) for row in truth], C)


def evidence(texts, temperature=4.0):
    texts = torch.nn.functional.normalize(torch.as_tensor(texts), dim=1)
    return NameEvidence(tuple(map(str, range(C))), texts, temperature)


def split(classes=C, count=160):
    features, truth, directions = make_images(count, classes=classes)
    half = count // 2
    return one_known(features[:half], truth[:half]), one_known(features[half:], truth[half:]), directions


def fit(train, val, names, **settings):
    return fit_by_sp(train, val, mean_labels=1.5, names=names, **{"forest": False, **settings})


@cache
def without_names(cross_validate=False):
    """The auto head of the samples of `split()` without names, which tests only read."""
    return fit(*split()[:2], None, cross_validate=cross_validate)


def share_of(head):
    return sum(each.weight for each in head.settings.members if each.head in NAME_FORMS)


@pytest.mark.parametrize("form", TEXT_FORMS)
def test_scores_are_those_of_the_slow_reference(form):
    generator = torch.Generator().manual_seed(0)
    images, texts = torch.randn(7, D, generator=generator), torch.randn(C, D, generator=generator)
    images[3] = 0
    texts = torch.nn.functional.normalize(texts, dim=1)
    texts[2] = 0
    module = NameScores.of_texts(texts, 4.0, form).double()
    module.texts.copy_(torch.nn.functional.normalize(texts.double(), dim=1))
    expected = name_scores(form, images[[0, 1, 2, 4, 5, 6]].tolist(), texts.tolist(), 4.0)
    scores = module(images.double())
    np.testing.assert_allclose(scores[[0, 1, 2, 4, 5, 6]], expected, rtol=1e-9, atol=1e-12)
    assert not scores[:, 2].any()
    assert scores.isfinite().all()  # an image without features, too
    assert module.named.tolist() == [True, True, False, True, True]


@pytest.mark.parametrize("form", TEXT_FORMS)
def test_a_single_name_and_equal_names_tell_nothing(form):
    images, name = torch.tensor([[0.3, 0.1], [0.2, 0.9]]), torch.tensor([1.0, 0.0])
    single = NameScores.of_texts(torch.stack([name, 0 * name]), 4.0, form)
    assert not single(images).any()
    equal = NameScores.of_texts(torch.stack([name, name]), 4.0, form)(images)
    assert torch.equal(equal[:, 0], equal[:, 1])
    assert torch.equal(equal[0], equal[1])


@pytest.mark.parametrize("common", [True, False])
def test_names_fitted_to_images_are_those_of_the_slow_reference(common):
    """Where no image is surest of a name, too; a class without a name stays without one."""
    windows, _, directions = make_images(120, classes=C)
    texts = np.vstack([directions, directions[:1] + 0.01])
    texts[2] = 0
    if not common:  # the last name points away from all images
        windows[:, -1], texts[-1] = 20, -np.eye(D)[-1]
    names = evidence(texts)
    softmax = NameScores.of_texts(names.embeddings, 4.0, NAMES_SOFTMAX)
    surest = softmax(torch.from_numpy(windows)).masked_fill(~softmax.named, -torch.inf).argmax(1)
    assert common == (int((surest == C).sum()) >= 2)
    fitted = fit_names(softmax, torch.from_numpy(windows))
    images = make_images(30, seed=4)[0]
    expected = lda_of_names(windows.tolist(), images.tolist(), names.embeddings.tolist(), 4.0)
    np.testing.assert_allclose(fitted(torch.from_numpy(images)), expected, rtol=1e-4, atol=1e-4)
    assert fitted.named.tolist() == softmax.named.tolist()
    assert not fitted(torch.from_numpy(images))[:, 2].any()
    np.testing.assert_allclose(fitted(torch.from_numpy(3 * images)), expected, rtol=1e-4, atol=1e-4)


def test_fitted_names_follow_images_where_texts_are_off():
    features, truth, directions = make_images(800, seed=3)
    generator = np.random.default_rng(0)
    texts = directions + 1.2 * generator.normal(size=directions.shape).astype(np.float32)
    names = evidence(texts)
    softmax = NameScores.of_texts(names.embeddings, 4.0, NAMES_SOFTMAX)
    rows = torch.from_numpy(features)
    fitted = fit_names(softmax, rows[:400])
    before, after = (
        mean_average_precision(each(rows[400:]).numpy(), truth[400:] == 1, "exclude")
        for each in (softmax, fitted)
    )
    assert after > before + 0.02


@pytest.mark.parametrize("cross_validate", [True, False])
def test_names_join_the_sum_where_they_help(cross_validate, lines):
    train, val, directions = split()
    names = evidence(directions)
    result = fit(train, val, names, cross_validate=cross_validate)
    plain = without_names(cross_validate)
    share = share_of(result.head)
    assert share in NAME_SHARES[1:]
    assert share_of(plain.head) == 0
    assert f"with a share of {100 * share:.0f} %" in lines[-1]
    linear = [member.weight for member in result.head.settings.members[:-1]]
    expected = [member.weight for member in plain.head.settings.members]
    np.testing.assert_allclose(linear, (1 - share) * np.asarray(expected), rtol=1e-9)
    described = result.head.describe()[-1]
    assert described["head"] in NAME_FORMS
    assert (described["space"], described["penalty"], described["weight"]) == ("raw", None, share)
    features, truth, _ = make_images(300, seed=5)
    rows = torch.from_numpy(features)
    with_names_, without = (
        mean_average_precision(each.head(rows).numpy(), truth == 1, "exclude") for each in (result, plain)
    )
    assert with_names_ > without + 0.01

    # The score of the member is that of the names alone.
    pool = Pool(train, val)
    held = np.arange(160) if cross_validate else np.arange(80, 160)
    observed = np.concatenate([train.observed.to_ternary(), val.observed.to_ternary()])[held]
    images = pool.features(held).tolist()
    alone = {
        form: sp_score(
            np.asarray(name_scores(form, images, names.embeddings.tolist(), 4.0)), observed, 1.5
        ).score
        for form in TEXT_FORMS
    }
    every = pool.features(np.arange(160)).tolist()
    fitted = lda_of_names(every, images, names.embeddings.tolist(), 4.0)
    alone[NAMES_LDA] = sp_score(np.asarray(fitted), observed, 1.5).score
    assert described["score"] == pytest.approx(max(alone.values()), abs=1e-6)
    assert alone[described["head"]] == max(alone.values())


def test_the_share_is_that_of_the_highest_score():
    train, val, directions = split()
    pool, held = Pool(train, val), np.arange(80, 160)
    generator = np.random.default_rng(0)
    scores = generator.normal(size=(1, 80, C)).astype(np.float32)
    member = Candidate("standard", 0.0, "ridge", 1.0, 0.9)
    before = Members([member], scores, {}, np.zeros((1, C), np.bool_))
    texts = directions.copy()
    texts[3] = 0
    names = evidence(texts)
    alone = np.asarray(name_scores("names", pool.features(held).tolist(), names.embeddings.tolist(), 4.0))
    used = [[True] * C, [column != 3 for column in range(C)]]
    for best in NAME_SHARES:
        members = [scores[0].tolist(), alone.tolist()]
        wanted = np.asarray(sum_with_names(members, [1 - best, best], members, used))

        def judge(given, wanted=wanted):
            return -float(np.abs(given - wanted).max())

        both = with_names(before, names, pool, [held], judge)
        assert len(both.candidates) == 1 + (best > 0)
        if best:
            assert both.candidates[0] == member._replace(weight=1 - best)
            assert both.candidates[1].weight == best
        if best and both.candidates[1].head == "names":
            np.testing.assert_allclose(both.sum(both.scores), wanted, atol=1e-5)
            np.testing.assert_array_equal(both.unused, ~np.asarray(used))


def test_names_that_say_nothing_are_left_out():
    train, val, _ = split()
    generator = np.random.default_rng(3)
    result = fit(train, val, evidence(generator.normal(size=(C, D)).astype(np.float32)))
    plain = without_names()
    assert share_of(result.head) == 0
    assert msgspec.to_builtins(result.head.settings) == msgspec.to_builtins(plain.head.settings)
    np.testing.assert_array_equal(result.held_out, plain.held_out)


def test_names_are_fitted_to_enough_images_only(monkeypatch):
    train, val, directions = split()
    pool, held = Pool(train, val), np.arange(80, 160)
    before = Members(
        [Candidate("standard", 0.0, "ridge", 1.0, 0.9)], np.zeros((1, 80, C), np.float32), {},
        np.zeros((1, C), np.bool_),
    )  # fmt: skip
    judged: list[int] = []

    def judge(scores):
        judged.append(len(scores))
        return 0.0

    for enough, forms in ((32, 3), (33, 2)):  # 160 images of 5 classes
        monkeypatch.setattr("spml.models.solved.members.LEAST_PER_NAME", enough)
        judged.clear()
        with_names(before, evidence(directions), pool, [held], judge)
        assert len(judged) == forms + len(NAME_SHARES)


@pytest.mark.parametrize("cross_validate", [True, False])
def test_a_class_without_a_known_label_is_scored_by_its_name_alone(cross_validate):
    train, val, directions = split(classes=C - 1)
    names = evidence(directions)
    result = fit(train, val, names, cross_validate=cross_validate)
    head = result.head
    assert share_of(head) > 0
    assert np.isinf(head.spread[:-1, -1]).all()
    assert head.spread[:, :-1].isfinite().all()
    features, truth, _ = make_images(400, seed=7)
    rows = torch.from_numpy(features)
    logits = head(rows).numpy()
    assert np.isfinite(logits).all()
    alone = head.heads[-1](rows).numpy()
    order = np.argsort(alone[:, -1])
    assert (np.diff(logits[order, -1]) >= 0).all()
    np.testing.assert_allclose(
        logits[:, -1], head.offset[-1].item() + head.scale[-1].item() * share_of(head)
        * (alone[:, -1] - head.centre[-1, -1].item()) / head.spread[-1, -1].item(), rtol=1e-4, atol=1e-4,
    )  # fmt: skip
    plain = fit(train, val, None, cross_validate=cross_validate)
    found = [
        mean_average_precision(each[:, -1:], truth[:, -1:] == 1, "exclude")
        for each in (logits, plain.head(rows).numpy())
    ]
    assert found[0] > found[1] + 0.2
    # On the scale of the other classes: as likely as they are, give or take.
    chances = torch.from_numpy(logits).sigmoid().mean(0)
    assert chances[:-1].mean() / 3 < chances[-1] < 3 * chances[:-1].mean()


def test_a_saved_head_predicts_the_same_and_a_damaged_one_is_refused():
    train, val, directions = split(classes=C - 1)
    head = fit(train, val, evidence(directions)).head
    settings = msgspec.convert(msgspec.to_builtins(head.settings), EnsembleSettings)
    again = Ensemble(D, C, settings)
    again.load_state_dict(head.state_dict())
    features = torch.from_numpy(make_images(30, seed=2)[0])
    assert torch.equal(again(features), head(features))
    described = msgspec.to_builtins(head.settings)
    described["spaces"][-1]["scaling"] = "unit"
    with pytest.raises(msgspec.ValidationError, match="names must be on the features as they are"):
        msgspec.convert(described, EnsembleSettings)
    described["members"][-1]["head"] = "name"
    with pytest.raises(
        msgspec.ValidationError, match="head must be one of ridge, lda, multinomial, forest, names, names_so"
    ):
        msgspec.convert(described, EnsembleSettings)


def test_of_many_classes_names_are_left_out(monkeypatch, lines):
    monkeypatch.setattr("spml.models.solved.moments.MOST_COLUMNS", 2)
    train, val, directions = split(classes=3)
    assert share_of(fit(train, val, evidence(directions)).head) == 0
    assert lines == [
        "auto head: without names, because of 5 classes those without known labels share a solution"
    ]
