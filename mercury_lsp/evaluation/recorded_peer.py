"""A peer's recorded answers to next-edit scenarios: `NAME.mercury.ndjson` beside `NAME.txtar`.

Each line is a JSON object: a request or a response of an HTTP exchange, bodies in base64. The first exchange of
a file is what the peer answered in one go, which is what our own predictor is asked for. Some scenarios were
recorded at another cursor position than the file's own, and some not at all: the latter are left out.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mercury_lsp.errors import UsageError
from mercury_lsp.evaluation.next_edit import Outcome, judge, read_scenario

PEER = "mercury"
FENCE = re.compile(r"\A```[^\n]*\n(.*?)\n?```\s*\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Exchange:
    """prompt: the user message. answer: the assistant message. seconds: how long the peer took."""

    prompt: str
    answer: str
    seconds: float


def peer_outcomes(folder: Path) -> Iterator[Outcome]:
    """The peer's score in each scenario that was recorded. Raises UsageError for a damaged recording."""
    for path in sorted(folder.glob(f"*.{PEER}.ndjson")):
        scenario = read_scenario(path.with_name(path.name.removesuffix(f".{PEER}.ndjson") + ".txtar"))[0]
        try:
            exchange = first_exchange(path.read_text(encoding="utf-8"))
            yield judge(scenario, predicted_buffer(exchange), exchange.seconds)
        except (ValueError, KeyError, IndexError, TypeError, binascii.Error) as error:
            raise UsageError(f"{path} is no recorded exchange: {error!r}") from error


def first_exchange(text: str) -> Exchange:
    """Raises ValueError or KeyError where the recording has no first request and response."""
    lines: dict[str, dict[str, Any]] = {}
    for line in text.splitlines():
        item = json.loads(line)
        if item["kind"] != "meta" and item["interaction"] == 0:
            lines[item["kind"]] = item
    request, response = (json.loads(base64.b64decode(lines[kind]["body_b64"])) for kind in ("request", "response"))
    return Exchange(
        prompt=request["messages"][0]["content"],
        answer=response["choices"][0]["message"]["content"],
        seconds=lines["response"]["duration_ms"] / 1000,
    )


def predicted_buffer(exchange: Exchange) -> str | None:
    """The buffer with the answer in place of the shown region; None where the peer answered `None`."""
    if exchange.answer.strip() == "None":
        return None
    fenced = FENCE.match(exchange.answer)
    answer = fenced[1] if fenced else exchange.answer
    file = _between(exchange.prompt, "<|current_file_content|>\n", "<|/current_file_content|>")
    _, _, content = file.partition("\n")  # the first line names the path
    before, _, rest = content.partition("<|code_to_edit|>\n")
    _, _, after = rest.partition("<|/code_to_edit|>\n")
    return f"{before}{answer}\n{after}"


def _between(text: str, opening: str, closing: str) -> str:
    start = text.index(opening) + len(opening)
    return text[start : text.index(closing, start)]
