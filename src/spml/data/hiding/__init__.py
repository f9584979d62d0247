"""Hiding: which labels of fully labelled data stay observed, for experiments with single positives."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ...common.errors import InputError, quoted
from ...config import DataConfig
from ...labels import ObservedLabels
from ..records import Records
from . import rules

_QUANTITIES = {
    "frequency": "(frequency of its class)^{:g}",
    "salience": "a random salience of its class (log-normal, sigma {:g})",
    "size": "(area of its largest box)^{:g}",
    "position": "(closeness of its box to the centre)^{:g}",
}
"""To what the rules that weigh the positives make the probability proportional."""

_ADDITIONS = ("observe_all_negatives", "observe_noise")

USES: dict[str, tuple[str, ...]] = {
    "single": _ADDITIONS,
    "counts": ("observe_positives", "observe_negatives"),
    "fraction": ("observe_share",),
    **dict.fromkeys(_QUANTITIES, ("observe_power", *_ADDITIONS)),
    "protocol": _ADDITIONS,
}
"""Settings that each rule uses, apart from the seed."""


def hide(records: Records, config: DataConfig) -> tuple[ObservedLabels, str]:
    """Hide labels by the rule `config.observe`, which must not be `none`.

    The result depends on the labels (and boxes) and the seed only.

    Args:
        records: Fully labelled data.
        config: Data settings, checked by `check_observe`; only those that begin with `observe` are used.

    Returns:
        The labels that stay observed, and a line that describes them.

    Raises:
        InputError: The data is not fully labelled, or lacks what the rule needs.
    """
    labels, seed = records.labels, config.observe_seed
    if config.observe != "protocol":
        observed, note = _by_rule(records, config)
    elif records.protocol is None:
        raise InputError(
            f"{records.source}: data.observe=protocol takes the labels that a benchmark's publication "
            "observed, but this data is not such a benchmark. Choose another rule, such as --data.observe "
            "single."
        )
    else:  # a benchmark, whose labels are always full
        observed = records.protocol
        note = f"The observed labels are those of the published protocol of {records.name}."
    if config.observe_noise:
        known = int(observed.positives_per_class().sum())
        observed, wrong = rules.with_wrong_positives(observed, labels, config.observe_noise, seed)
        note += (
            f" {wrong:,} of the {known:,} observed positives are wrong on purpose: a label that is absent "
            f"replaces each with probability {config.observe_noise:g}, drawn with seed {seed}."
        )
    if config.observe_all_negatives:
        observed = rules.with_all_negatives(observed, labels)
        note += " Every true negative is observed, too."
    return observed, note


def _by_rule(records: Records, config: DataConfig) -> tuple[ObservedLabels, str]:
    rule, seed, labels = config.observe, config.observe_seed, records.labels
    if not labels.full:
        raise InputError(
            f"{records.source}: data.observe={rule} hides labels of fully labelled data, but in this data a "
            "label that is not listed is unknown. If every true label is listed, pass --data.unlisted "
            "negative; otherwise leave out data.observe."
        )
    summary = "One positive label per sample is observed"
    if rule == "single":
        observed = rules.single_positive(labels, seed)
    elif rule == "counts":
        k, m = config.observe_positives, config.observe_negatives
        observed = rules.label_counts(labels, k, m, seed)
        summary = f"Up to {k} positive and {m} negative labels per sample are observed"
    elif rule == "fraction":
        observed = rules.label_share(labels, config.observe_share, seed)
        summary = (
            f"{int(observed.known_per_sample().sum()):,} of {len(labels) * labels.num_classes:,} labels are "
            f"observed, each with probability {config.observe_share:g}"
        )
    elif rule == "questions":
        observed = rules.questions(labels, seed)
        summary = (
            "For each sample, classes are asked for in random order until one is present; that class is an "
            "observed positive, and those asked for before it are observed negatives"
        )
    else:
        weights = rules.log_weights(labels, rule, config.observe_power, seed, records.objects)
        if weights is None:
            raise InputError(
                f"{records.source}: data.observe={rule} needs boxes, but no label of this data has one. "
                "Boxes are read from COCO JSON and VOC XML; for other data choose another rule, such as "
                "--data.observe frequency."
            )
        observed = rules.biased_positive(labels, weights, seed)
        quantity = _QUANTITIES[rule].format(config.observe_power)
        summary += f", with probability proportional to {quantity}"
    return observed, f"{summary}, drawn with seed {seed}."


def check_observe(config: DataConfig) -> None:
    """Check the settings that begin with `observe`.

    Raises:
        InputError: A setting is out of range, or was changed although the rule does not use it.
    """
    rule, used = config.observe, USES.get(config.observe, ())
    for setting in fields(config):
        name, value = setting.name, getattr(config, setting.name)
        # The seed is allowed with every rule: benchmarks set it for all runs, those with full labels too.
        if not name.startswith("observe_") or name in (*used, "observe_seed") or value == setting.default:
            continue
        users = ", ".join(user for user, names in USES.items() if name in names)
        shown = "true" if value is True else f"{value:g}" if isinstance(value, float) else quoted(value)
        raise InputError(
            f"--data.{name} {shown} has no effect with --data.observe {rule}: leave it out, or choose a "
            f"rule that uses it ({users})."
        )
    if rule == "protocol" and config.observe_seed and not config.observe_noise:
        raise InputError(
            f"--data.observe_seed {config.observe_seed} has no effect with --data.observe protocol, whose "
            "labels were published: leave it out."
        )
    k, m, power = config.observe_positives, config.observe_negatives, config.observe_power
    lowest = 0 if rule == "salience" else -100
    domains: list[tuple[str, Any, bool, str]] = [
        ("observe_negatives", m, m >= 0, "at least 0"),
        ("observe_positives", k, k >= 0 and k + m > 0, "at least 1, or 0 if some negatives are observed"),
        ("observe_noise", config.observe_noise, 0 <= config.observe_noise < 1, "in [0, 1)"),
        ("observe_share", config.observe_share, 0 < config.observe_share < 1, "between 0 and 1"),
        ("observe_power", power, lowest <= power <= 100, f"in [{lowest}, 100] with {rule}"),
    ]
    for name, value, valid, expected in domains:
        if not valid:
            raise InputError(f"--data.{name} must be {expected}, got {value}")
