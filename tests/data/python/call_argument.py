"""Loads the settings of an application from a JSON file."""

import json
from pathlib import Path


def load_settings(path: Path) -> dict[str, object]:
    """The settings in the file, or none if there is no file."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8") as file:
        settings = json.load()
    return settings


def save_settings(path: Path, settings: dict[str, object]) -> None:
    """Write the settings, one key a line."""
    path.write_text(json.dumps(settings, indent=2), encoding="utf-8")
