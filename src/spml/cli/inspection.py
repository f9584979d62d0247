"""Report of `spml data inspect` on the terminal. Imported when the command runs, since it is not light."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from ..common.phrases import counted, first_few
from ..data.inspection.class_names import Finding
from ..data.inspection.report import Inspection
from .shared import new_table, print_table

_EXTENT = {
    "full": "every label is known",
    "partial": "some labels are known",
    "single-positive": "one positive label per sample is known, all others are unknown",
}
_FIRST_ROWS, _LAST_ROWS = 30, 10  # classes that are shown, the most and the least frequent
_LIMIT = 5  # findings of each kind that are shown


def print_inspection(inspection: Inspection) -> None:
    """Print counts, oddities and what training would say."""
    sizes = ", ".join(f"{name} {count:,}" for name, count in inspection.splits.items())
    split = sizes if "all" not in inspection.splits else "no split"
    noun = {"feature": "feature vector"}.get(inspection.kind, inspection.kind)
    groups = f"; {counted(inspection.groups, 'group')}" if inspection.groups else ""
    print(f"{inspection.name}: {counted(inspection.samples, noun)}; {split}{groups}")
    for note in inspection.notes:
        print(f"  {note}")
    counts = list(inspection.labels_per_sample)
    print(
        f"labels: {_EXTENT[inspection.extent]}; {inspection.mean_labels:.2f} known positives per sample "
        f"({min(counts)} to {max(counts)}); {counted(inspection.nothing_known, 'sample')} without any known "
        "label"
    )
    _print_label_means(inspection)
    _print_content(inspection)
    _print_classes(inspection)
    _print_imbalance(inspection)
    _print_names(inspection.names)
    _print_duplicates(inspection)
    if inspection.unreadable:
        unreadable, images = len(inspection.unreadable), counted(inspection.samples, "image")
        print(f"unreadable: {unreadable:,} of {images}")
        for name, reason in inspection.unreadable[:_LIMIT]:
            print(f"  {_printable(name)}: {reason}")
    for note in inspection.training:
        print(f"training: {note}")
    if inspection.refused:
        print(f"training is refused: {inspection.refused}")


def _print_label_means(inspection: Inspection) -> None:
    """Print how many labels are true, observed and hidden in each split, where training is possible."""
    if not inspection.label_means:
        return
    columns = {
        "positives": "positives",
        "negatives": "negatives",
        "observed_positives": "observed positives",
        "observed_negatives": "observed negatives",
        "hidden_positives": "hidden positives",
    }
    if any(means.wrong_positives for means in inspection.label_means.values()):
        columns["wrong_positives"] = "wrong positives"
    table = new_table(("mean per sample", "samples", *columns.values()))
    for split, means in inspection.label_means.items():
        values = (getattr(means, name) for name in columns)
        cells = ("unknown" if value is None else f"{value:.2f}" for value in values)
        table.add_row(split, f"{means.samples:,}", *cells)
    print()
    print_table(table)
    print()


def _print_content(inspection: Inspection) -> None:
    images, features = inspection.images, inspection.features
    if inspection.words:
        shortest, median, longest = inspection.words
        print(f"words: {shortest:,} to {longest:,} per text, median {median:,.0f}")
    if images:
        for side, sizes in (("width", images.width), ("height", images.height)):
            smallest, median, largest = sizes
            print(f"{side}: {smallest:,} to {largest:,} pixels, median {median:,.0f}")
        (tallest, low), (widest, high) = images.tallest, images.widest
        if low < high:
            print(f"width / height: {low:.2f} ({tallest}) to {high:.2f} ({widest})")
    if features:
        low, high = features.scales
        parts = f" (mean of {features.parts:,} parts)" if features.parts else ""
        print(
            f"features: {features.width:,} per sample{parts}, {features.density:.1%} of the values are not "
            f"0; {features.smallest:.4g} to {features.largest:.4g}; ranges of columns {low:.3g} to {high:.3g}"
        )
        if features.constant:
            count = counted(len(features.constant), "feature is", "features are")
            print(f"  {count} constant: columns {_first(features.constant)}")
        if features.non_finite:
            count = counted(features.non_finite, "value is", "values are")
            print(f"  {count} NaN or infinite: rows {_first(features.rows_non_finite)}")


def _print_classes(inspection: Inspection) -> None:
    splits = [name for name in inspection.splits if name != "all"]
    # The column would repeat that of the train split where no label is hidden and no sample held out.
    differs = any(c.training != c.by_split.get("train") for c in inspection.classes)
    with_training = not inspection.refused and differs
    training = ["training"] if with_training else []
    table = new_table(("class", "positive", "negative", "unknown", *splits, *training))
    table.columns[0].max_width = 40
    ranked = sorted(inspection.classes, key=lambda c: -c.positive)
    left_out = max(0, len(ranked) - _FIRST_ROWS - _LAST_ROWS)
    for row, c in enumerate(ranked):
        if left_out and row == _FIRST_ROWS:
            table.add_row("...")
        if left_out and _FIRST_ROWS <= row < len(ranked) - _LAST_ROWS:
            continue
        counts = [c.positive, c.negative, c.unknown, *(c.by_split[name] for name in splits)]
        if with_training:
            counts.append(c.training or 0)
        # Text, since a name in brackets would be treated as markup.
        table.add_row(Text(_printable(c.name)), *(f"{count:,}" for count in counts))
    print()
    print_table(table)
    if left_out:
        more = counted(left_out, "more class", "more classes")
        print(f"({more}; with --output, all are in classes.csv)")
    print()


def _print_imbalance(inspection: Inspection) -> None:
    imbalance = inspection.imbalance
    if imbalance:
        (most, many), (least, few), rare = imbalance["most"], imbalance["least"], imbalance["rare"]
        positives = counted(many, "positive")
        print(f"imbalance: {most!r} has {positives}, {least!r} {few:,}: {many / few:,.0f} to 1")
        if rare:
            print(
                f"  {counted(len(rare), 'class', 'classes')} with 1 to 9 positives: {_first(map(repr, rare))}"
            )
    for split, names in inspection.without_positive.items():
        if names:
            where = "" if split == "all" else f" in {split}"
            total = counted(len(inspection.classes), "class", "classes")
            print(f"no positive{where}: {len(names):,} of {total}: {_first(map(repr, names))}")


def _print_names(findings: Sequence[Finding]) -> None:
    by_problem: dict[str, list[str]] = {}
    for finding in findings:
        by_problem.setdefault(finding.problem, []).append(_first(map(repr, finding.names)))
    for problem, groups in by_problem.items():
        more = f" (and {len(groups) - _LIMIT:,} more)" if len(groups) > _LIMIT else ""
        print(f"class names, {problem}: {'; '.join(groups[:_LIMIT])}{more}")


def _print_duplicates(inspection: Inspection) -> None:
    groups = inspection.duplicates
    if not groups:
        print("duplicates: none")
        return
    surplus = sum(len(group.ids) - 1 for group in groups)
    across = [group for group in groups if group.across]
    differ = sum(group.labels_differ for group in groups)
    print(
        f"duplicates: {counted(len(groups), 'group')} of equal samples ({surplus:,} more samples than "
        f"contents); {counted(len(across), 'group')} in several splits; {differ:,} with different labels"
    )
    for group in (across or groups)[:_LIMIT]:
        members = (f"{name} ({split})" for name, split in zip(group.ids, group.splits, strict=True))
        print(f"  {_printable(_first(members))}")


def _printable(text: str) -> str:
    """Text from a file without the characters that steer a terminal."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def _first(values: Iterable[object]) -> str:
    return first_few(list(map(str, values)), _LIMIT)
