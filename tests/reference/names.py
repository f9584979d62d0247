"""Slow references for scores of names of classes: loops over images and classes, in float64."""

from __future__ import annotations

import math

GOLDENS: list[tuple[str, object]] = []


def cosine(image, text):
    """Cosine of two vectors; 0 if one is 0."""
    lengths = math.sqrt(sum(x * x for x in image)) * math.sqrt(sum(x * x for x in text))
    return sum(x * y for x, y in zip(image, text, strict=True)) / lengths if lengths else 0.0


def name_scores(form, images, texts, temperature):
    """Scores of every image for every name; 0 for a class without one, whose text is 0."""
    named = [row for row, text in enumerate(texts) if any(text)]
    result = []
    for image in images:
        cosines = {row: cosine(image, texts[row]) for row in named}
        scores = [0.0] * len(texts)
        if form == "names":
            mean = sum(cosines.values()) / len(named)
            deviation = math.sqrt(sum((value - mean) ** 2 for value in cosines.values()) / len(named))
            for row in named:
                scores[row] = (cosines[row] - mean) / deviation
        else:
            total = sum(math.exp(temperature * value) for value in cosines.values())
            for row in named:
                scores[row] = math.log(math.exp(temperature * cosines[row]) / total)
        result.append(scores)
    return result


def sum_with_names(members, weights, held_out, used):
    """Sum over members of weight times score, standardised by the mean and deviation over held-out images.

    `members` and `held_out` are lists over members, images, classes; `used[m][c]` says whether member m says
    anything about class c.
    """
    classes = range(len(members[0][0]))
    result = [[0.0 for _ in classes] for _ in members[0]]
    for scores, weight, held, use in zip(members, weights, held_out, used, strict=True):
        for c in classes:
            if not use[c]:
                continue
            column = [row[c] for row in held]
            mean = sum(column) / len(column)
            deviation = math.sqrt(sum((value - mean) ** 2 for value in column) / len(column))
            for row, own in zip(scores, result, strict=True):
                own[c] += weight * (row[c] - mean) / max(deviation, 1e-6)
    return result
