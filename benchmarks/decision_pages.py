"""Tables of what `decisions.py` measured: means over seeds, then over sets."""

from __future__ import annotations

import warnings

import numpy as np
from decision_models import AUTO, HEADS
from shared import markdown, table

AUDITS = "audits"
LISTS = ("100", "500", "(K-1)N")
PARTS = ("thresholds", "targets", "calibration", "missing", "stated", "K not stated")


def mean(values):
    """Mean over numbers, without NaN."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return float(np.nanmean(np.asarray(list(values), np.float64)))


def over_seeds(parts):
    """Mean of equal nested dictionaries, key by key; keys that one lacks are left out of its mean.

    None where no seed has a value.
    """
    if not isinstance(parts[0], dict):
        value = mean(parts)
        return None if np.isnan(value) else round(value, 3)
    keys = dict.fromkeys(key for part in parts for key in part)
    return {key: over_seeds([part[key] for part in parts if key in part]) for key in keys}


def summarise(kept):
    """Numbers of each hiding, set and model, and of audits."""
    found = {}
    for hiding, sets in kept.items():
        for name, seeds in sets.items():
            row = found.setdefault(hiding, {}).setdefault(name, {})
            for model in (*HEADS, AUDITS):
                parts = [parts[model] for parts in seeds.values() if model in parts]
                if parts:
                    keys = ("K", "priors") if model == AUDITS else PARTS
                    row[model] = over_seeds([{key: part[key] for key in keys} for part in parts])
                    row[model]["seeds"] = len(parts)
    return found


def at(rows, *keys):
    """Mean over sets of one number; NaN if no set has it."""
    values = []
    for row in rows:
        for key in keys:
            row = row.get(key) if isinstance(row, dict) else None
        if row is not None:
            values.append(row)
    return mean(values) if values else np.nan


def number(value, form=".1f"):
    """A number, or a dash."""
    return "-" if np.isnan(value) else format(value, form)


def pair(error, bias):
    """An error with its bias."""
    return f"{number(error)} ({number(bias, '+.1f')})"


def page(result):
    """The part of the page below its introduction."""
    found = result["measured"]
    blocks = [*by_hiding(found), *without_k(found)]
    for hiding, sets in found.items():
        blocks += [*stated(hiding, sets), *lists(hiding, sets), *audits(hiding, sets)]
    return markdown("## Tables", *blocks)


def by_hiding(found):
    """Tables with a column per model and hiding: means over sets."""
    columns = {
        f"{model}, {hiding} ({len(rows)} sets)": rows
        for model in HEADS
        for hiding, sets in found.items()
        if (rows := [row[model] for row in sets.values() if model in row])
    }

    def rows_of(part, cell):
        names = dict.fromkeys(key for rows in columns.values() for row in rows for key in row[part])
        return table(
            (part, *columns), [(name, *(cell(rows, name) for rows in columns.values())) for name in names]
        )

    def f1(rows, name):
        return " / ".join(number(at(rows, "thresholds", name, kind)) for kind in ("macro", "micro"))

    def error_and_total(rows, name):
        error, total = (number(at(rows, "calibration", name, key)) for key in ("error", "total"))
        return f"{error} ({total})"

    def right(rows, name):
        parts = [row["missing"][name] for row in rows if name in row["missing"]]
        text = number(at(parts, "true"))
        if name in LISTS:
            size = mean(abs(part["bias"]) for part in parts)
            biases = [number(at(parts, key), "+.1f") for key in ("bias", "bias audited")]
            text += f"; {biases[0]}, {size:.1f}; {biases[1]}"
        return text

    return [
        "### Thresholds: macro / micro F1 on the test samples",
        rows_of("thresholds", f1),
        "### Precision and recall reached where they are asked for, in percent",
        rows_of("targets", lambda rows, name: number(at(rows, "targets", name))),
        "### Probabilities: calibration error, in percent of the positives (error of the total)",
        rows_of("calibration", error_and_total),
        "### Missing labels: percent of the first ones that are right; bias of the expected percentage, and "
        "mean over sets of its size; bias with 50 audited rows",
        rows_of("missing", right),
    ]


def stated(hiding, sets):
    """Tables of precision and recall as they are stated, a row per set."""
    heads = [model for model in HEADS if any(model in row for row in sets.values())]
    blocks = []
    for what in ("precision", "recall"):
        rows = []
        for title, chosen in [*((name, [name]) for name in sets), ("mean", list(sets))]:
            cells = []
            for model in heads:
                parts = [sets[name][model]["stated"] for name in chosen if model in sets[name]]
                both = [
                    pair(*(at(parts, f"{what}, {where}", key) for key in ("error", "bias")))
                    for where in ("deciding", "test")
                ]
                cells.append("; ".join(both) if parts else "-")
            rows.append((title, *cells))
        blocks += [
            f"### {hiding}: error (bias) of stated {what}, in points",
            table(("set", *(f"{model}: deciding; test" for model in heads)), rows),
        ]
    return blocks


def lists(hiding, sets):
    """Table of lists of missing labels, a row per set."""
    heads = [model for model in HEADS if any(model in row for row in sets.values())]
    rows = []
    for name, row in sets.items():
        cells = []
        for model in heads:
            found = row.get(model, {}).get("missing", {})
            parts = ["{bias:+.0f} of {true:.0f}".format(**found[size]) for size in LISTS if size in found]
            cells.append(", ".join(parts) or "-")
        rows.append((f"{name} ({min(row[model]['seeds'] for model in heads if model in row)})", *cells))
    return [
        f"### {hiding}: bias of the expected percentage of right entries, by set, in points",
        table(("first 100, 500, (K-1)N (seeds): bias of right", *heads), rows),
    ]


def audits(hiding, sets):
    """Table of what audits of random rows say about K and about class shares."""
    columns = ["K r_c", "weights", "50 samples audited", "interval covers", "gamma warns"]
    columns += [f"K from {count} (covers)" for count in (50, 100, 200)]
    rows = []
    for title, chosen in [*((name, [row]) for name, row in sets.items()), ("mean", list(sets.values()))]:
        parts = [row[AUDITS] for row in chosen if AUDITS in row]
        cells = [
            number(at(parts, "priors", key))
            for key in ("shares", "50 rows audited", "interval covers", "gamma warns")
        ]
        cells.insert(1, number(at(chosen, AUTO, "stated", "class shares")))
        for count in ("50", "100", "200"):
            error, covered = (at(parts, "K", count, key) for key in ("error", "coverage"))
            cells.append(f"{number(error)} ({number(covered, '.0f')})")
        rows.append((title, *cells))
    title = f"### {hiding}: errors of class shares and K, in percent of the labels and of K"
    return [title, table(("set", *columns), rows)]


def without_k(found):
    """Table of what rules lose that do not know K."""
    uniform = {**found.get("uniform", {})}
    uniform |= {f"{name}, natural": row for name, row in found.get("natural", {}).items()}
    parts = {
        name: [row[model]["K not stated"] for model in HEADS if model in row] for name, row in uniform.items()
    }
    rules = list(next(iter(parts.values()))[0])[1:]
    rows = []
    for rule in rules:
        losses = {
            name: [at(own, "K known, EB5", kind) - at(own, rule, kind) for kind in ("macro", "micro")]
            for name, own in parts.items()
        }
        small = [loss for name, loss in losses.items() if name != "cal500"]
        cells = [np.mean(small, 0), np.max(small, 0), *losses.values()]
        rows.append((rule, *(" / ".join(f"{value:+.1f}" for value in cell) for cell in cells)))
    titles = ("rule", "mean without cal500", "worst without cal500", *parts)
    title = "### K not stated: macro / micro F1 lost to EB5 with the true K, mean over heads"
    return [title, table(titles, rows)]
