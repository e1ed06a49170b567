"""Settings: what is taken, what is refused, and that a refusal is a message and the default."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from mercury_lsp import settings_docs
from mercury_lsp.settings import InlineSettings, Settings, Source, read_layers, read_settings
from mercury_lsp.settings_files import folder_source


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


def test_later_sources_win_option_by_option_and_ignore_globs_add_up() -> None:
    editor = {"inline": {"maxTokens": 10, "strings": False}, "files": {"ignore": ["*.sql"]}, "model": {"name": "m"}}
    folder = {"inline": {"max_tokens": 20}, "files": {"ignore": ["*.csv", "*.sql"]}}
    settings, problems = read_layers([Source("", editor), Source("x", folder, project=True)])
    assert problems == []
    assert settings.inline == InlineSettings(max_tokens=20, strings=False)
    assert settings.files.ignore == ("*.sql", "*.csv")
    assert settings.model.name == "m"


def test_O5_a_wrong_option_of_a_folder_is_named_with_its_file_and_the_editors_stays() -> None:
    sources = [Source("", {"inline": {"maxTokens": 10}}), Source("/p/.mercury.toml", {"inline": {"max_tokens": "x"}})]
    settings, problems = read_layers(sources)
    assert settings.inline.max_tokens == 10
    assert len(problems) == 1
    assert problems[0].startswith("/p/.mercury.toml: Setting inline.max_tokens must be a whole number")


def test_what_editors_keep_for_themselves_is_no_unknown_setting() -> None:
    raw = {"mercury": {"trace": {"server": "verbose"}, "server": {"command": ["x"]}, "enabled": False}}
    assert read_settings(raw) == (Settings(enabled=False), [])


def test_a_folder_cannot_choose_the_model() -> None:
    settings, problems = read_layers([Source("f", {"model": {"name": "theirs"}, "enabled": False}, project=True)])
    assert settings == Settings(enabled=False)
    assert len(problems) == 1
    assert "model belongs in the editor's settings" in problems[0]


@pytest.mark.parametrize(
    ("content", "raw", "message"),
    [
        (None, None, ""),
        (b"[inline]\nmax_tokens = 3\n", {"inline": {"max_tokens": 3}}, ""),
        (b"[inline\n", None, "not valid TOML"),
        (b"x = '\xff'\n", None, "cannot be read"),
        (b"#" * 300_000, None, "too large"),
    ],
)
def test_the_file_of_a_folder(tmp_path: Path, content: bytes | None, raw: object, message: str) -> None:
    file = tmp_path / ".mercury.toml"
    if content is not None:
        file.write_bytes(content)
    source, problem = folder_source(tmp_path)
    assert (source.raw if source else None) == raw
    assert message in problem
    assert bool(message) == bool(problem)
    if problem:
        assert problem.startswith(str(file))


def test_the_documentation_is_current() -> None:
    assert settings_docs.stale() == [], "run python -m mercury_lsp.settings_docs"


def test_every_option_is_in_the_documentation_and_in_the_declaration_for_VS_Code() -> None:
    text, declared = settings_docs.markdown(), settings_docs.vscode_properties()
    options = every_option()
    assert len(declared) == len(options)
    for option in options:
        assert f"| `{option.name}` |" in text
    defaults = {name.removeprefix("mercury."): value["default"] for name, value in declared.items()}
    nested: dict[str, Any] = {}
    for name, default in defaults.items():
        *groups, leaf = name.split(".")
        place = nested
        for group in groups:
            place = place.setdefault(group, {})
        place[leaf] = default
    assert read_settings(json.loads(json.dumps(nested))) == (Settings(), [])


def test_the_schema_names_what_a_folder_may_set() -> None:
    properties = settings_docs.schema()["properties"]
    # which model runs and what may leave the machine is the user's to say, not a folder's
    assert set(properties) == {option.name for option in dataclasses.fields(Settings)} - {"model", "remote"}
    assert properties["inline"]["properties"]["max_tokens"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 1024,
        "default": 64,
        "description": "Longest suggestion, in tokens.",
    }
