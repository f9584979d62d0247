"""Recipes: YAML files that name the method and the settings for a purpose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def read(name: str) -> dict[str, Any]:
    """Read the packaged recipe `name`.yaml."""
    text = (Path(__file__).parent / f"{name}.yaml").read_text(encoding="utf-8")
    recipe: dict[str, Any] = yaml.safe_load(text)
    return recipe
