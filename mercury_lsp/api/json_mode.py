"""JSON answers: a judge that says which characters break the schema, so that they are masked and written again.

A text that breaks it still after the judge's rounds is an error for the client, never a wrong answer. `pattern` and
`patternProperties` are not enforced: a hostile expression would hold up everybody's model. This module knows nothing
about HTTP or the model.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from jsonschema.protocols import Validator
from jsonschema.validators import extend, validator_for
from referencing import Registry

from mercury_lsp.api import failures

_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s,\]}]+')
_BLANK = re.compile(r"[ \t\r\n]*")
Path = tuple[str | int, ...]


def _ignored(*_: Any) -> Iterator[Any]:
    return iter(())


@dataclass(frozen=True)
class JsonRules:
    """What an answer has to be. lead: what it begins with, put there by us. schema: what `rules_of` made these of."""

    validator: Validator | None
    lead: str
    prompt: str
    schema: dict[str, Any] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent to another machine as its schema: a validator's class exists in this process only."""
        return rules_of, (self.schema,)

    def end(self, text: str) -> int | None:
        """The answer is over where its first value is."""
        whole = self.lead + text
        if whole.rstrip()[-1:] not in ("}", "]", '"'):
            return None
        try:
            _, at = json.JSONDecoder().raw_decode(whole, _BLANK.match(whole).end())  # pyright: ignore[reportOptionalMemberAccess]
        except (ValueError, RecursionError):
            return None
        return max(0, at - len(self.lead))

    def judge(self, text: str) -> list[tuple[int, int]]:
        """Spans of `text` (without the lead) that break the rules."""
        whole, shift = self.lead + text, len(self.lead)
        try:
            value = json.loads(whole)
        except json.JSONDecodeError as error:
            return _within([(error.pos, error.pos + 1)], shift, len(text))
        except (ValueError, RecursionError):
            return [(0, len(text))]
        try:
            spans = locate(whole)
        except RecursionError:
            return [(0, len(text))]
        return _within([spans.get(path, (0, len(whole))) for path in self._broken(value)], shift, len(text))

    def problem(self, whole: str) -> str | None:
        """What is wrong with a finished answer, in words."""
        try:
            value = json.loads(whole)
        except (ValueError, RecursionError):
            return "it is not JSON"
        broken = self._broken(value)
        return f"{'.'.join(map(str, broken[0])) or 'it'} does not fit the schema" if broken else None

    def _broken(self, value: Any) -> list[Path]:
        if self.validator is None:
            return [] if isinstance(value, dict) else [()]
        try:
            return [tuple(error.absolute_path) for error in self.validator.iter_errors(value)]
        except Exception:  # a reference that leads nowhere, or in a circle: only a value shows it
            return [()]


def rules_of(schema: dict[str, Any] | None) -> JsonRules:
    """The rules of a schema, or of any object where there is none. Raises ApiError for a schema that is none."""
    if schema is None:
        return JsonRules(None, "{", "Answer with one JSON object and nothing else.")
    if any(not reference.startswith("#") for reference in _references(schema)):
        raise failures.invalid("references of the schema must stay inside it (#...)", "response_format")
    try:
        kind = validator_for(schema, default=Draft202012Validator)
        kind.check_schema(schema)
    except SchemaError as error:
        raise failures.invalid(f"the schema is not valid: {error.message[:200]}", "response_format") from None
    except Exception:
        raise failures.invalid("the schema is not valid", "response_format") from None
    validator = extend(kind, {"pattern": _ignored, "patternProperties": _ignored})(schema, registry=Registry())
    written = json.dumps(schema, ensure_ascii=False)
    return JsonRules(
        validator,
        "{" if schema.get("type") == "object" or "properties" in schema else "",
        f"Answer with JSON that fits this schema, and nothing else:\n{written}",
        schema,
    )


def has_patterns(schema: object) -> bool:
    return any(key in ("pattern", "patternProperties") for key, _ in _entries(schema))


def _references(schema: object) -> list[str]:
    return [value for key, value in _entries(schema) if key in ("$ref", "$dynamicRef") and isinstance(value, str)]


def _entries(value: object) -> Iterator[tuple[str, Any]]:
    todo: list[Any] = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, dict):
            yield from item.items()
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)


def _within(spans: list[tuple[int, int]], shift: int, length: int) -> list[tuple[int, int]]:
    """Moved behind the lead and kept inside the text; what stands in the lead is blamed on the first character."""
    last = max(0, length - 1)
    return [(min(max(0, a - shift), last), min(max(1, b - shift), max(1, length))) for a, b in spans]


def locate(text: str) -> dict[Path, tuple[int, int]]:
    """Where each value of a valid JSON text stands, by its path."""
    spans: dict[Path, tuple[int, int]] = {}
    _locate(text, _skip(text, 0), (), spans)
    return spans


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _scalar(text: str, at: int) -> int:
    match = _SCALAR.match(text, at)
    return match.end() if match else at + 1


def _locate(text: str, at: int, path: Path, spans: dict[Path, tuple[int, int]]) -> int:
    start = at
    if text[at] == "{":
        at = _skip(text, at + 1)
        while text[at] != "}":
            end = _scalar(text, at)
            key = json.loads(text[at:end])
            at = _skip(text, _skip(text, end) + 1)  # the colon
            at = _skip(text, _locate(text, at, (*path, key), spans))
            at = _skip(text, at + 1) if text[at] == "," else at
        at += 1
    elif text[at] == "[":
        at, index = _skip(text, at + 1), 0
        while text[at] != "]":
            at = _skip(text, _locate(text, at, (*path, index), spans))
            at, index = (_skip(text, at + 1) if text[at] == "," else at), index + 1
        at += 1
    else:
        at = _scalar(text, at)
    spans[path] = (start, at)
    return at
