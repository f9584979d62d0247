"""What /openapi.json says about bodies and answers; the page /docs shows it."""

from __future__ import annotations

from typing import Any

from ..version import __version__
from .bodies import FIELD
from .service import Service

_PREDICTION = {
    "name": "photo.jpg",
    "labels": ["cat"],
    "scores": {"cat": 0.81, "dog": 0.12},
    "probabilities": {"cat": 0.93, "dog": 0.04},
}
_REFUSALS = {
    408: "The body took too long to arrive.",
    413: "Too many bytes in the request or in an image, or too many samples.",
    415: "A body of another kind than the model takes.",
    422: "A malformed body, an unknown or wrong parameter, or no sample that can be used.",
    429: "Too many samples wait. Retry-After says when to try again.",
    503: "Not answered in time, too many large requests at once, too little memory, or the server ends.",
}


def bodies(service: Service) -> dict[str, Any]:
    """Body of a request for predictions, for the model of a service."""
    image = {"type": "string", "format": "binary"}
    if service.takes_images:
        form = {"type": "object", "required": [FIELD], "properties": {FIELD: _list_of(image)}}
        return _body({"multipart/form-data": {"schema": form}, "image/*": {"schema": image}})
    if service.takes_texts:
        return _json("texts", {"type": "string"})
    rows: dict[str, Any] = {"type": "number"}
    for size in reversed(service.shape):
        rows = {**_list_of(rows), "minItems": size, "maxItems": size}
    return _json("features", rows)


def predictions() -> dict[int | str, Any]:
    """Answers to a request for predictions."""
    model = {"weights_sha256": "d2c1...", "thresholds_sha256": "90f3...", "spml": __version__}
    refusal = {"application/json": {"example": {"error": "What is wrong, and what to do."}}}
    return {
        **answer(
            "Samples in the order in which they came, with probabilities if they are known. A sample that "
            "can't be used has an error instead.",
            {"model": model, "predictions": [_PREDICTION]},
        ),
        **{status: {"description": reason, "content": refusal} for status, reason in _REFUSALS.items()},
    }


def answer(text: str, example: Any = None, *, media_type: str = "application/json") -> dict[int | str, Any]:
    """Answer with status 200."""
    content = {} if example is None else {"example": example}
    return {200: {"description": text, "content": {media_type: content}}}


def _body(content: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": content}}


def _json(field: str, items: dict[str, Any]) -> dict[str, Any]:
    body = {"type": "object", "required": [field], "properties": {field: _list_of(items)}}
    return _body({"application/json": {"schema": body}})


def _list_of(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}
