"""Recipes: YAML files that name the method and the settings for a purpose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...common.documents import parse_yaml, read_yaml_text


def read(name: str) -> dict[str, Any]:
    """Read the packaged recipe `name`.yaml."""
    path = Path(__file__).parent / f"{name}.yaml"
    recipe: dict[str, Any] = parse_yaml(read_yaml_text(path), str(path))
    return recipe
