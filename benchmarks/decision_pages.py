"""Tables of what `decisions.py` measured: means over seeds, then over sets."""

from __future__ import annotations

import warnings

import numpy as np
from decision_measures import select
from decision_models import AUTO, GR, RIDGE, SOFTMAX

HEADS = (AUTO, SOFTMAX, RIDGE, GR)
AUDITS = "audits"
# Sets by their mean labels per sample, from 1.07 to 26.
BY_K = (
    "scene",
    "medical",
    "arxiv",
    "animals 224",
    "animals 448",
    "arxiv rich",
    "emotions",
    "bibtex",
    "enron",
)
BY_K = (*BY_K, "corel5k", "yeast", "cal500")
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


def stated_page(about, kept):
    """Numbers and tables of what is stated at thresholds and about lists, before and now."""
    found = {}
    for hiding, sets in kept.items():
        for name, seeds in sets.items():
            for model in HEADS:
                parts = [parts[model] for parts in seeds.values() if "stated" in parts.get(model, {})]
                if parts:
                    keys = ("stated", "missing", "K not stated", "calibration")
                    row = over_seeds([{key: part[key] for key in keys} for part in parts])
                    found.setdefault(hiding, {}).setdefault(name, {})[model] = row | {"seeds": len(parts)}
    lines = []
    for hiding, sets in found.items():
        heads = [model for model in HEADS if any(model in row for row in sets.values())]
        lines += [f"### {hiding}: error (bias) of stated precision, in points, before -> now", ""]
        lines += _stated_table(sets, heads, "precision")
        lines += [f"### {hiding}: error (bias) of stated recall, in points, before -> now", ""]
        lines += _stated_table(sets, heads, "recall")
        lines += [f"### {hiding}: lists of missing labels: right; bias and error per class of the yield", ""]
        rows = []
        for size in ("100", "500", "(K-1)N"):
            cells = []
            for model in heads:
                parts = [
                    row[model]["missing"]
                    for row in sets.values()
                    if size in row.get(model, {}).get("missing", {})
                ]
                true, bias, error = (at(parts, size, key) for key in ("true", "bias", "error per class"))
                audited = at(parts, size, "bias audited")
                cells.append(f"{true:.1f}; {bias:+.1f} ({audited:+.1f} audited), {error:.1f}")
            rows.append((size, cells))
        lines += table("first entries, mean over sets", heads, rows)
        lines += [f"### {hiding}: calibration error of probabilities, in percent of the positives", ""]
        names = ["IPW isotonic", "IPW isotonic, 50 rows audited"]
        rows = [
            (
                name,
                [
                    number(at([row[m] for row in sets.values() if m in row], "calibration", name, "error"))
                    for m in heads
                ],
            )
            for name in names
        ]
        lines += table("map, mean over sets", heads, rows)
    uniform = found.get("uniform", {}) | {
        f"{name}, natural": row for name, row in found.get("natural", {}).items()
    }
    lines += ["### K not stated: macro / micro F1 lost to EB5 with the true K, mean over heads", ""]
    names = sorted(uniform, key=lambda name: BY_K.index(name.removesuffix(", natural")))
    rules = list(next(iter(next(iter(uniform.values())).values()))["K not stated"])[1:]
    rows = []
    for rule in rules:
        losses = []
        for name in names:
            gaps = [
                [
                    part["K not stated"]["K known, EB5"][kind] - part["K not stated"][rule][kind]
                    for kind in ("macro", "micro")
                ]
                for part in uniform[name].values()
                if isinstance(part, dict)
            ]
            losses.append(np.mean(gaps, 0))
        small = [loss for name, loss in zip(names, losses, strict=True) if name != "cal500"]
        cells = [_pair(np.mean(small, 0)), _pair(np.max(small, 0)), *map(_pair, losses)]
        rows.append((rule, cells))
    lines += table("rule", ["mean without cal500", "worst without cal500", *names], rows)
    return about | {"measured": found}, "\n".join(lines)


def _stated_table(sets, heads, what):
    """Table of errors on the samples that decide and on test samples, a row per set."""
    rows = []
    for title, chosen in [*((name, [name]) for name in sets), ("mean", list(sets))]:
        cells = []
        for model in heads:
            parts = [sets[name][model] for name in chosen if model in sets[name]]
            if not parts:
                cells.append("–")
                continue
            texts = []
            for where in ("deciding", "test"):
                before, now = (
                    [at(parts, "stated", f"{what}, {where}, {when}", key) for key in ("error", "bias")]
                    for when in ("before", "now")
                )
                texts.append(f"{before[0]:.1f} ({before[1]:+.1f}) -> {now[0]:.1f} ({now[1]:+.1f})")
            if what == "precision":
                priors = [at(parts, "stated", "priors", when) for when in ("before", "now")]
                texts.append(f"{priors[0]:.1f} -> {priors[1]:.1f}")
            cells.append("; ".join(texts))
        rows.append((title, cells))
    columns = "deciding; test" + ("; class priors" if what == "precision" else "")
    return table("set", [f"{model}: {columns}" for model in heads], rows)


def _pair(values):
    return " / ".join(f"{value:+.1f}" for value in values)


def estimates_page(about, kept):
    """Numbers and tables of the estimates of this version: lists, precision and class shares."""
    found = {}
    for hiding, sets in kept.items():
        for name, seeds in sets.items():
            for model in (*HEADS, AUDITS):
                parts = [parts[model] for parts in seeds.values() if model in parts]
                if parts:
                    keys = ("stated", "missing", "calibration", "K not stated")
                    keys = ("K", "priors") if model == AUDITS else keys
                    row = over_seeds([{key: part[key] for key in keys} for part in parts])
                    found.setdefault(hiding, {}).setdefault(name, {})[model] = row | {"seeds": len(parts)}
    lines = []
    for hiding, sets in found.items():
        heads = [model for model in HEADS if any(model in row for row in sets.values())]
        columns = []
        for model in heads:
            rows = [row[model]["seeds"] for row in sets.values() if model in row]
            seeds = f"{min(rows)}" if min(rows) == max(rows) else f"{min(rows)} to {max(rows)}"
            columns.append(f"{model} (sets {len(rows)}, seeds {seeds})")
        lines += [f"### {hiding}: right in percent; bias, and mean over sets of its size, in points", ""]
        rows = []
        for size in ("100", "500", "(K-1)N"):
            cells = []
            for model in heads:
                parts = [row[model]["missing"] for row in sets.values() if model in row]
                own = [part[size] for part in parts if size in part]
                numbers = (
                    mean(part["true"] for part in own),
                    mean(part["bias"] for part in own),
                    mean(abs(part["bias"]) for part in own),
                )
                cells.append("{:.1f}; {:+.1f}, {:.1f}".format(*numbers))
            rows.append((f"first {size}", cells))
        for where in ("deciding", "test"):
            cells = []
            for model in heads:
                own = [
                    row[model]["stated"][f"precision, {where}, now"] for row in sets.values() if model in row
                ]
                error, bias = (mean(part[key] for part in own) for key in ("error", "bias"))
                cells.append(f"{error:.1f} ({bias:+.1f})")
            rows.append((f"precision, {where} samples: error (bias)", cells))
        lines += table("mean over sets", columns, rows)
        audits = {name: row[AUDITS] for name, row in sets.items() if AUDITS in row}
        if audits:
            lines += [f"### {hiding}: class shares and K, in percent of the labels and of K", ""]
            rows = [
                (
                    name,
                    [
                        number(row["priors"][key])
                        for key in ("shares", "50 rows audited", "interval covers", "gamma warns")
                    ]
                    + [f"{row['K'][m]['error']:.1f} ({row['K'][m]['coverage']:.0f})" for m in ("50", "100")],
                )
                for name, row in [*audits.items(), ("mean", over_seeds(list(audits.values())))]
            ]
            columns = ["K r_c", "50 samples audited", "interval covers", "gamma warns"]
            lines += table("set", [*columns, "K from 50 (covers)", "K from 100 (covers)"], rows)
        lines += [f"### {hiding}: bias of the expected share of right entries, by set, in points", ""]
        rows = [
            (
                name,
                [
                    ", ".join(
                        "{bias:+.0f} of {true:.0f}".format(**row[model]["missing"][size])
                        for size in ("100", "500", "(K-1)N")
                        if size in row.get(model, {}).get("missing", {})
                    )
                    for model in heads
                ],
            )
            for name, row in sets.items()
        ]
        lines += table("first 100, 500, (K-1)N: bias of right", heads, rows)
    return about | {"measured": found}, "\n".join(lines)
