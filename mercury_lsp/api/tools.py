"""Tools: how they are shown to the model (the format the Qwen2.5 family was trained on) and how its calls are read.

A call is an object with "name" and "arguments" between <tool_call> marks; small models forget the marks, so an answer
that is nothing but such objects counts too. This module knows nothing about HTTP.
"""

import json
import re
import uuid
from collections.abc import Sequence
from typing import Any

from mercury_lsp.api.answering import Json, Reply, begun
from mercury_lsp.api.shapes import Tool

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_BLOCK = re.compile(rf"{OPEN}(.*?)(?:{CLOSE}|\Z)", re.DOTALL)
_FENCE = re.compile(r"\A```\w*\n(.*?)\n?```\s*\Z", re.DOTALL)


def described(tools: Sequence[Tool]) -> str:
    """What stands at the end of the system message."""
    signatures = "\n".join(json.dumps(tool.model_dump(exclude_none=True), ensure_ascii=False) for tool in tools)
    return (
        "\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
        "You are provided with function signatures within <tools></tools> XML tags:\n"
        f"<tools>\n{signatures}\n</tools>\n\n"
        "For each function call, return a json object with function name and arguments within "
        f"{OPEN}{CLOSE} XML tags:\n"
        f'{OPEN}\n{{"name": <function-name>, "arguments": <args-json-object>}}\n{CLOSE}'
    )


def called(name: str, arguments: str) -> str:
    """A call the assistant made earlier, as the model writes it."""
    try:
        value: Any = json.loads(arguments)
    except ValueError:
        value = arguments
    return f"{OPEN}\n{json.dumps({'name': name, 'arguments': value}, ensure_ascii=False)}\n{CLOSE}"


def answered(text: str) -> str:
    """What a tool said, as the model reads it."""
    return f"<tool_response>\n{text}\n</tool_response>"


def forced(names: Sequence[str]) -> str:
    """The beginning of an answer that can only be a call: of the one tool there is, or of any."""
    return f'{OPEN}\n{{"name": "' + (f'{names[0]}", "arguments": ' if len(names) == 1 else "")


def read(text: str, names: frozenset[str]) -> Reply:
    """The calls in a text and what else it says. An object that names no tool of `names` stays text."""
    calls: list[Json] = []

    def taken(match: re.Match[str]) -> str:
        found = _calls(match[1], names)
        calls.extend(found)
        return "" if found else match[0]

    rest = _BLOCK.sub(taken, text)
    if not calls:
        fenced = _FENCE.match(text.strip())
        calls = _calls(fenced[1] if fenced else text, names)
        rest = "" if calls else text
    return Reply(rest.strip() or None if calls else rest, tuple(calls))


def sendable(text: str) -> int:
    """How much of an answer may go out while it could still become a call."""
    if not text.strip() or text.lstrip()[0] in "{[`":
        return 0
    at = text.find(OPEN)
    return at if at >= 0 else len(text) - begun(text, (OPEN,))


def _calls(text: str, names: frozenset[str]) -> list[Json]:
    decoder = json.JSONDecoder()
    found: list[Json] = []
    at = 0
    while at < len(text):
        while at < len(text) and text[at] in " \t\r\n,[]":
            at += 1
        if at == len(text):
            break
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return found
        if not isinstance(value, dict) or value.get("name") not in names:
            return found
        arguments = value.get("arguments", value.get("parameters", {}))
        written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        found.append(
            {
                "id": f"call_{uuid.uuid4().hex[:24]}",
                "type": "function",
                "function": {"name": value["name"], "arguments": written},
            }
        )
    return found
