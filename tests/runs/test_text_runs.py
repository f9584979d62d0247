"""Runs on texts: train, predict, evaluate, audit, review, export."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer

import spml
from spml.audit.folder import read_audit
from spml.common.errors import InputError
from spml.config import DataConfig
from spml.models.backbones import texts
from spml.models.backbones.texts import SETTINGS
from spml.review.progress import Selection
from spml.review.session import Review
from tests.helpers.commands import fails
from tests.helpers.commands import run as command
from tests.helpers.texts import make_texts, write_texts

QUICK = {"quiet": True, "pictures": False, "threads": 1}
TEXT = {"text": "title,abstract"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("texts")


@pytest.fixture(scope="module")
def table(folder):
    return write_texts(folder / "texts.csv", make_texts())


@pytest.fixture(scope="module")
def new(folder):
    return write_texts(folder / "new.csv", make_texts(60, seed=1), column=4)


@pytest.fixture(scope="module")
def run(folder, table):
    return spml.train(table, data=TEXT, mean_labels=1.5, output=folder / "run", **QUICK)


@pytest.mark.long
def test_the_vocabulary_is_that_of_the_training_texts(run, table):
    contents = {row[0]: f"{row[1]}\n{row[2]}" for row in make_texts()}
    opened = spml.data.open_dataset(run.settings.data)
    names = list(opened.splits["train"].ids)
    vectoriser = TfidfVectorizer(**SETTINGS, min_df=2).fit(contents[name] for name in names)
    network = run.classifier.backbone.network
    assert network.terms == vectoriser.get_feature_names_out().tolist()
    np.testing.assert_allclose(network.idf, vectoriser.idf_, rtol=1e-6)
    rows = vectoriser.transform(["moo milk purrs", "xyzzy"]).toarray()
    np.testing.assert_allclose(network.vectors(["moo milk purrs", "xyzzy"]).toarray(), rows, atol=1e-6)
    assert not rows[1].any()
    assert len(names) < 200  # the others are held out


def test_a_run_is_made_of_json_and_safetensors(run):
    card = json.loads((run.folder / "model.json").read_text())
    assert card["backbone"]["name"] == "tfidf"
    assert card["backbone"]["architecture"]["terms"] == run.classifier.backbone.network.terms
    assert run.config.model.backbone == "tfidf"
    again = spml.load(run.folder).predict(["the kitten purrs"])
    np.testing.assert_array_equal(again.scores, run.predict(["the kitten purrs"]).scores)


def test_labels_of_new_texts_are_found(run, new):
    assert run.evaluate(new, unlisted="negative")["mAP"] > 0.95
    labels = run.predict(["kitten purrs and meow", "milk in the barn"]).labels
    assert [each[:1] for each in labels] == [["cat"], ["cow"]]
    assert run.predict("puppy on a leash").labels[0][0] == "dog"
    assert tuple(run.predict(new).ids) == tuple(f"t{number}" for number in range(60))


def test_frames_give_the_scores_of_the_table(run, new):
    pandas = pytest.importorskip("pandas")
    frame, expected = pandas.read_csv(new), run.predict(new).scores
    np.testing.assert_array_equal(run.predict(frame[["abstract", "title"]]).scores, expected)
    np.testing.assert_array_equal(run.predict(frame.iloc[0]).scores, run.predict(frame.iloc[:1]).scores)


@pytest.mark.parametrize(
    "settings",
    [{"head": "ridge"}, {"method": "an", "epochs": 8}, {"method": "softmax", "optim": {"name": "lbfgs"}}],
    ids=["ridge", "trained", "lbfgs"],
)
def test_single_heads_and_trained_ones(folder, new, settings):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(make_texts(), columns=["id", "title", "abstract", "labels", "all"])
    other = spml.train(
        frame.drop(columns="all"), data=TEXT, output=folder / "other", overwrite=True, **QUICK, **settings
    )
    assert other.config.model.scaling == "unit"
    assert other.evaluate(new, unlisted="negative")["mAP"] > 0.9


def test_a_run_continues_from_another_with_its_words(run, folder, table):
    more = spml.train(
        table, data=TEXT, init_from=str(run.folder), method="an", epochs=1, output=folder / "more", **QUICK
    )
    assert more.classifier.backbone.network.terms == run.classifier.backbone.network.terms


def test_words_that_speak_for_a_class(run):
    found = run.words_for("the kitten purrs next to the milk of a day", ["cat", "cow"], 2)
    assert set(found[0]) <= {"kitten", "purrs", "kitten purrs", "the kitten"}
    assert found[1][0] == "milk"
    vector = torch.from_numpy(run.classifier.backbone.network.vectors(["kitten purrs"]).toarray())
    cat = run.classes.index("cat")
    without = vector.clone()
    without[0, run.classifier.backbone.network.terms.index("kitten")] = 0
    top = run.classifier.top
    assert top(without).logits[0, cat] < top(vector).logits[0, cat]


def test_written_tables_have_the_texts(capsys, folder, table):
    words = ("data", "convert", table, folder / "marks.csv", "--format", "csv")
    command(capsys, *words, "--data.text title,abstract")
    config = DataConfig(path=str(folder / "marks.csv"), text="text")
    records, first = spml.data.start_opening(config).records, make_texts()[0]
    assert (records.ids[0], records.inputs[0]) == ("t0", f"{first[1]}\n{first[2]}")
    assert records.labels.to_names(records.classes)[0] == [first[3]]


def test_audit_and_review_show_texts(capsys, run, folder):
    command(capsys, "audit", run.folder, "--output", folder / "audit", "--mean_labels 1.5")
    audit = read_audit(folder / "audit")
    assert audit.missing
    review = Review(folder / "audit", "ann", words=spml.load(run.folder).words_for)
    try:
        row = review.records.ids.index(audit.missing[0].file)
        (card,) = review.cards([row], Selection())
    finally:
        review.store.close()
    shown = dict(card.content)
    assert shown["text"] == review.records.inputs[row]
    label = audit.missing[0].label
    assert set(shown[f"words for {label}"].split(", ")) & set(shown["text"].split())


@pytest.mark.long
def test_the_head_is_exported_with_the_words(table, tmp_path):
    pytest.importorskip("onnxruntime")
    import onnx
    import onnxruntime

    # Whatever the head is, the words are told in the same way, and this one is exported fast.
    run = spml.train(table, data=TEXT, head="ridge", mean_labels=1.5, output=tmp_path / "run", **QUICK)
    path = run.export(tmp_path / "head.onnx")
    described = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    given = json.loads(described["spml"])["input"]
    assert (given["name"], given["backbone"]) == ("features", "tfidf")
    assert "no operation of ONNX or torch finds words" in given["meaning"]
    settings = {**given["tfidf"], "ngram_range": tuple(given["tfidf"]["ngram_range"])}
    vectoriser = TfidfVectorizer(**settings, vocabulary=given["terms"], dtype=np.float32)
    vectoriser.idf_ = np.asarray(given["idf"])
    features = vectoriser.transform(["kitten and milk"]).toarray().astype(np.float32)
    (scores,) = onnxruntime.InferenceSession(path).run(["scores"], {"features": features})
    np.testing.assert_allclose(scores, run.predict(["kitten and milk"]).scores, atol=1e-5)


def test_what_does_not_suit_is_refused(capsys, folder, table, run, tmp_path):
    words = ("train", table, "--output", tmp_path / "run", "--data.text", "title,abstract")
    assert "backbone 'resnet18' takes no texts" in fails(capsys, *words, "--backbone resnet18")
    assert "backbone tfidf is fixed" in fails(capsys, *words, "--frozen no")
    assert "the data holds texts: leave it out" in fails(capsys, *words, "--local on")
    assert "the data holds texts: choose another head" in fails(capsys, *words, "--method lac")
    features = tmp_path / "x.npz"
    np.savez(features, X=np.eye(4), Y=np.eye(4), classes=np.array([*"abcd"]))
    assert "takes texts, but x holds features" in fails(capsys, "train", features, "--backbone tfidf")
    assert "the model takes texts: give one table" in fails(capsys, "predict", run.folder, features)
    with pytest.raises(InputError, match="where a text is expected"):
        run.predict(np.zeros((2, 3)))
    alone = write_texts(tmp_path / "alone.csv", [[f"t{k}", f"word{k}", "", "ab"[k % 2]] for k in range(20)])
    assert "have no word in common" in fails(capsys, "train", alone, "--data.text title")
    rows = [[f"t{k}", "猫は寝ている", "", "ab"[k % 2]] for k in range(20)]
    message = fails(capsys, "train", write_texts(tmp_path / "ja.csv", rows), "--data.text title")
    assert "100% of the letters" in message
    assert "sentence-transformers:NAME" in message
    assert not (tmp_path / "run").exists()


@pytest.mark.long
def test_the_auto_head_on_abstracts(shared, folder, monkeypatch):
    """mAP of all categories, learned from the primary one of every sixth paper: 62.1; linear models of the
    same words 57 to 60, and words that are only counted 60."""
    import csv
    import lzma

    monkeypatch.setattr(texts, "MOST_TERMS", 20_000)
    usual = csv.field_size_limit(1 << 30)
    path = shared / "data" / "text" / "arxiv_cs" / "arxiv_cs.tsv.xz"
    with lzma.open(path, "rt", encoding="utf-8") as stream:
        papers = [row for row in csv.DictReader(stream, delimiter="\t") if row["uniform"] == "1"]
    csv.field_size_limit(usual)
    header = ("id", "title", "abstract", "labels")
    rows = {
        test: [[row["id"], row["title"], row["abstract"], row["labels" if test else "primary"]]
               for row in papers if (row["split"] == "test") == test]
        for test in (False, True)
    }  # fmt: skip
    files = [
        write_texts(folder / f"arxiv{test}.csv", rows[test][::every], header=header)
        for test, every in ((False, 6), (True, 4))
    ]
    run = spml.train(files[0], data=TEXT, output=folder / "arxiv", **QUICK)
    assert len(run.classifier.backbone.network.terms) == 20_000
    assert run.evaluate(files[1], unlisted="negative", separator=" ")["mAP"] > 0.615
