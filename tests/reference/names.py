"""Slow references for scores of names of classes: loops over images and classes, in float64."""

from __future__ import annotations

import math

import numpy as np

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


def lda_of_names(windows, images, texts, temperature, share=0.25, fewest=2, penalty=5.0):
    """Scores of images by LDA on the windows of which each name is surest; 0 for a class without a name."""
    named = [row for row, text in enumerate(texts) if any(text)]
    log_p = name_scores("names_softmax", windows, texts, temperature)
    entropy = [-sum(math.exp(row[c]) * row[c] for c in named) for row in log_p]
    most = max(fewest, int(share * len(windows) / len(named)))
    chosen = {}
    for c in named:
        own = [i for i, row in enumerate(log_p) if all(row[c] > row[other] for other in named if other != c)]
        own = sorted(own, key=lambda i: entropy[i])[:most]
        if len(own) < fewest:
            own = sorted(range(len(windows)), key=lambda i: -log_p[i][c])[:fewest]
        chosen[c] = own
    unit = [np.asarray(row) / math.sqrt(sum(value * value for value in row)) for row in windows]
    used = sorted({i for own in chosen.values() for i in own})
    mean = sum(unit[i] for i in used) / len(used)
    covariance = sum(np.outer(unit[i] - mean, unit[i] - mean) for i in used) / len(used)
    covariance = covariance + penalty * np.trace(covariance) / len(mean) * np.eye(len(mean))
    result = []
    for image in images:
        x = np.asarray(image) / math.sqrt(sum(value * value for value in image)) - mean
        outputs = {}
        for c, own in chosen.items():
            centre = sum(unit[i] for i in own) / len(own) - mean
            weight = np.linalg.solve(covariance, centre)
            outputs[c] = x @ weight - centre @ weight / 2 + math.log((len(own) + 0.5) / len(used))
        total = math.log(sum(math.exp(value) for value in outputs.values()))
        result.append([outputs[c] - total if c in outputs else 0.0 for c in range(len(texts))])
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
