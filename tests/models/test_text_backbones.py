"""Embeddings of texts: loaded from a folder, kept on disk, checked by their weights; damaged files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import nn

import spml
from spml.common.errors import InputError
from spml.models.backbones import create_backbone
from spml.models.backbones.texts import SENTENCES
from spml.models.spec import BackboneSpec
from tests.helpers.commands import fails
from tests.helpers.texts import WORDS, make_texts, write_texts

QUICK = {"quiet": True, "pictures": False, "threads": 1}
MODULE = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}


class Fake(nn.Module):
    """Counts words of the helper's texts. The library's class takes the same arguments."""

    max_seq_length, calls = 9, 0

    def __init__(self, path, **options):
        super().__init__()
        assert options == {
            "device": "cpu",
            "trust_remote_code": False,
            "local_files_only": True,
            "model_kwargs": {"use_safetensors": True},
        }
        self.scale = nn.Parameter(torch.tensor(json.loads(Path(path, "scale.json").read_text())))

    def encode(self, texts, *, convert_to_tensor=False, show_progress_bar, batch_size=32):
        Fake.calls += len(texts)
        counts = [[sum(word in text.split() for word in words) for words in WORDS.values()] for text in texts]
        rows = torch.tensor(counts, dtype=torch.float32) * self.scale.detach()
        return rows if convert_to_tensor else rows.numpy()


@pytest.fixture
def library(monkeypatch):
    module = ModuleType("sentence_transformers")
    module.SentenceTransformer = Fake
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "modules.json").write_text(json.dumps([MODULE]))
    (folder / "scale.json").write_text("2.0")
    return folder


@pytest.fixture
def table(tmp_path):
    return write_texts(tmp_path / "texts.csv", make_texts(100))


def train(table, model, output, **settings):
    name = f"{SENTENCES}:{model}"
    return spml.train(
        table, data={"text": "title,abstract"}, backbone=name, head="lda", output=output, **QUICK, **settings
    )


def test_embeddings_are_features_that_are_computed_once(library, table, model, tmp_path):
    run = train(table, model, tmp_path / "run")
    assert (run.spec.name, run.classifier.backbone.num_features) == (f"{SENTENCES}:{model}", 3)
    assert not any(name.startswith("backbone") for name in run.classifier.state_dict())
    Fake.calls = 0
    train(table, model, tmp_path / "other")
    assert Fake.calls == 1 + 8  # to find out the number of features, and their scaling
    features = run.classifier.backbone(torch.tensor([list(b"milk milk barn")], dtype=torch.uint8))
    assert features.tolist() == [[0.0, 4.0, 0.0]]
    new = write_texts(tmp_path / "new.csv", make_texts(40, seed=1), column=4)
    assert run.evaluate(new, unlisted="negative")["mAP"] > 0.95


def test_other_weights_than_in_the_training_are_refused(library, table, model, tmp_path):
    train(table, model, tmp_path / "run")
    (model / "scale.json").write_text("3.0")
    run = spml.load(tmp_path / "run")
    with pytest.raises(InputError, match="has other weights than when the run was trained"):
        run.predict(["milk"])


def test_models_that_can_t_be_loaded(library, table, model, tmp_path, monkeypatch, capsys):
    import huggingface_hub

    (model / "modules.json").write_text(json.dumps([{**MODULE, "type": "evil.Code"}]))
    with pytest.raises(InputError, match=r"modules.json: names the code 'evil.Code', which is not run"):
        train(table, model, tmp_path / "run")
    (model / "modules.json").unlink()
    with pytest.raises(InputError, match=r"modules.json is missing. Name the folder of a model"):
        train(table, model, tmp_path / "run")

    def offline(*_):
        raise OSError("no network")

    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", offline)
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_: None)
    words = ("train", table, "--data.text", "title", "--output", tmp_path / "run")
    message = fails(capsys, *words, "--backbone", f"{SENTENCES}:no-such-model")
    assert "sentence-transformers/no-such-model could not be downloaded from huggingface.co" in message
    assert "backbone=sentence-transformers:FOLDER" in message
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    assert "pip install sentence-transformers" in fails(capsys, *words, "--backbone", f"{SENTENCES}:{model}")


def test_damaged_descriptions_are_refused():
    for name, architecture in (
        *(("tfidf", {"terms": terms}) for terms in (None, [], ["a", "a"], ["a", 3], "ab")),
        (f"{SENTENCES}:a", {"num_features": 0}),
    ):
        with pytest.raises(ValueError, match="architecture: "):
            create_backbone(BackboneSpec(name, weights="pretrained", architecture=architecture))


@pytest.mark.long
def test_a_real_model_of_the_library(tmp_path, table):
    """A tiny BERT, saved in the format of the hub."""
    pytest.importorskip("sentence_transformers", reason="needs pip install sentence-transformers")
    from sentence_transformers import SentenceTransformer, models
    from transformers import BertConfig, BertModel, BertTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [*special, *(word for group in WORDS.values() for word in group)]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    torch.manual_seed(0)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=len(words), **size)).save_pretrained(tmp_path / "bert")
    BertTokenizerFast(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path / "bert")
    transformer = models.Transformer(str(tmp_path / "bert"))
    made = SentenceTransformer(modules=[transformer, models.Pooling(16)], device="cpu")
    made.save_pretrained(str(tmp_path / "tiny"))
    run = train(table, tmp_path / "tiny", tmp_path / "run")
    texts = ["kitten purrs", "milk in the barn"]
    expected = made.encode(texts, show_progress_bar=False)
    batch = spml.data.texts.Texts.of(texts).fetch([0, 1])
    np.testing.assert_allclose(run.classifier.backbone(batch).numpy(), expected, atol=1e-5)
