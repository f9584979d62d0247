"""Verelst et al. 2023: EN, the selection of negatives. Its loss is IU (see `baselines`)."""

from __future__ import annotations

GOLDENS: list[tuple[str, object]] = []


def expected_negatives(
    observed: list[list[int]], average: list[list[float]], mean_labels: float
) -> list[list[int]]:
    """1 where an unknown label becomes a negative: per class the N - N_i - (known negatives) lowest averages.

    N_i = round(K N n_i / sum n), with n_i known positives of class i.
    """
    rows, classes = len(observed), len(observed[0])
    positives = [sum(row[c] == 1 for row in observed) for c in range(classes)]
    chosen = [[0] * classes for _ in range(rows)]
    for c in range(classes):
        expected = round(mean_labels * rows * positives[c] / sum(positives))
        negatives = rows - expected - sum(row[c] == -1 for row in observed)
        unknown = [r for r in range(rows) if observed[r][c] == 0]
        for r in sorted(unknown, key=lambda r: average[r][c])[: max(negatives, 0)]:
            chosen[r][c] = 1
    return chosen
