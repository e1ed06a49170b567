"""The documentation of the settings, made from their classes: `python -m mercury_lsp.settings_docs` writes it.

docs/settings.md is for people, docs/settings.schema.json for editors of `.mercury.toml`. With `--vscode` it prints the
`contributes.configuration.properties` of an extension's package.json instead, with `--check` it only says whether
the files are current. It knows nothing about what the options do but what they say themselves.
"""

import dataclasses
import json
import re
import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from mercury_lsp.settings import Settings, expected, option_fields

DOCS = Path(__file__).parents[1] / "docs"

_HEAD = """# Settings

<!-- written by `python -m mercury_lsp.settings_docs`; change mercury_lsp/settings.py instead -->

Every setting has a default: none needs to be set. They come from four places; later ones win, option by option:

1. the defaults below;
2. `initializationOptions` of the editor's language client;
3. the editor's settings, section `mercury` (`workspace/configuration`), asked for again when they change;
4. `.mercury.toml` in the workspace folder that holds the file, read again when it changes.

`files.ignore` is the exception: what one place says is added to what the others say.
In `.mercury.toml` an option is `max_tokens` in the table `[inline]`; editors may also write `mercury.inline.maxTokens`.
An option that does not exist, or a value that does not fit, is reported once with its name, and the default is used.

```toml
#:schema ./docs/settings.schema.json
[inline]
max_tokens = 48

[files]
ignore = ["*.sql", "private/", "!.env.example"]
```
"""


def markdown() -> str:
    """The text of docs/settings.md."""
    parts = [_HEAD]
    for path, cls in _groups():
        title = f"`[{path}]`" if path else "Top level"
        parts.append(f"\n## {title}\n\n{_doc(cls)}\n\n| option | default | takes | |\n|---|---|---|---|\n")
        for name, (option, hint) in option_fields(cls).items():
            if not dataclasses.is_dataclass(hint):
                default = json.dumps(option.default)
                parts.append(f"| `{name}` | `{default}` | {expected(option, hint)} | {option.metadata['doc']} |\n")
    return "".join(parts)


def schema() -> dict[str, Any]:
    """The JSON schema of `.mercury.toml`."""
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": ".mercury.toml", **_schema(Settings)}


def vscode_properties() -> dict[str, Any]:
    """Settings as the package.json of a VS Code extension declares them."""
    found: dict[str, Any] = {}
    for path, cls in _groups():
        for name, (option, hint) in option_fields(cls).items():
            if not dataclasses.is_dataclass(hint):
                dotted = ".".join(filter(None, ("mercury", path, name)))
                found[re.sub(r"_([a-z])", lambda m: m[1].upper(), dotted)] = _leaf(option, hint)
    return found


def files() -> dict[Path, str]:
    """The files of docs/ and their texts."""
    return {
        DOCS / "settings.md": markdown(),
        DOCS / "settings.schema.json": json.dumps(schema(), indent=2) + "\n",
    }


def stale() -> list[Path]:
    """Those that are not as they should be."""
    return [path for path, text in files().items() if not path.exists() or path.read_text("utf-8") != text]


def _groups() -> Iterator[tuple[str, type]]:
    yield "", Settings
    for name, (_, hint) in option_fields(Settings).items():
        if dataclasses.is_dataclass(hint):
            yield name, typing.cast("type", hint)


def _doc(cls: type) -> str:
    return " ".join((cls.__doc__ or "").split())


def _schema(cls: type) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for name, (option, hint) in option_fields(cls).items():
        if option.metadata.get("editor_only"):
            continue
        if dataclasses.is_dataclass(hint):
            properties[name] = _schema(typing.cast("type", hint))
        else:
            properties[name] = _leaf(option, hint)
    return {"type": "object", "description": _doc(cls), "properties": properties, "additionalProperties": False}


_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", types.NoneType: "null"}


def _leaf(option: "dataclasses.Field[Any]", hint: Any) -> dict[str, Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        shape: dict[str, Any] = {"type": "string", "enum": list(arguments)}
    elif origin is tuple:
        shape = {"type": "array", "items": {"type": _TYPES[arguments[0]]}}
    else:
        shape = {"type": [_TYPES[a] for a in arguments] if arguments else _TYPES[hint]}
    bounds = {"minimum": option.metadata["low"], "maximum": option.metadata["high"]}
    shape |= {name: bound for name, bound in bounds.items() if bound is not None}
    default = list(option.default) if isinstance(option.default, tuple) else option.default
    return {**shape, "default": default, "description": option.metadata["doc"]}


def main(arguments: list[str]) -> int:
    if "--vscode" in arguments:
        print(json.dumps(vscode_properties(), indent=2))
        return 0
    if "--check" in arguments:
        for path in stale():
            print(f"{path.name} is not current: run `python -m mercury_lsp.settings_docs`.", file=sys.stderr)
        return 1 if stale() else 0
    for path, text in files().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
