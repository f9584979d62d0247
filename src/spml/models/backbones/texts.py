"""Backbones for texts: TF-IDF of the words of the training texts, and models of sentence-transformers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...common.documents import load_json
from ...common.draws import permutation
from ...common.errors import InputError, first_line, missing_extra
from ...common.messages import log
from ...common.safe import quote
from ...config import ModelConfig
from ...data.texts import Texts, decoded
from ..spec import SENTENCES, TFIDF, BackboneSpec
from .backbone import Backbone, hash_tensors
from .hugging_face import quiet
from .weights import hub_file

SETTINGS: dict[str, Any] = {
    "lowercase": True, "token_pattern": r"(?u)\w+[+#]*", "ngram_range": (1, 2), "sublinear_tf": True,
    "norm": "l2",
}  # fmt: skip
"""Arguments of scikit-learn's TfidfVectorizer. A word may end in + and #, as in c++ and c#."""

MOST_TERMS, FEWEST_TEXTS = 100_000, 2
"""Largest number of terms, those that occur most often, and the texts that a term must occur in."""

_FITTED = 200_000  # texts that the terms are taken from: those of more would take the memory of all pairs
_SAMPLED = 1000
_WITHOUT_BLANKS = re.compile(  # Thai, Lao, Burmese, Khmer, Japanese and Chinese
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"
)
_SHARE = 0.2  # of such letters from which words can't be told apart
_FILES = ("*.json", "*.txt", "*.model", "*.safetensors")
_MODULES = "modules.json"


class Tfidf(nn.Module):
    """Network from texts, as `Texts.fetch` gives them, to TF-IDF vectors of length 1, float32 (B, T).

    Args:
        terms: The T terms: words, and pairs of words.

    Attributes:
        idf: Weight of each term, log((1 + N) / (1 + df)) + 1, float32 (T,).
    """

    idf: Tensor

    def __init__(self, terms: list[str]) -> None:
        super().__init__()
        self.terms = terms
        self.register_buffer("idf", torch.ones(len(terms)))
        self._vectoriser: Any = None

    def vectors(self, texts: Iterable[str]) -> Any:
        """Vectors of texts, CSR float32 (N, T)."""
        if self._vectoriser is None:
            from sklearn.feature_extraction.text import TfidfVectorizer

            self._vectoriser = TfidfVectorizer(**SETTINGS, vocabulary=self.terms, dtype=np.float32)
            self._vectoriser.idf_ = self.idf.cpu().numpy()
        return self._vectoriser.transform(texts)

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute the vectors of a batch."""
        return torch.from_numpy(self.vectors(decoded(inputs)).toarray()).to(inputs.device)


class Embedding(nn.Module):
    """Network from texts, as `Texts.fetch` gives them, to the embeddings of a model of sentence-transformers.

    Its weights are not kept with the run: the model is loaded again, where it is first needed.

    Args:
        name: Folder, or name on the Hugging Face hub.
        sha256: SHA-256 of its weights.
        loaded: The model, if it has been loaded.
    """

    def __init__(self, name: str, sha256: str, *loaded: Any) -> None:
        super().__init__()
        self._name, self._sha256, self._loaded = name, sha256, [*loaded]  # in a list: no part of the state

    @property
    def model(self) -> Any:
        """The model.

        Raises:
            InputError: It can't be loaded, or has other weights than in the training.
        """
        if not self._loaded:
            model = _load(self._name)
            if weights_of(model) != self._sha256:
                raise InputError(
                    f"{SENTENCES}:{self._name}: has other weights than when the run was trained. Restore "
                    "the model, or train again."
                )
            self._loaded.append(model)
        return self._loaded[0]

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute the embeddings, float32 (B, D)."""
        model = self.model.to(inputs.device)
        found: Tensor = model.encode(
            decoded(inputs), batch_size=len(inputs), convert_to_tensor=True, show_progress_bar=False
        )
        return found.float()


def describe(config: ModelConfig, source: str) -> BackboneSpec:
    """Describe the backbone for texts that `config` chooses; `auto` is `tfidf`.

    Raises:
        InputError: It is none for texts, or a setting is about weights.
    """
    name = TFIDF if config.backbone == "auto" else config.backbone
    if name != TFIDF and not name.startswith(f"{SENTENCES}:"):
        raise InputError(
            f"backbone {name!r} takes no texts, but {source} holds texts: leave out model.backbone, or "
            f"pass an embedding (backbone={SENTENCES}:NAME)."
        )
    if config.weights != "pretrained" or config.frozen == "no":
        stated = "model.frozen=no" if config.frozen == "no" else f"model.weights={config.weights}"
        raise InputError(f"{stated}: backbone {name} is fixed, and its head alone is trained: leave it out.")
    return BackboneSpec(name, weights="pretrained")


def build(spec: BackboneSpec, texts: Texts) -> Backbone:
    """Fit TF-IDF to training texts, or load an embedding.

    Raises:
        InputError: The texts have no word in common or are written without blanks; or the model can't be
            loaded.
    """
    if spec.name == TFIDF:
        return _fit(spec, texts)
    name = spec.name.removeprefix(f"{SENTENCES}:")
    model = _load(name)
    width, sha256 = int(model.encode(["a"], show_progress_bar=False).shape[1]), weights_of(model)
    log.info(
        f"backbone {spec.name}: {width} features of a text, of up to {model.max_seq_length} tokens of it"
    )
    return _embedding(replace(spec, sha256=sha256, architecture={"num_features": width}), model)


def create(spec: BackboneSpec) -> Backbone:
    """Create a backbone from a description that `build` completed. Opens no file.

    Raises:
        ValueError: The description is damaged.
    """
    if spec.name == TFIDF:
        terms = spec.architecture.get("terms")
        if not isinstance(terms, list) or not 0 < len(terms) <= MOST_TERMS or len({*terms}) < len(terms):
            raise ValueError("architecture: terms must be a list of different words")
        if not all(isinstance(term, str) for term in terms):
            raise ValueError("architecture: a term is no text")
        return Backbone(spec, Tfidf(terms), len(terms))
    return _embedding(spec)


def _embedding(spec: BackboneSpec, *loaded: Any) -> Backbone:
    width = spec.architecture.get("num_features")
    if not isinstance(width, int) or width < 1:
        raise ValueError(f"architecture: num_features {width!r}")
    network = Embedding(spec.name.removeprefix(f"{SENTENCES}:"), spec.sha256, *loaded)
    return Backbone(spec, network, width)


def _fit(spec: BackboneSpec, texts: Texts) -> Backbone:
    from sklearn.feature_extraction.text import TfidfVectorizer

    _check_blanks(texts)
    some = texts.take(np.sort(permutation(len(texts), "terms")[:_FITTED]))
    vectoriser = TfidfVectorizer(**SETTINGS, min_df=FEWEST_TEXTS, max_features=MOST_TERMS, dtype=np.float32)
    try:
        vectoriser.fit(some)
    except ValueError as error:  # no term is left
        raise InputError(
            f"the {len(texts):,} training texts have no word in common: none occurs in {FEWEST_TEXTS} of "
            f"them, such as {quote(texts[0][:60])}. Name columns with longer texts (data.text), give more "
            f"of them, or use an embedding (backbone={SENTENCES}:NAME)."
        ) from error
    terms = vectoriser.get_feature_names_out().tolist()
    backbone = create(replace(spec, architecture={"terms": terms}))
    backbone.network.load_state_dict({"idf": torch.from_numpy(vectoriser.idf_)})
    log.info(f"backbone {TFIDF}: {len(terms):,} words and pairs of words of {len(some):,} training texts")
    return backbone


def _check_blanks(texts: Texts) -> None:
    """Refuse texts in scripts without blanks between words."""
    rows = np.linspace(0, len(texts) - 1, min(len(texts), _SAMPLED)).astype(np.int64)
    letters = "".join(filter(str.isalpha, "".join(texts.take(rows))))
    share = len(_WITHOUT_BLANKS.findall(letters)) / max(1, len(letters))
    if share > _SHARE:
        raise InputError(
            f"{share:.0%} of the letters of the texts are of scripts without blanks between words, such as "
            f"Chinese, Japanese and Thai, so that {TFIDF} finds no words in them: use an embedding for this "
            f"language (backbone={SENTENCES}:NAME)."
        )


def weights_of(model: nn.Module) -> str:
    """SHA-256 of the weights of a model."""
    import hashlib

    return hash_tensors(dict(sorted(model.state_dict().items())), hashlib.sha256())


def _load(name: str) -> Any:
    """Load a model from its folder, or from the hub into the cache of Hugging Face. No code of it is run."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise missing_extra(SENTENCES, "text") from error
    folder = _folder(name)
    modules = load_json(folder / _MODULES, list[dict[str, Any]], advice="Save the model again.")
    for module in (str(each.get("type")) for each in modules):
        if not module.startswith("sentence_transformers."):
            raise InputError(f"{folder / _MODULES}: names the code {quote(module)}, which is not run.")
    try:
        # Never files with programs, and never code from elsewhere.
        with quiet():
            return SentenceTransformer(
                str(folder), device="cpu", trust_remote_code=False, local_files_only=True,
                model_kwargs={"use_safetensors": True},
            )  # fmt: skip
    except Exception as error:  # checks of the library
        raise InputError(
            f"{folder}: sentence-transformers can't load this model ({first_line(error)}). Save it again, "
            "with its weights in .safetensors files."
        ) from error


def _folder(name: str) -> Path:
    """Folder of a model, downloaded unless it is in the cache."""
    folder = Path(name)
    if folder.is_dir():
        if not (folder / _MODULES).is_file():
            raise InputError(
                f"{folder}: {_MODULES} is missing. Name the folder of a model of sentence-transformers, as "
                "its method save_pretrained writes it."
            )
        return folder
    import huggingface_hub

    repository = name if "/" in name else f"sentence-transformers/{name}"
    try:
        hub_file(repository, _MODULES)  # fails at once without a network
        return Path(huggingface_hub.snapshot_download(repository, allow_patterns=[*_FILES]))
    except Exception as error:  # the hub's client passes on all exceptions of its HTTP library
        raise InputError(
            f"{SENTENCES}:{name}: there is no such folder, and {repository} could not be downloaded from "
            f"huggingface.co ({first_line(error)}). Check the name and the connection, or name the folder of "
            f"a model (backbone={SENTENCES}:FOLDER)."
        ) from error
