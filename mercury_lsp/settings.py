"""Settings: dataclasses in which every field has a default and says what it is for.

A wrong setting is a message and the default, never a refusal to start. Names may come in camelCase (editors) or
snake_case (files). Sources are laid over each other, later ones win; this module knows nothing about how they are
read. docs/settings.md and its JSON schema are made from these classes (settings_docs.py).
"""

import dataclasses
import re
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import cattrs

from mercury_model.draft import Effort

T = TypeVar("T")


def _option(default: T, doc: str, *, low: float | None = None, high: float | None = None, adds: bool = False) -> T:
    """adds: a list to which each source adds, instead of taking the place of the one before."""
    return field(default=default, metadata={"doc": doc, "low": low, "high": high, "adds": adds})


@dataclass(frozen=True)
class ModelSettings:
    """The model. One model serves all folders: a `.mercury.toml` cannot set these."""

    name: str = _option(
        "quicksilver-0.5b",
        "Which model to load; `mercury-lsp model list` prints the names, `mercury:MODEL` or a URL is one elsewhere.",
    )
    device: str = _option("auto", "Where it runs: auto, cpu, cuda or cuda:N.")
    idle_unload_minutes: float = _option(
        30.0, "Minutes without a request after which the model leaves the memory; 0 keeps it.", low=0
    )
    cache_megabytes: int = _option(
        128,
        "Memory for what the model has read of the documents used last; the document in use is kept whatever it takes.",
        low=1,
    )
    preload: bool = _option(True, "Load the model when the editor starts, not at the first request.")


@dataclass(frozen=True)
class RemoteSettings:
    """A model on another machine (`model.name` is `mercury:MODEL` or a URL). A `.mercury.toml` cannot set these."""

    consent: tuple[str, ...] = _option(
        (), "Hosts that text of your files may be sent to, for example `api.inceptionlabs.ai`; none else gets any."
    )


@dataclass(frozen=True)
class InlineSettings:
    """Inline completions (ghost text), and completion items in editors that have no ghost text."""

    enabled: bool = _option(True, "Offer inline completions.")
    max_tokens: int = _option(64, "Longest suggestion, in tokens.", low=1, high=1024)
    policy: str = _option(
        "auto", "How slots become visible: auto (what suits the model), check, threshold ... (`complete --policy`)."
    )
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
    """Which files are worked on. An ignored file gets no suggestions and is shown to the model in no other way."""

    max_kilobytes: int = _option(8192, "Larger buffers get no suggestions.", low=1)
    schemes: tuple[str, ...] = _option(
        ("file", "untitled", "buffer", "inmemory"), "URI schemes of buffers that get suggestions."
    )
    ignore: tuple[str, ...] = _option(
        (),
        "Globs of files to ignore, in the syntax of .gitignore, relative to the folder or absolute. They add to the "
        "built-in ones for secrets and to each other's; `!.env.example` allows a file again.",
        adds=True,
    )
    gitignore: bool = _option(True, "Ignore what .gitignore ignores.")


@dataclass(frozen=True)
class ContextSettings:
    """What the model is shown around the cursor, and of other places."""

    tokens: int | None = _option(
        None, "Tokens shown to the model; null takes what the device reads in about a second.", low=64
    )
    suffix_share: float = _option(0.25, "Share of them for the text after the cursor.", low=0, high=0.9)
    share: float = _option(
        0.25,
        "Largest share of them for other places: declarations that the code around the cursor uses, recent edits, "
        "similar code in other open files, diagnostics. 0 shows the current file only.",
        low=0,
        high=0.8,
    )
    index: bool = _option(True, "Index the definitions in the workspace folders, in a process of its own.")
    index_max_files: int = _option(50_000, "Files in the index at most, those near the top first.", low=0)
    index_max_file_kilobytes: int = _option(512, "Larger files are not indexed.", low=1)
    refresh_seconds: float = _option(
        20.0, "After so long a pause the other places are chosen anew; until then they stay as they are.", low=0
    )
    watch: bool = _option(True, "Watch the folders for changes where the editor cannot do it.")


@dataclass(frozen=True)
class Settings:
    """Everything."""

    enabled: bool = _option(True, "Switches everything off when false.")
    model: ModelSettings = field(default_factory=ModelSettings, metadata={"editor_only": True})
    remote: RemoteSettings = field(default_factory=RemoteSettings, metadata={"editor_only": True})
    inline: InlineSettings = field(default_factory=InlineSettings)
    files: FileSettings = field(default_factory=FileSettings)
    context: ContextSettings = field(default_factory=ContextSettings)
    canvas: bool = _option(False, "Send `mercury/canvas` with every step's draft while a command runs.")


@dataclass(frozen=True, slots=True)
class Source:
    """Where settings come from. name: of a file, for messages; empty for the editor. raw: what it holds.

    project: a file of the project, which cannot set what belongs to the editor.
    """

    name: str
    raw: object
    project: bool = False


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


CLIENT_OPTIONS = ("trace", "server")
"""What editors keep in the same section for themselves: how to start the server and how to log the protocol."""

Accepted = dict[str, Any]
"""Options of one source that were taken, by field name; a group's are a dict of its own."""


def read_settings(raw: object) -> tuple[Settings, list[str]]:
    """Settings from what a client or a file holds, and one line about each option that was not taken.

    raw: a mapping, the same under a key "mercury", or None.
    """
    return read_layers([Source("", raw)])


def read_layers(sources: Sequence[Source]) -> tuple[Settings, list[str]]:
    """Settings from several sources, later ones over earlier ones, and one line about each option not taken."""
    problems: list[str] = []
    accepted: Accepted = {}
    for source in sources:
        raw, found = source.raw, list[str]()
        if isinstance(raw, Mapping) and isinstance(raw.get("mercury"), Mapping):
            raw = raw["mercury"]
        layer = _accept(Settings, raw, "", source.project, found)
        accepted = _laid_over(Settings, accepted, layer)
        problems += [f"{source.name}: {problem}" if source.name else problem for problem in found]
    return _build(Settings, accepted), problems


def option_fields(cls: type) -> "dict[str, tuple[dataclasses.Field[Any], Any]]":
    """Of each field of a settings class, the field and its type."""
    hints = typing.get_type_hints(cls)
    return {f.name: (f, hints[f.name]) for f in dataclasses.fields(cls)}


def _accept(cls: type, raw: object, path: str, project: bool, problems: list[str]) -> Accepted:
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        problems.append(f"Setting {path or 'mercury'} must be a table of options; the defaults are used.")
        return {}
    fields = option_fields(cls)
    values: Accepted = {}
    for key, value in typing.cast("Mapping[object, object]", raw).items():
        name = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", str(key)).lower()
        where = f"{path}.{key}" if path else str(key)
        if not path and name in CLIENT_OPTIONS:
            continue
        if name not in fields:
            problems.append(f"Unknown setting {where}: it is ignored; the options here are {', '.join(fields)}.")
            continue
        option, hint = fields[name]
        if project and option.metadata.get("editor_only"):
            problems.append(f"Setting {where} belongs in the editor's settings, not in a folder's: it is ignored.")
        elif dataclasses.is_dataclass(hint):
            values[name] = _accept(typing.cast("type", hint), value, where, project, problems)
        else:
            try:
                values[name] = _leaf(option, hint, value)
            except Exception:
                problems.append(
                    f"Setting {where} must be {expected(option, hint)}; the default {option.default!r} is used."
                )
    return values


def _laid_over(cls: type, below: Accepted, above: Accepted) -> Accepted:
    result = below | above
    for name, (option, hint) in option_fields(cls).items():
        if dataclasses.is_dataclass(hint):
            result[name] = _laid_over(typing.cast("type", hint), below.get(name, {}), above.get(name, {}))
        elif option.metadata["adds"] and name in below and name in above:
            result[name] = tuple(dict.fromkeys((*below[name], *above[name])))
    return result


def _build(cls: type[T], accepted: Accepted) -> T:
    values = {
        name: _build(typing.cast("type[Any]", hint), accepted.get(name, {}))
        if dataclasses.is_dataclass(hint)
        else accepted[name]
        for name, (_, hint) in option_fields(cls).items()
        if dataclasses.is_dataclass(hint) or name in accepted
    }
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


def expected(option: "dataclasses.Field[Any]", hint: Any) -> str:
    """What an option takes, in words."""
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
