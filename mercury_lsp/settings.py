"""Settings: dataclasses in which every field has a default and says what it is for.

A wrong setting is a message and the default, never a refusal to start. Names may come in camelCase (editors) or
snake_case (files). This module knows nothing about where settings come from.
"""

import dataclasses
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import cattrs

from mercury_model.draft import Effort

T = TypeVar("T")


def _option(default: T, doc: str, *, low: float | None = None, high: float | None = None) -> T:
    return field(default=default, metadata={"doc": doc, "low": low, "high": high})


@dataclass(frozen=True)
class ModelSettings:
    name: str = _option("quicksilver-0.5b", "Which model to load; `mercury-lsp model list` prints the names.")
    device: str = _option("auto", "Where it runs: auto, cpu, cuda or cuda:N.")
    idle_unload_minutes: float = _option(
        30.0, "Minutes without a request after which the model leaves the memory; 0 keeps it.", low=0
    )
    preload: bool = _option(True, "Load the model when the editor starts, not at the first request.")


@dataclass(frozen=True)
class InlineSettings:
    """Inline completions (ghost text), and completion items in editors that have no ghost text."""

    enabled: bool = _option(True, "Offer inline completions.")
    max_tokens: int = _option(64, "Longest suggestion, in tokens.", low=1, high=1024)
    policy: str = _option("check", "How slots become visible: check, threshold ... (`complete --policy`).")
    effort: Effort = _option(  # noqa: RUF009 (a Literal, which ruff does not see through the alias)
        "medium", "How many refinement passes: instant, low, medium or high."
    )
    deadline_ms: int = _option(5000, "After so long what is left is revealed in one last step; 0: never.", low=0)
    debounce_ms: int | None = _option(
        None, "Quiet time after a key before the model runs; null follows the typing speed.", low=0, high=5000
    )
    comments: bool = _option(True, "Suggest inside comments.")
    strings: bool = _option(True, "Suggest inside strings.")
    markdown: bool = _option(True, "Suggest in Markdown and plain text.")


@dataclass(frozen=True)
class FileSettings:
    max_kilobytes: int = _option(8192, "Larger buffers get no suggestions.", low=1)
    schemes: tuple[str, ...] = _option(
        ("file", "untitled", "buffer", "inmemory"), "URI schemes of buffers that get suggestions."
    )


@dataclass(frozen=True)
class ContextSettings:
    tokens: int | None = _option(
        None, "Tokens shown to the model; null takes what the device reads in about a second.", low=64
    )
    suffix_share: float = _option(0.25, "Share of them for the text after the cursor.", low=0, high=0.9)


@dataclass(frozen=True)
class Settings:
    enabled: bool = _option(True, "Switches everything off when false.")
    model: ModelSettings = field(default_factory=ModelSettings)
    inline: InlineSettings = field(default_factory=InlineSettings)
    files: FileSettings = field(default_factory=FileSettings)
    context: ContextSettings = field(default_factory=ContextSettings)


def _exactly(kind: type, *also: type) -> Any:
    def structure(value: Any, _: Any) -> Any:
        if type(value) not in (kind, *also):
            raise TypeError
        return kind(value)

    return structure


def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(detailed_validation=False)
    # cattrs would take "false" for a true bool and 1.5 for the int 1
    converter.register_structure_hook(bool, _exactly(bool))
    converter.register_structure_hook(int, _exactly(int))
    converter.register_structure_hook(float, _exactly(float, int))
    converter.register_structure_hook(str, _exactly(str))
    return converter


_CONVERTER = _converter()


def read_settings(raw: object) -> tuple[Settings, list[str]]:
    """Settings from what a client or a file holds, and one line about each option that was not taken.

    raw: a mapping, the same under a key "mercury", or None.
    """
    if isinstance(raw, Mapping) and isinstance(raw.get("mercury"), Mapping):
        raw = raw["mercury"]
    problems: list[str] = []
    return _structure(Settings, raw, "", problems), problems


def _structure(cls: type[T], raw: object, path: str, problems: list[str]) -> T:
    if raw is None:
        return cls()
    if not isinstance(raw, Mapping):
        problems.append(f"Setting {path or 'mercury'} must be a table of options; the defaults are used.")
        return cls()
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(typing.cast("Any", cls))}
    values: dict[str, Any] = {}
    for key, value in typing.cast("Mapping[object, object]", raw).items():
        name = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", str(key)).lower()
        where = f"{path}.{key}" if path else str(key)
        if name not in fields:
            problems.append(f"Unknown setting {where}: it is ignored; the options here are {', '.join(fields)}.")
        elif dataclasses.is_dataclass(hints[name]):
            values[name] = _structure(hints[name], value, where, problems)
        else:
            try:
                values[name] = _leaf(fields[name], hints[name], value)
            except Exception:
                problems.append(
                    f"Setting {where} must be {_expected(fields[name], hints[name])}; "
                    f"the default {fields[name].default!r} is used."
                )
    return cls(**values)


def _leaf(option: "dataclasses.Field[Any]", hint: Any, value: object) -> Any:
    if typing.get_origin(hint) is tuple and not isinstance(value, list | tuple):
        raise TypeError
    result = _CONVERTER.structure(value, hint)
    low, high = option.metadata["low"], option.metadata["high"]
    # "not >=" refuses nan as well
    if result is not None and ((low is not None and not result >= low) or (high is not None and not result <= high)):
        raise ValueError
    return result


_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", types.NoneType: "null"}


def _expected(option: "dataclasses.Field[Any]", hint: Any) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        text = "one of " + ", ".join(map(str, arguments))
    elif origin is tuple:
        text = "a list of texts"
    elif arguments:
        text = " or ".join(_NAMES[a] for a in arguments)
    else:
        text = _NAMES[hint]
    low, high = option.metadata["low"], option.metadata["high"]
    if low is not None and high is not None:
        return f"{text} from {low} to {high}"
    return f"{text}, at least {low}" if low is not None else text
