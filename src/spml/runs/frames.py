"""Results as DataFrames of pandas, which is imported when one is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..common.errors import missing_extra
from .decide.inferred_labels import PROBABILITY

if TYPE_CHECKING:
    from .compute.predict import Predictions


def history_frame(history: list[dict[str, Any]]) -> Any:
    """A row per entry of the history.

    Raises:
        InputError: pandas is not installed.
    """
    return _pandas().DataFrame(history)


def predictions_frame(predictions: Predictions) -> Any:
    """A row per sample: its labels, and scores and probabilities with the column names of CSV files.

    Raises:
        InputError: pandas is not installed.
    """
    if predictions.sparse:
        names = ("scores", "probabilities")
        lists = dict(zip(names, predictions.of_labels(), strict=False))
        index = _pandas().Index(list(predictions.ids), name="file")
        return _pandas().DataFrame({"labels": predictions.labels, **lists}, index=index)
    classes = list(predictions.classes)
    frame = _pandas().DataFrame(predictions.scores, index=list(predictions.ids), columns=classes)
    frame.index.name = "file"
    if predictions.probabilities is not None:
        more = type(frame)(
            predictions.probabilities, index=frame.index, columns=[PROBABILITY + name for name in classes]
        )
        frame = frame.join(more)
    frame.insert(0, "labels", predictions.labels, allow_duplicates=True)
    return frame


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise missing_extra("pandas", "tables") from error
    return pandas
