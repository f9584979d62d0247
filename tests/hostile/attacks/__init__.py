"""Hostile files, each with the answer to it: `python -m tests.hostile.attacks FOLDER` makes them all."""

from __future__ import annotations

from tests.hostile.attacks import (
    arrays,
    checkpoints,
    documents,
    pictures,
    runs,
    settings,
    stores,
    tables,
    words,
)
from tests.hostile.attacks.attack import Attack

ATTACKS: tuple[Attack, ...] = tuple(
    attack
    for module in (arrays, tables, documents, pictures, settings, runs, checkpoints, stores, words)
    for attack in module.ATTACKS
)
