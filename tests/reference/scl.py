"""Verelst et al. 2023: the reading of SCL, one value at a time."""

from __future__ import annotations

import math

GOLDENS: list[tuple[str, object]] = []

Grid = list[list[float]]
Region = tuple[float, float, float, float, float]


def between(values: list[float | None], at: float) -> dict[int, float]:
    """Cells that a value at a share of the side is interpolated from, with weights above a thousandth."""
    place = min(max(at * len(values) - 0.5, 0.0), len(values) - 1.0)
    first = min(math.floor(place), len(values) - 1)
    weights = {first: 1 - (place - first), min(first + 1, len(values) - 1): place - first}
    return {cell: weight for cell, weight in weights.items() if weight > 1e-3} or {first: 1.0}


def at_point(grid: list[list[float | None]], x: float, y: float) -> float | None:
    """Bilinear value of a grid; None if a cell that it needs is."""
    total = 0.0
    for row, of_row in between([None] * len(grid), y).items():
        for column, of_column in between([None] * len(grid[0]), x).items():
            value = grid[row][column]
            if value is None:
                return None
            total += of_row * of_column * value
    return total


def as_shown(heat: list[list[float | None]], region: Region, positions: int) -> list[list[float | None]]:
    """T(H): the heat map at the positions of a view."""
    left, top, right, bottom, mirrored = region
    shown = []
    for i in range(positions):
        row = []
        for j in range(positions):
            x = (j + 0.5) / positions
            x = 1 - x if mirrored else x
            y = (i + 0.5) / positions
            row.append(at_point(heat, left + x * (right - left), top + y * (bottom - top)))
        shown.append(row)
    return shown


def updated(
    heat: list[list[float | None]], view: Grid, region: Region, decay: float
) -> list[list[float | None]]:
    """The heat map after a view with the probabilities `view`."""
    left, top, right, bottom, mirrored = region
    width, result = len(heat), [list(row) for row in heat]
    for i in range(width):
        for j in range(width):
            x = ((j + 0.5) / width - left) / (right - left)
            y = ((i + 0.5) / width - top) / (bottom - top)
            if 0 <= x <= 1 and 0 <= y <= 1:
                latest = at_point([*map(list, view)], 1 - x if mirrored else x, y)
                before = heat[i][j]
                result[i][j] = latest if before is None else decay * before + (1 - decay) * latest
    return result


def difference(
    heat: list[list[list[list[float | None]]]], views: list[list[Grid]], regions: list[Region]
) -> float:
    """Mean of |F - T(H)| over samples, classes and positions; 0 where H is not known."""
    total, count = 0.0, 0
    for maps, of_sample, region in zip(heat, views, regions, strict=True):
        for heat_map, view in zip(maps, of_sample, strict=True):
            expected = as_shown(heat_map, region, len(view))
            for row, expected_row in zip(view, expected, strict=True):
                for value, e in zip(row, expected_row, strict=True):
                    total += 0.0 if e is None else abs(value - e)
                    count += 1
    return total / count
