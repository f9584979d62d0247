"""Slow references of metrics, and scores in blocks."""

from __future__ import annotations

import numpy as np

from spml.metrics import ScoreBlocks


def slow_sp(scores, observed, mean_labels, multiplicity=None):
    """The formula of the SP-score, sample by sample; `observed` is a list of lists in {-1, 0, +1}."""
    samples, classes = len(scores), len(scores[0])
    times = [1] * samples if multiplicity is None else multiplicity
    known = sum(row.count(1) for row in observed)
    k = max(1.0, mean_labels * samples / known)
    sum_v = sum_p = sum_a = 0.0
    for c in range(classes):
        positives = [i for i in range(samples) if observed[i][c] == 1]
        n_c = sum(times[i] for i in positives)
        if n_c == 0:
            continue
        p = u = 0.0
        for i in positives:
            ge = sum(scores[j][c] >= scores[i][c] for j in range(samples))
            gt = sum(scores[j][c] > scores[i][c] for j in range(samples))
            a = sum(times[j] for j in positives if j != i and scores[j][c] >= scores[i][c])
            p += times[i] * min(1.0, (1 + k * a) / ge)
            u += times[i] * (1 - (ge + gt) / (2 * samples))
        pi = min(0.5, n_c * k / samples)
        v = n_c / (n_c + 5)
        sum_v += v
        sum_p += v * p / n_c
        sum_a += v * (u / n_c - pi / 2) / (1 - pi)
    mean_p, mean_a = sum_p / sum_v, sum_a / sum_v
    return mean_p * max(mean_a, 0.01), mean_p, mean_a


def one_hot(index, classes):
    return np.eye(classes, dtype=np.int8)[index]


def in_blocks(scores, size, looks=None):
    """Blocks of `size` rows; the columns of each look are appended to `looks`."""

    def compute(columns):
        if looks is not None:
            looks.append(columns)
        for first in range(0, len(scores), size):
            block = scores[first : first + size]
            yield block if columns is None else block[:, columns]

    return ScoreBlocks(*scores.shape, compute)
