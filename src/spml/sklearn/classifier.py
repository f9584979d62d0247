"""`SinglePositiveClassifier`: `spml.train` and `Run.predict` as a classifier of scikit-learn."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.torch import save
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.validation import check_is_fitted

from ..common.errors import InputError
from ..config import AUTO
from ..config.read import from_arguments, text_columns
from ..data import list_samples
from ..decisions import encode_policy
from ..labels import Unlisted
from ..models import CLOSED_FORM
from ..runs.api import import_own_method, train
from ..runs.folder.layout import MODEL, THRESHOLDS, holds_run
from ..runs.predict.batches import Engine
from ..runs.run import Run, load
from ..version import __version__
from .inputs import read_labels, validated
from .scorers import map_of, sp_of

_WEIGHTS, _CARD = MODEL
_FORMAT = 2
"""Version of the state that is pickled."""

_SETTINGS = (
    *("method", "head", "backbone", "weights", "frozen"),
    *("lr", "epochs", "batch_size", "mean_labels", "hp"),
)
"""Arguments that are settings of a run under the same name."""


class SinglePositiveClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Multi-label classifier that learns from one known label per sample, or from any part of the labels.

    `fit` trains as `spml.train` does, with a fifth of the samples held out for selection and thresholds. `X`
    holds features (N, D), dense or sparse, or images as in `spml.train`: a list of paths, PIL images or uint8
    arrays, a uint8 array (N, H, W, 3), or a torch Dataset; or, as `text` says, texts.

    It scores all classes together, so it needs no `OneVsRestClassifier`, and does not work in a
    `MultiOutputClassifier`.

    Args:
        method: Registered method; `spml methods` lists them. `auto` = as `spml train` decides where none is
            stated: heads are solved in closed form and averaged on features and on a pretrained backbone
            that stays as it is; otherwise the default method is trained. To fine-tune a network from heads
            that were solved, pass `frozen="no"` and `settings={"method": "auto"}`.
        head: As in `spml train`: `auto`, `linear`, `mlp`, `ridge`, `lda` and others.
        backbone: Any timm model, for images; `auto` picks by the data.
        weights: `pretrained` (downloaded by timm), `random`, or a .safetensors file, for images.
        frozen: `yes`, `no` or `auto`, for images: whether the backbone stays as it is.
        lr: Learning rate; None = by model and features. Without effect where a head is solved, which a
            warning says.
        epochs: Number of passes over the training samples, likewise.
        batch_size: Samples per step of training.
        mean_labels: Mean labels per sample K, if known. Then probabilities are calibrated.
        hp: Hyper-parameters of the method, by name.
        text: Columns of a DataFrame that hold the text of a sample, as a list or after commas
            (`title,abstract`). True = X is a list, an array or a Series of texts. Otherwise strings in X are
            paths of images.
        unlisted: Meaning of a 0 in a matrix of {0, 1}, and of a label that is not in a list: `unknown` or
            `negative`.
        classes: All classes, where some samples may lack one; None = those in `y`, sorted.
        settings: Further settings, nested as in config.yaml: `{"data": {"val_share": 0.1}}`.
        output: Folder for the run, such as `spml.train` writes; None = nothing is kept on disk.
        device: `auto`, `cpu`, `cuda` or `mps`, for training and prediction.
        verbose: Show progress on standard error.
        random_state: Seed of training and of the split; an instance of RandomState, or None, draws one.

    Attributes:
        classes_: Classes (C,), in the order of the columns of all results: the values in `y`, or the names
            or numbers of the columns of a matrix.
        n_features_in_: Number of features; not there after fitting to images or texts.
        feature_names_in_: Names of the features, if `X` was a DataFrame.
        summary_: Content of the summary.json of the run.

    Example:
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> classifier = SinglePositiveClassifier(head="ridge", mean_labels=1).fit(X[:500], y[:500])
        >>> classifier.predict(X[500:502]).shape
        (2, 10)
    """

    def __init__(
        self,
        method: str = "auto",
        *,
        head: str = "auto",
        backbone: str = "auto",
        weights: str | Path = "pretrained",
        frozen: str = "auto",
        lr: float | None = None,
        epochs: int = 20,
        batch_size: int = 64,
        mean_labels: float | None = None,
        hp: Mapping[str, Any] | None = None,
        text: str | Sequence[str] | bool = False,
        unlisted: Unlisted = "unknown",
        classes: Sequence[Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        output: str | Path | None = None,
        device: str = "auto",
        verbose: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.method = method
        self.head = head
        self.backbone = backbone
        self.weights = weights
        self.frozen = frozen
        self.lr = lr
        self.epochs = epochs
        self.batch_size = batch_size
        self.mean_labels = mean_labels
        self.hp = hp
        self.text = text
        self.unlisted = unlisted
        self.classes = classes
        self.settings = settings
        self.output = output
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None) -> SinglePositiveClassifier:
        """Train on samples of which some labels are known.

        Args:
            X: Samples.
            y: What is known of their labels:

                - one class per sample (N,): names, numbers, or positions in `classes`;
                - for each sample a list of classes;
                - a matrix (N, C), as an array, SciPy matrix or DataFrame: {0, 1}, where 0 means what
                  `unlisted` says; {-1, 0, 1} with 0 for unknown; or {0, 1, NaN} with NaN for unknown.

            groups: Group of each sample, as text or numbers, such as its patient or recording. The samples
                that are held out for selection and thresholds are whole groups. None = each is alone.

        Returns:
            The classifier itself.

        Raises:
            InputError: A setting or the data does not suit; it is a ValueError.
            ValueError, TypeError: The same, found and worded by scikit-learn.
            SpmlError: Training failed.
        """
        samples = validated(self, X, reset=True)
        if y is None:
            raise InputError("SinglePositiveClassifier requires y to be passed, but the target y is None.")
        labels = read_labels(y, self.classes, self.unlisted)
        check_consistent_length(samples, labels.content, groups)
        if len(labels.classes) < 2:
            raise InputError(
                f"y has 1 class ({labels.classes[0]}), but at least 2 are needed. If other samples have "
                "more, list all of them: classes=[...]."
            )
        settings = self._run_settings()
        with TemporaryDirectory(prefix="spml-") as temporary:
            folder = Path(temporary, "run") if self.output is None else Path(self.output)
            if holds_run(folder):
                raise InputError(f"output: {folder} holds a run already: name another folder, or remove it.")
            run = train(
                samples,
                labels.content,
                classes=labels.names,
                groups=groups,
                output=str(folder),
                pictures=self.output is not None,
                quiet=not self.verbose,
                **settings,
            )
            config = run.config
            assert config is not None
            # Candidates are those of a network that was fine-tuned.
            solved = config.method == AUTO or config.model.head in CLOSED_FORM
            solved = solved and not run.summary.get("candidates")
            idle = [name for name in ("lr", "epochs") if name in self._stated()]
            if solved and idle:
                warnings.warn(
                    f"the head is solved, not trained, without {' and '.join(idle)}: name a method to train "
                    "one.",
                    stacklevel=2,
                )
            position = {name: k for k, name in enumerate(labels.names)}
            self.classes_ = labels.classes[[position[name] for name in run.classes]]
            self.summary_ = run.summary
            self._unlisted = labels.unlisted
            self._run = _detach(run)
        self._binary = self.classes is None and labels.content.ndim == 1 and labels.classes.tolist() == [0, 1]
        return self

    def predict(self, X: Any) -> npt.NDArray[np.int64]:
        """Predict every label of samples, at the thresholds of the run.

        Args:
            X: Samples of the kind that the classifier was fitted to.

        Returns:
            Label indicators, int64 (N, C) in {0, 1}, whatever the form of `y` in `fit` was.

        Raises:
            NotFittedError: `fit` was not called.
            InputError: X does not suit, or an image can't be read; it is a ValueError.
            ValueError, TypeError: The same, found and worded by scikit-learn.
        """
        logits = self._logits(X)
        return self._run.decision()(logits).astype(np.int64)

    def predict_proba(self, X: Any) -> npt.NDArray[np.float32]:
        """Predict the probability of every label.

        Args:
            X: Samples, as in `predict`.

        Returns:
            Float32 (N, C) in [0, 1]; rows do not sum to 1. Calibrated probabilities where K is known: stated
            as `mean_labels`, or counted in full labels. Otherwise scores, which rank only.

        Raises:
            NotFittedError, InputError, ValueError, TypeError: As in `predict`.
        """
        logits = self._logits(X)
        probabilities = self._run.calibrated(logits)
        return self._run.probabilities(logits) if probabilities is None else probabilities

    def decision_function(self, X: Any) -> npt.NDArray[np.float32]:
        """Compute the logit of every label.

        Args:
            X: Samples, as in `predict`.

        Returns:
            Float32 (N, C), also for two classes; but (N,), the logit of 1 minus that of 0, if the `y` of
            `fit` was one 0 or 1 per sample, which scikit-learn and its `OneVsRestClassifier` take for one
            label.

        Raises:
            NotFittedError, InputError, ValueError, TypeError: As in `predict`.
        """
        logits = self._logits(X)
        if not vars(self).get("_binary"):
            return logits
        one = self.classes_.tolist().index(1)
        return logits[:, one] - logits[:, 1 - one]

    def _logits(self, X: Any) -> npt.NDArray[np.float32]:
        check_is_fitted(self)
        samples = validated(self, X, reset=False)
        spec = self._run.spec
        text = text_columns(self.text)
        ids, inputs = list_samples(samples, text, size=spec.size, interpolation=spec.interpolation)
        batches = list(self._run.stream(inputs, Engine(device=self.device, cache="none")))
        for batch in batches:
            for row, reason in batch.unreadable.items():
                raise InputError(f"X[{row}] ({ids[row]}): {reason}. Leave this image out.")
        return np.concatenate([batch.logits for batch in batches])

    def score(self, X: Any, y: Any) -> float:
        """Measure the mAP where `y` holds all labels, and otherwise the SP-score.

        Args:
            X: Samples, as in `predict`.
            y: Labels, as in `fit`; a 0 of a matrix has the meaning that it had there.

        Returns:
            mAP in [0, 1], or the SP-score at K = `mean_labels`, 0 or more (`spml.metrics.sp_score`). The two
            can't be compared with each other.

        Raises:
            NotFittedError, InputError, ValueError, TypeError: As in `predict`; or a label is not among
                `classes_`, or none is a known positive.
        """
        check_is_fitted(self)
        labels = read_labels(y, self.classes_, self._unlisted).observed()
        scores = self._logits(X)
        check_consistent_length(scores, labels)
        return map_of(scores, labels) if labels.full else sp_of(scores, labels, self.mean_labels)

    def __sklearn_tags__(self) -> Any:
        """Tags for scikit-learn: sparse features, several labels per sample and stated texts are fine."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.string = bool(self.text)
        tags.classifier_tags.multi_label = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a model; a `fit` that failed may have left other attributes."""
        return "_run" in vars(self)

    def __getstate__(self) -> dict[str, Any]:
        """Plain data for a pickle; the model as the content of its files, with the weights as safetensors."""
        state = {name: value for name, value in vars(self).items() if name != "_run"}
        if "_run" in vars(self):
            weights = self._run.model.classifier.state_dict()
            state["_files"] = {
                _CARD: json.dumps(self._run.card).encode(),
                _WEIGHTS: save(
                    {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
                ),
                THRESHOLDS: encode_policy(self._run.thresholds),
            }
        return {**state, "_format": _FORMAT, "_spml": __version__}

    def __setstate__(self, state: Any) -> None:
        """Restore a pickled classifier; the model is built and checked as `spml.load` does.

        Raises:
            InputError: The pickle is of another version of spml, or damaged.
        """
        found = state.get("_format") if isinstance(state, Mapping) else None
        if found != _FORMAT:
            writer = f"spml {state['_spml']}" if found and "_spml" in state else "another version of spml"
            raise InputError(
                f"a pickled {type(self).__name__} was written by {writer} in format {found}, but spml "
                f"{__version__} reads format {_FORMAT}: load it with the version that wrote it, or fit again."
            )
        files = state.get("_files")
        self.__dict__.update({name: value for name, value in state.items() if name not in _ONLY_IN_PICKLES})
        if files is None:
            return
        with TemporaryDirectory(prefix="spml-") as name:
            folder = Path(name)
            try:
                for file in (_CARD, _WEIGHTS, THRESHOLDS):
                    (folder / file).write_bytes(files[file])
                self._run = _detach(load(folder))
            except (InputError, LookupError, TypeError) as error:
                reason = str(error).replace(f"{folder}/", "")
                raise InputError(f"the pickled model is damaged ({reason}). Fit it again.") from error

    def _stated(self) -> dict[str, Any]:
        """Arguments that are settings of a run and differ from their defaults."""
        parameters = inspect.signature(SinglePositiveClassifier).parameters
        arguments = {name: _plain(getattr(self, name)) for name in _SETTINGS}
        return {name: value for name, value in arguments.items() if value != parameters[name].default}

    def _run_settings(self) -> dict[str, Any]:
        """Settings of the run, nested."""
        stated = self._stated()
        if not isinstance(self.settings, (Mapping, type(None))):
            raise InputError(f"settings must be settings by name, got {self.settings!r}.")
        further = _plain(self.settings or {})
        own = {name: name for name in (*stated, "output")}
        own |= {"seed": "random_state", "accelerator": "device"}
        for name in further:
            if name in own:
                raise InputError(f"settings: {name!r} is set by the argument {own[name]}: leave it out.")
        if "devices" in further:
            raise InputError(
                "settings: 'devices' starts this program several times, which a classifier can't do: leave "
                "it out, or use spml.train."
            )
        seed = _plain(self.random_state)
        if not isinstance(seed, int):
            seed = int(check_random_state(seed).randint(np.iinfo(np.int32).max))
        result = from_arguments({**stated, **further})
        import_own_method(result)
        data = result.setdefault("data", {})
        if isinstance(data, dict):
            if "text" in data:
                raise InputError("settings: 'data.text' is set by the argument text: leave it out.")
            own_data = {"split_seed": seed, "unlisted": self.unlisted, "text": text_columns(self.text)}
            result["data"] = {**own_data, **data}
        return {**result, "seed": seed, "accelerator": self.device}


_ONLY_IN_PICKLES = ("_files", "_format", "_spml")


def _plain(value: Any) -> Any:
    """A value without types of NumPy, which come from the grids of searches."""
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value


def _detach(run: Run) -> Run:
    """Read what a run needs for predictions, so that its folder can be removed."""
    vars(run)["calibration"] = run.thresholds.calibrated
    vars(run)["config"] = None  # says where features are kept, which a model without a folder does not do
    return run
