"""How full labels become observed ones: `hide` applies the rule that `DataConfig.observe` names."""

from __future__ import annotations

from ...config import DataConfig
from ...errors import InputError
from ...labels import ObservedLabels
from ..records import Records
from .rules import biased_positive, label_counts, label_share, questions, single_positive
from .settings import check_observe
from .weights import by_frequency, by_position, by_salience, by_size


def hide(records: Records, config: DataConfig) -> tuple[ObservedLabels, str]:
    """Hide labels as `config.observe` says, which is not `none`.

    The result depends on the labels (and boxes) and the seed only, and is the same on every platform.

    Args:
        records: fully labelled data.
        config: the fields that begin with `observe` are used; `check_observe` checks them.

    Returns:
        The labels that stay known, and one line that says what was done.

    Raises:
        InputError: the data is not fully labelled, or lacks what the rule needs.
    """
    rule, seed, labels = config.observe, config.observe_seed, records.labels
    if rule == "protocol":
        return _protocol(records)
    if not labels.full:
        raise InputError(
            f"{records.source}: data.observe={rule} hides labels of fully labelled data, but here a label "
            "that is not listed is unknown. If every true label is listed, say --data.unlisted negative; "
            "otherwise leave out data.observe."
        )
    drawn = f"drawn with seed {seed}."
    if rule == "single":
        return single_positive(labels, seed), f"Of each sample one positive label is observed, {drawn}"
    if rule == "counts":
        k, m = config.observe_positives, config.observe_negatives
        shown = label_counts(labels, k, m, seed)
        return shown, f"Of each sample up to {k} positive and {m} negative labels are observed, {drawn}"
    if rule == "fraction":
        shown = label_share(labels, config.observe_share, seed)
        known = int(shown.positives_per_class().sum() + shown.negatives_per_class().sum())
        return shown, (
            f"Of all {len(labels) * labels.num_classes:,} labels {known:,} are observed, each with "
            f"probability {config.observe_share:g}, {drawn}"
        )
    if rule == "questions":
        return questions(labels, seed), (
            "Of each sample classes are asked for in random order up to the first that is present: it is "
            f"observed, and those before it are known to be absent, {drawn}"
        )
    return _biased(records, config)


def _biased(records: Records, config: DataConfig) -> tuple[ObservedLabels, str]:
    """One positive per sample, of which some are preferred."""
    labels, rule, power, seed = records.labels, config.observe, config.observe_power, config.observe_seed
    if rule == "frequency":
        weights, by = by_frequency(labels, power), f"(frequency of its class)^{power:g}"
    elif rule == "salience":
        weights, by = (
            by_salience(labels, power, seed),
            f"a random salience of its class (log-normal, sigma {power:g})",
        )
    else:
        weigh = by_size if rule == "size" else by_position
        found = weigh(labels, records.objects, power) if records.objects is not None else None
        if found is None:
            raise InputError(
                f"{records.source}: data.observe={rule} needs boxes, and no label of this data has one. "
                "Boxes are read from COCO JSON and VOC XML; for other data choose another rule, such as "
                "--data.observe frequency."
            )
        measure = "area of its largest box" if rule == "size" else "closeness of its box to the centre"
        weights, by = found, f"({measure})^{power:g}"
    return biased_positive(labels, weights, seed), (
        f"Of each sample one positive label is observed, with a chance proportional to {by}, drawn with seed "
        f"{seed}."
    )


def _protocol(records: Records) -> tuple[ObservedLabels, str]:
    if records.protocol is None:
        raise InputError(
            f"{records.source}: data.observe=protocol takes what a benchmark's publication observed, but "
            "this data is no benchmark that has such a protocol. Choose another rule, such as "
            "--data.observe single."
        )
    return records.protocol, f"The observed labels are those of the published protocol of {records.name}."


__all__ = ["check_observe", "hide"]
