"""Settings: what is taken, what is refused, and that a refusal is a message and the default."""

import dataclasses
from typing import Any

import pytest

from mercury_lsp.settings import InlineSettings, Settings, read_settings


@pytest.mark.parametrize(
    ("raw", "path", "value"),
    [
        ({"enabled": False}, "enabled", False),
        ({"mercury": {"enabled": False}}, "enabled", False),
        ({"inline": {"maxTokens": 12}}, "inline.max_tokens", 12),
        ({"inline": {"max_tokens": 12}}, "inline.max_tokens", 12),
        ({"inline": {"debounceMs": None}}, "inline.debounce_ms", None),
        ({"inline": {"debounceMs": 0}}, "inline.debounce_ms", 0),
        ({"inline": {"effort": "high"}}, "inline.effort", "high"),
        ({"model": {"idleUnloadMinutes": 5}}, "model.idle_unload_minutes", 5.0),
        ({"files": {"schemes": ["file", "sftp"]}}, "files.schemes", ("file", "sftp")),
        ({"inline": None}, "inline", InlineSettings()),
        (None, "enabled", True),
    ],
)
def test_an_option_is_taken_in_either_spelling(raw: Any, path: str, value: object) -> None:
    settings, problems = read_settings(raw)
    found: Any = settings
    for name in path.split("."):
        found = getattr(found, name)
    assert found == value
    assert problems == []


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ([1], "Setting mercury must be a table"),
        ({"inline": 3}, "Setting inline must be a table"),
        ({"colour": 1}, "Unknown setting colour"),
        ({"inline": {"colour": 1}}, "Unknown setting inline.colour"),
        ({"enabled": "false"}, "Setting enabled must be true or false; the default True is used."),
        ({"enabled": 0}, "Setting enabled must be true or false"),
        ({"inline": {"maxTokens": 1.5}}, "Setting inline.maxTokens must be a whole number from 1 to 1024"),
        ({"inline": {"maxTokens": 0}}, "Setting inline.maxTokens must be a whole number from 1 to 1024"),
        ({"inline": {"maxTokens": True}}, "Setting inline.maxTokens must be a whole number"),
        ({"inline": {"maxTokens": None}}, "Setting inline.maxTokens must be a whole number"),
        ({"inline": {"debounceMs": "fast"}}, "Setting inline.debounceMs must be a whole number or null"),
        ({"inline": {"effort": "huge"}}, "one of instant, low, medium, high; the default 'medium' is used."),
        ({"files": {"schemes": "file"}}, "Setting files.schemes must be a list of texts"),
        ({"files": {"schemes": [1]}}, "Setting files.schemes must be a list of texts"),
        ({"model": {"idleUnloadMinutes": float("nan")}}, "model.idleUnloadMinutes must be a number"),
        ({1: 2}, "Unknown setting 1"),
    ],
)
def test_J4_a_wrong_option_is_named_and_its_default_used(raw: Any, message: str) -> None:
    settings, problems = read_settings(raw)
    assert settings == Settings()
    assert len(problems) == 1
    assert message in problems[0]


def test_a_wrong_option_does_not_take_the_others_with_it() -> None:
    settings, problems = read_settings({"inline": {"maxTokens": "x", "strings": False}})
    assert settings == Settings(inline=InlineSettings(strings=False))
    assert len(problems) == 1


def every_option(cls: type = Settings) -> list[dataclasses.Field[Any]]:
    found: list[dataclasses.Field[Any]] = []
    for option in dataclasses.fields(cls):
        nested = option.default_factory
        found += every_option(nested) if isinstance(nested, type) else [option]
    return found


def test_every_option_says_what_it_is_for_and_takes_its_own_default() -> None:
    options = every_option()
    assert len(options) > 10
    assert all(option.metadata["doc"].endswith(".") for option in options)
    assert read_settings(dataclasses.asdict(Settings())) == (Settings(), [])
