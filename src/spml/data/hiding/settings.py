"""Checks of the settings that say how labels are hidden."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ...config import DataConfig
from ...errors import InputError

USES: dict[str, tuple[str, ...]] = {
    "counts": ("observe_positives", "observe_negatives"),
    "fraction": ("observe_share",),
    "frequency": ("observe_power",),
    "salience": ("observe_power",),
    "size": ("observe_power",),
    "position": ("observe_power",),
}


def check_observe(config: DataConfig) -> None:
    """Check the fields that begin with `observe`.

    Raises:
        InputError: a setting is out of its domain, or was changed although the rule does not use it.
    """
    rule, used = config.observe, USES.get(config.observe, ())
    for setting in fields(config):
        name, value = setting.name, getattr(config, setting.name)
        # A seed does no harm where nothing is drawn: comparisons with full labels set it for all runs.
        if not name.startswith("observe_") or name in (*used, "observe_seed") or value == setting.default:
            continue
        users = ", ".join(user for user, names in USES.items() if name in names)
        raise InputError(
            f"--data.{name} {value:g} has no effect with --data.observe {rule}: leave it out, or choose a "
            f"rule that uses it ({users})."
        )
    if rule == "protocol" and config.observe_seed:
        raise InputError(
            f"--data.observe_seed {config.observe_seed} has no effect with --data.observe protocol, whose "
            "labels are those that were published: leave it out."
        )
    k, m, power = config.observe_positives, config.observe_negatives, config.observe_power
    least = 0 if rule == "salience" else -100
    domains: list[tuple[str, Any, bool, str]] = [
        ("observe_negatives", m, m >= 0, "at least 0"),
        ("observe_positives", k, k >= 0, "at least 0"),
        ("observe_positives", k, k + m > 0, "at least 1, unless some negatives are observed"),
        ("observe_share", config.observe_share, 0 < config.observe_share < 1, "between 0 and 1"),
        ("observe_power", power, least <= power <= 100, f"in [{least}, 100] with {rule}"),
    ]
    for name, value, fine, expected in domains:
        if not fine:
            raise InputError(f"--data.{name} must be {expected}, got {value}")
