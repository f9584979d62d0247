"""Hostile files, each with the answer to it: `python -m tests.attacks FOLDER` makes them all."""

from __future__ import annotations

from tests.attacks import arrays, checkpoints, documents, pictures, runs, settings, stores, tables, words
from tests.attacks.attack import Attack

ATTACKS: tuple[Attack, ...] = tuple(
    attack
    for module in (arrays, tables, documents, pictures, settings, runs, checkpoints, stores, words)
    for attack in module.ATTACKS
)
