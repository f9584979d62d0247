"""Tables of what `decisions.py` measured: means over seeds, then over sets."""

from __future__ import annotations

import warnings

import numpy as np
from decision_measures import select
from decision_models import AUTO, GR, RIDGE, SOFTMAX

HEADS = (AUTO, SOFTMAX, RIDGE, GR)
# Figures of an earlier measurement with own code: 3 seeds, the same ten sets.
EARLIER = {
    "one global cut at K": ("33.6 / 58.1", "32.0 / 57.9", "31.8 / 56.3"),
    "EB5, cap 4x": ("39.0 / 58.0", "35.0 / 58.6", "40.2 / 53.6"),
    "expected macro F1 from p": ("40.0 / 50.4", "36.8 / 50.3", "40.8 / 43.9"),
    "all validation labels known": ("39.3 / 46.8", "37.2 / 40.4", "40.0 / 45.9"),
}


def mean(values):
    """Mean over numbers, without NaN."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return float(np.nanmean(np.asarray(list(values), np.float64)))


def over_seeds(parts):
    """Mean of equal nested dictionaries, key by key; keys that one lacks are left out of its mean."""
    if not isinstance(parts[0], dict):
        return round(mean(parts), 3)
    keys = dict.fromkeys(key for part in parts for key in part)
    return {key: over_seeds([part[key] for part in parts if key in part]) for key in keys}


def summarise(kept):
    """Numbers of each hiding, set and model, and of the selection among models."""
    found = {}
    for hiding, sets in kept.items():
        for name, seeds in sets.items():
            row = found.setdefault(hiding, {}).setdefault(name, {})
            for model in dict.fromkeys(model for parts in seeds.values() for model in parts):
                parts = [parts[model] for parts in seeds.values() if model in parts]
                parts = [{key: value for key, value in part.items() if key != "candidates"} for part in parts]
                row[model] = over_seeds(parts) | {"seeds": len(parts)}
            row["seeds"] = min(part["seeds"] for part in row.values())
            whole = [parts for parts in seeds.values() if all(model in parts for model in HEADS)]
            if whole:
                row["selection"] = {
                    "four models": over_seeds([_select(parts, HEADS) for parts in whole]),
                    "all solutions": over_seeds([_select(parts, None) for parts in whole]),
                }
    return found


def _select(parts, names):
    candidates = {key: row for model in HEADS for key, row in parts[model]["candidates"].items()}
    return select(candidates, list(names or candidates))


def at(rows, *keys):
    """Mean over sets of one number; NaN if no set has it."""
    values = []
    for row in rows:
        for key in keys:
            row = row.get(key) if isinstance(row, dict) else None
        if row is not None:
            values.append(row)
    return mean(values) if values else np.nan


def table(title, columns, rows):
    """Lines of a table."""
    lines = [f"| {' | '.join([title, *columns])} |", "|" + "---|" * (len(columns) + 1)]
    return [*lines, *(f"| {' | '.join([name, *cells])} |" for name, cells in rows), ""]


def number(value):
    """A number with one decimal, or a dash."""
    return "–" if np.isnan(value) else f"{value:.1f}"


def tables(found, models, networks):
    """Tables of thresholds, targets, calibration and missing labels of some models on feature sets, or on
    images."""
    by_hiding = {
        hiding: [row for row in sets.values() if (AUTO in row) != networks and GR in row]
        for hiding, sets in found.items()
    }
    pairs = [(model, hiding) for model in models for hiding in by_hiding if by_hiding[hiding]]
    columns = [f"{model}, {hiding}" for model, hiding in pairs]

    def rows_of(part, cell):
        names = dict.fromkeys(
            key for rows in by_hiding.values() for row in rows for model in models for key in row[model][part]
        )
        return [
            (name, [cell([row[model] for row in by_hiding[hiding]], name) for model, hiding in pairs])
            for name in names
        ]

    lines = ["### Thresholds: macro / micro F1 on the test samples", ""]
    lines += table(
        "rule",
        columns,
        rows_of(
            "thresholds",
            lambda rows, name: " / ".join(
                number(at(rows, "thresholds", name, kind)) for kind in ("macro", "micro")
            ),
        ),
    )
    if not networks:
        lines += ["The same rules as measured before, 3 seeds:", ""]
        earlier = [(name, list(cells)) for name, cells in EARLIER.items()]
        lines += table("rule", ["softmax, uniform", "softmax, frequency", "ridge, uniform"], earlier)
    lines += ["### Precision and recall reached where they are asked for, in percent", ""]
    lines += table("asked", columns, rows_of("targets", lambda rows, name: number(at(rows, "targets", name))))
    lines += ["### Probabilities: calibration error, in percent of the positives (error of the total)", ""]
    lines += table(
        "map",
        columns,
        rows_of(
            "calibration",
            lambda rows, name: (
                f"{number(at(rows, 'calibration', name, 'error'))} "
                f"({number(at(rows, 'calibration', name, 'total'))})"
            ),
        ),
    )
    lines += [
        "### Missing labels: true precision of the first of the list; bias of the expected one without and "
        "with 50 audited rows",
        "",
    ]

    def cell(rows, name):
        parts = [at(rows, "missing", name, key) for key in ("true", "bias", "bias audited")]
        if np.isnan(parts[1]):
            return number(parts[0])
        return f"{number(parts[0])}; {parts[1]:+.1f}, {parts[2]:+.1f}"

    lines += table("list", columns, rows_of("missing", cell))
    return lines


def audit_lines(found, names):
    """Table of what audits of random rows say about K and about class priors."""
    columns = ["error of K: 50, 100, 200 rows", "coverage: 50, 100, 200 rows"]
    for hiding in found:
        columns += [f"error of class priors, {hiding}: shares, audit", f"gamma warns, {hiding}"]
    rows = []
    for title, keys in [*((name, [name]) for name in names), ("mean", names)]:
        by_hiding = [
            [sets[key]["audits"] for key in keys if "audits" in sets.get(key, {})] for sets in found.values()
        ]
        every = [part for parts in by_hiding for part in parts]
        cells = [
            ", ".join(number(at(every, "K", count, key)) for count in ("50", "100", "200"))
            for key in ("error", "coverage")
        ]
        for parts in by_hiding:
            cells.append(", ".join(number(at(parts, "priors", key)) for key in ("shares", "50 rows audited")))
            cells.append(number(at(parts, "priors", "gamma warns")))
        rows.append((title, cells))
    return ["### Audits of random rows, in percent", "", *table("set", columns, rows)]


def selection_lines(found):
    """Table of what each way of selecting a model loses."""
    pairs = [(pool, hiding) for pool in ("four models", "all solutions") for hiding in found]
    rows = []
    for way in ["SP", *(f"{start}audit {n}" for n in (50, 100, 200) for start in ("", "SP + "))]:
        cells = [at(found[hiding].values(), "selection", pool, way) for pool, hiding in pairs]
        rows.append((way, ["–" if np.isnan(cell) else f"{cell:.2f}" for cell in cells]))
    return [
        "### Choice of a model: test mAP lost to the best of the candidates, in points",
        "",
        *table("selected by", [f"{pool}, {hiding}" for pool, hiding in pairs], rows),
    ]


def page(about, kept):
    """Numbers, and the tables of the page."""
    found = summarise(kept)
    names = list(dict.fromkeys(name for sets in found.values() for name in sets))
    networks = [name for name in names if not any(AUTO in sets.get(name, {}) for sets in found.values())]
    heads = [name for name in names if name not in networks]
    lines = [*tables(found, HEADS, False), *audit_lines(found, heads), *selection_lines(found)]
    for name in networks:
        own = {hiding: {name: sets[name]} for hiding, sets in found.items() if name in sets}
        lines += [f"## {name}: a network trained with GR", "", *tables(own, (GR,), True)]
    seeds = [(name, [str(sets.get(name, {}).get("seeds", 0)) for sets in found.values()]) for name in names]
    lines += ["## Seeds", "", *table("set", list(found), seeds)]
    return about | {"measured": found}, "\n".join(lines)
