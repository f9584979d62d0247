"""Scores that a run keeps of samples which its model was not fitted to."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from spml.common.errors import InputError
from spml.data import Dataset, Samples
from spml.data.matrix import FeatureMatrix
from spml.data.names import RowNames
from spml.labels import ObservedLabels
from spml.runs.folder import held_out
from spml.runs.folder.contents import write_tensors
from spml.runs.folder.held_out import HeldOut, NumberedNames, gather_held_out, read_held_out, write_held_out
from spml.scores import InMemory, TopScores
from tests.helpers.commands import refusal
from tests.helpers.features import arrays_of, logits_of, train_hidden
from tests.helpers.run_folders import damaged_bits


def make_samples(prefix, labels):
    ids = tuple(f"{prefix}{row}.png" for row in range(len(labels)))
    return Samples(ids, FeatureMatrix(np.zeros((len(labels), 1))), ObservedLabels.from_ternary(labels))


@pytest.fixture
def toy():
    labels = np.random.default_rng(0).integers(-1, 2, (9, 3)).astype(np.int8)
    splits = {"train": make_samples("t", labels[:6]), "val": make_samples("v", labels[6:])}
    return Dataset("toy", tuple("abc"), splits, {}), labels


def test_scores_are_kept_with_names_and_labels(toy, tmp_path):
    (dataset, labels), rows = toy, np.array([7, 0, 8, 3])
    scores = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    gathered = gather_held_out(dataset, scores, rows, seed=0)
    write_held_out(tmp_path, gathered, dataset.classes)
    read = read_held_out(tmp_path, dataset.classes)
    assert read.ids == ("v1.png", "t0.png", "v2.png", "t3.png")
    assert (read.scores == scores).all()
    assert read.scores.array.dtype == np.float32
    assert (read.labels.to_ternary() == labels[rows]).all()
    assert read.learned == {"t1.png", "t2.png", "t4.png", "t5.png", "v0.png"}
    assert read.positives.tolist() == (labels == 1).sum(0).tolist()  # of all samples, not of these four
    full = HeldOut(
        ("a",), scores[:1], ObservedLabels.from_ternary([[1, -1, -1]]), frozenset("b"), np.ones(3, int)
    )
    assert full.positives.tolist() == [1, 0, 0]


@pytest.mark.parametrize("labels", [ObservedLabels.from_index([1, 0], 2), ObservedLabels.from_names(
    [["a"], ["a", "b"]], "ab", unlisted="negative")])  # fmt: skip
def test_the_extent_of_labels_is_kept(labels, tmp_path):
    ids = ("Zürich.png", "\udce9.png")  # the second is no UTF-8 on disk
    write_held_out(tmp_path, HeldOut(ids, InMemory(np.zeros((2, 2), np.float32)), labels), ("a", "b"))
    read = read_held_out(tmp_path, ("a", "b"))
    assert read.ids == ids
    assert (read.labels.extent, read.labels) == (labels.extent, labels)


def test_a_random_part_is_kept_where_there_are_many(toy, monkeypatch):
    dataset, labels = toy
    monkeypatch.setattr(held_out, "MOST_KEPT", 14)  # four rows of three classes, and a rest
    rows, scores = np.arange(9)[::-1], np.arange(27, dtype=np.float32).reshape(9, 3)
    parts = [gather_held_out(dataset, scores, rows, seed=seed) for seed in (0, 0, 1)]
    assert [len(part.ids) for part in parts] == [4, 4, 4]
    assert parts[0].ids == parts[1].ids != parts[2].ids
    for part in parts:
        chosen = [int(values[0] // 3) for values in part.scores.array]
        assert (part.labels.to_ternary() == labels[rows[chosen]]).all()


def test_a_trained_and_a_solved_head_keep_the_validation_samples(features, ridge_run, tmp_path):
    val, arrays = np.arange(160, 220), arrays_of(features, "val")
    for run in (train_hidden(features, tmp_path / "gr", "--method gr --epochs 2"), ridge_run):
        kept = read_held_out(run, tuple("abcd"))
        assert [int(name) for name in kept.ids] == val.tolist()
        np.testing.assert_allclose(kept.scores.array, logits_of(run, arrays["X"]), rtol=1.3e-6, atol=1e-5)
        assert kept.labels.single_positive


def test_the_auto_head_keeps_all_labelled_samples_of_its_cross_validation(features, auto_run):
    kept = read_held_out(auto_run, tuple("abcd"))
    rows = [int(name) for name in kept.ids]
    assert sorted(rows) == list(range(220))  # of training and validation
    final = logits_of(auto_run, arrays_of(features)["X"][rows])
    known = kept.labels.to_multi_hot() == 1
    # The final model has learned from these samples, so it knows their observed labels better.
    assert final[known].mean() > kept.scores.array[known].mean()
    assert np.corrcoef(final.ravel(), kept.scores.array.ravel())[0, 1] > 0.9


def test_what_can_not_be_read_is_refused(ridge_run, tmp_path):
    with pytest.raises(InputError, match="holds no run"):
        read_held_out(tmp_path, tuple("abcd"))
    folder = shutil.copytree(ridge_run, tmp_path / "run")
    with pytest.raises(InputError, match=r"held_out\.safetensors: has scores of other classes"):
        read_held_out(folder, tuple("abdc"))
    path = folder / "held_out.safetensors"
    content = path.read_bytes()
    tensors = load_file(path)
    for damaged in (b"", content[:100], content[:-3], b"\xff" * 200):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"held_out\.safetensors: damaged.*Train the run again"):
            read_held_out(folder, tuple("abcd"))
    save_file(tensors, path)
    with pytest.raises(InputError, match="damaged"):
        read_held_out(folder, tuple("abcd"))
    path.unlink()
    with pytest.raises(InputError, match=r"is missing, so there are no scores .* train it again"):
        read_held_out(folder, tuple("abcd"))


def test_no_damaged_bit_is_read(toy, tmp_path):
    """Names, scores, labels and counts, and the header that says where they are."""
    dataset, _ = toy
    scores = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    write_held_out(tmp_path, gather_held_out(dataset, scores, np.arange(4), seed=0), dataset.classes)
    message = "held_out.safetensors: damaged, or not written by this version"
    for bit in damaged_bits(tmp_path / "held_out.safetensors"):
        assert message in refusal(read_held_out, tmp_path), bit


def test_a_file_without_checksum_or_of_another_version_is_refused(toy, tmp_path, monkeypatch):
    dataset, _ = toy
    held = gather_held_out(dataset, np.zeros((4, 3), np.float32), np.arange(4), seed=0)
    with monkeypatch.context() as patched:
        patched.setattr("spml.runs.folder.contents._VERSION", 1)
        write_held_out(tmp_path, held, dataset.classes)
    with pytest.raises(InputError, match="its version is 1, not 2"):
        read_held_out(tmp_path)
    path = tmp_path / "held_out.safetensors"
    about = {"version": 2, "classes": dataset.classes}
    save_file(load_file(path), path, {"spml scores": json.dumps(about)})
    with pytest.raises(InputError, match="its checksum is missing"):
        read_held_out(tmp_path)


LABELS_OF_MANY = np.random.default_rng(0).choice([-1, 0, 1], (9, 6)).astype(np.int8)


@pytest.fixture
def many(tmp_path, monkeypatch):
    """The highest scores of samples that are named by numbers, written to a folder."""
    monkeypatch.setattr("spml.runs.folder.held_out.MOST_KEPT", 40)
    monkeypatch.setattr("spml.runs.folder.held_out.MOST_CLASSES", 5)
    samples = make_samples("", LABELS_OF_MANY)
    parts = (
        Samples(
            RowNames(np.arange(9)[part]),
            samples.inputs.take(range(9)[part]),
            samples.observed.take(range(9)[part]),
        )
        for part in (slice(0, 6), slice(6, 9))
    )
    dataset = Dataset("toy", tuple("abcdef"), dict(zip(("train", "val"), parts, strict=True)), {})
    scores = np.random.default_rng(1).normal(size=(7, 6)).astype(np.float32)
    rows = np.array([7, 0, 8, 3, 1, 2, 4])
    highest = InMemory(scores).highest(3, ObservedLabels.from_ternary(LABELS_OF_MANY[rows]).entries(1))
    gathered = gather_held_out(dataset, highest, rows, seed=0)
    write_held_out(tmp_path, gathered, dataset.classes)
    return gathered


def test_of_many_classes_the_highest_scores_are_kept(many, tmp_path):
    read = read_held_out(tmp_path, tuple("abcdef"))
    assert isinstance(read.scores, TopScores)
    assert read.ids == many.ids
    assert (read.labels.to_ternary() == LABELS_OF_MANY[[int(name) for name in many.ids]]).all()
    assert len(read.scores.scores) < 7 * 6
    for name in ("starts", "columns", "scores", "floors"):
        np.testing.assert_array_equal(getattr(read.scores, name), getattr(many.scores, name))
    assert list(read.learned) == list(many.learned) == ["5", "6"]


@pytest.mark.parametrize(
    ("tensor", "change", "said"),
    [
        ("starts", lambda x: x[:-1], r"starts is I64 \(7,\), not I64 \(8\)"),
        ("starts", lambda x: x.int(), r"starts is I32 \(8,\), not I64 \(8\)"),
        ("starts", lambda x: x.flip(0), "starts does not divide its"),
        ("starts", lambda x: x - 1, "starts does not divide its"),
        ("starts", lambda x: torch.where(x == x[3], 2**62, x), "starts does not divide its"),
        ("columns", lambda x: x[1:], "starts does not divide its"),
        ("columns", lambda x: x + 3, r"columns has a class outside 0 ... 5"),
        ("columns", lambda x: x - 6, r"columns has a class outside 0 ... 5"),
        ("columns", lambda x: x * 0, "columns does not ascend within a sample"),
        ("columns", lambda x: x.long(), "columns is I64"),
        ("scores", lambda x: x[1:], "scores is F32"),
        ("scores", lambda x: x.double(), "scores is F64"),
        ("scores", lambda x: x * torch.nan, "some that are not finite"),
        ("scores", lambda x: x / 0, "some that are not finite"),
        ("floors", lambda x: x * torch.nan, "a floor is not a number"),
        ("floors", lambda x: x + torch.inf, "a floor is not a number"),
        ("floors", lambda x: x - torch.inf, "scores are missing of a sample that states none are"),
        ("floors", lambda x: x[None], r"floors is F32 \(1, 7\)"),
        ("label_columns", lambda x: x + 6, r"label_columns has a class outside"),
        ("label_starts", lambda x: x + 1, "label_starts does not divide its"),
        ("label_values", lambda x: x * 0, "a label is neither 1 nor -1"),
        ("label_values", lambda x: x[1:], "label_values is I8"),
        ("label_full", lambda x: x + 1, "a label is neither 1 nor -1"),
        ("learned_rows", lambda x: x.short(), "learned_rows is I16"),
        ("learned_rows", lambda x: x[None], "learned_rows is U8"),
    ],
)
def test_tensors_that_can_not_be_are_refused(many, tmp_path, tensor, change, said):
    """In a file with its own checksum, as another program may write it."""
    path = tmp_path / "held_out.safetensors"
    tensors = load_file(path)
    tensors[tensor] = change(tensors[tensor]).contiguous()
    write_tensors(path, tensors, tmp_path, classes=tuple("abcdef"))
    with pytest.raises(InputError, match=said):
        read_held_out(tmp_path)
    del tensors[tensor]
    write_tensors(path, tensors, tmp_path, classes=tuple("abcdef"))
    with pytest.raises(InputError, match=r"held_out\.safetensors: "):
        read_held_out(tmp_path)


def test_names_of_rows_are_stored_as_bits():
    names = NumberedNames.of([0, 3, 12, 7], [3])
    assert (list(names), len(names)) == (["0", "7", "12"], 3)
    assert ["0" in names, "3" in names, "00" in names, "99" in names, "a" in names] == [
        True, False, False, False, False
    ]  # fmt: skip
