"""/v1/edit/completions and /v1/apply/completions: both layouts, the recorded requests, `None`, streams."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from mercury_lsp.api.edit import read_place
from mercury_model.draft import Request, Snippet
from tests.api.serving import client_of
from tests.api.test_chat import contents, events_of
from tests.fakes import FakeInfiller

RECORDED = Path(__file__).parents[1] / "data" / "mercury"

NESTED = """<|recently_viewed_code_snippets|>
<|recently_viewed_code_snippet|>
code_snippet_file_path: b.py
B = 1
<|/recently_viewed_code_snippet|>
<|/recently_viewed_code_snippets|>

<|current_file_content|>
current_file_path: a.py
import b
<|code_to_edit|>
x = <|cursor|>b.B
<|/code_to_edit|>
print(x)
<|/current_file_content|>

<|edit_diff_history|>
--- a.py
+++ a.py
@@ -1 +1 @@
-import c
+import b
<|/edit_diff_history|>
"""
SEPARATE = """<|recently_viewed_code_snippets|>
<|recently_viewed_code_snippet|>
code_snippet_file_path: b.py
B = 1
<|/recently_viewed_code_snippet|>
<|/recently_viewed_code_snippets|>

<|current_file_content|>
current_file_path: a.py
import b
x = b.B
print(x)
<|/current_file_content|>

<|code_to_edit|>
x = <|cursor|>b.B
<|/code_to_edit|>

<|edit_diff_history|>
--- a.py
+++ a.py
@@ -1 +1 @@
-import c
+import b
<|/edit_diff_history|>
"""


def edit(prompt: str, **fields: Any) -> dict[str, Any]:
    return {"model": "mercury-edit-2", "messages": [{"role": "user", "content": prompt}], **fields}


@pytest.mark.parametrize("prompt", [NESTED, SEPARATE, NESTED.replace("\n", "\r\n")])
async def test_both_layouts_ask_for_the_same_region(prompt: str) -> None:
    fake = FakeInfiller("x = b.BB\n")
    async with client_of(fake) as client:
        body = (await client.post("/v1/edit/completions", json=edit(prompt))).json()
    asked = fake.requests[0]
    assert (asked.prefix, asked.original, asked.suffix) == ("import b\n", "x = b.B\n", "print(x)\n")
    assert asked.path == "a.py"
    assert asked.context[0] == Snippet("b.py", "B = 1")
    assert "+import b" in asked.context[1].text
    assert body["object"] == "edit.completion"
    assert body["choices"][0]["message"]["content"] == "```\nx = b.BB\n```"


def test_the_cursor_is_found_and_its_mark_is_no_part_of_the_code() -> None:
    place = read_place(NESTED)
    assert place.cursor == 4
    assert "cursor" not in place.region


@pytest.mark.parametrize("answer", ["x = b.B\n", "x = b.B"])
async def test_an_edit_that_changes_nothing_is_the_literal_none(answer: str) -> None:
    async with client_of(FakeInfiller(answer)) as client:
        body = (await client.post("/v1/edit/completions", json=edit(NESTED))).json()
    assert body["choices"][0]["message"]["content"] == "None"


async def test_a_stream_says_the_same_in_one_piece_and_diffusing_shows_the_canvas() -> None:
    fake = FakeInfiller("x = b.BB\n", per_step=2)
    async with client_of(fake) as client:
        whole = (await client.post("/v1/edit/completions", json=edit(NESTED))).json()
        plain = await client.post("/v1/edit/completions", json=edit(NESTED, stream=True))
        drawn = await client.post("/v1/edit/completions", json=edit(NESTED, stream=True, diffusing=True))
    content = whole["choices"][0]["message"]["content"]
    assert contents(events_of(plain.text)) == [content]
    assert contents(events_of(drawn.text))[-1] == content
    assert len(contents(events_of(drawn.text))) > 2


async def test_apply_works_an_update_into_the_original() -> None:
    fake = FakeInfiller("a = 1\nb = 3\n")
    prompt = (
        "<|original_code|>\na = 1\nb = 2\n<|/original_code|>\n"
        "<|update_snippet|>\n# ... existing code ...\nb = 3\n<|/update_snippet|>"
    )
    async with client_of(fake) as client:
        body = (await client.post("/v1/apply/completions", json=edit(prompt))).json()
    assert fake.requests[0].original == "a = 1\nb = 2"
    assert "b = 3" in fake.requests[0].instruction
    assert body["choices"][0]["message"]["content"] == "```\na = 1\nb = 3\n```"


@pytest.mark.parametrize(
    ("path", "messages"),
    [
        ("edit", [{"role": "user", "content": "fix my code"}]),
        ("edit", [{"role": "system", "content": NESTED}]),
        ("apply", [{"role": "user", "content": NESTED}]),
    ],
)
async def test_a_prompt_without_its_tags_says_which_are_missing(path: str, messages: list[dict[str, str]]) -> None:
    async with client_of(FakeInfiller("x")) as client:
        response = await client.post(f"/v1/{path}/completions", json={"model": "mercury-edit", "messages": messages})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "messages"


def recorded() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(name, request, response) of every recorded exchange."""
    found: list[tuple[str, dict[str, Any], dict[str, Any]]] = []
    for path in sorted(RECORDED.glob("*.ndjson")):
        items = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        bodies = [json.loads(base64.b64decode(item["body_b64"])) for item in items if item["kind"] != "meta"]
        found += [(path.name, *bodies[i : i + 2]) for i in range(0, len(bodies), 2)]
    return found


def test_there_are_recorded_exchanges() -> None:
    assert len(recorded()) >= 15


@pytest.mark.parametrize(("name", "request_body", "peer"), recorded())
async def test_a_recorded_request_is_taken_as_it_is(
    name: str, request_body: dict[str, Any], peer: dict[str, Any]
) -> None:
    answer = peer["choices"][0]["message"]["content"]
    text = re.sub(r"\A```\n|\n?```\Z", "", answer)

    def script(request: Request) -> str:
        assert request.original
        return text

    fake = FakeInfiller(script)
    async with client_of(fake) as client:
        response = await client.post("/v1/edit/completions", json=request_body)
    content = response.json()["choices"][0]["message"]["content"]
    assert content == ("None" if text.strip("\n") == (fake.requests[0].original or "").strip("\n") else answer)
    # put together, the parts are the file that was sent
    prompt = request_body["messages"][0]["content"]
    asked = fake.requests[0]
    file = prompt.split("<|current_file_content|>")[1].split("<|/current_file_content|>")[0].split("\n", 2)[2]
    for tag in ("<|code_to_edit|>\n", "<|/code_to_edit|>\n", "<|cursor|>"):
        file = file.replace(tag, "")
    assert (asked.prefix + (asked.original or "") + asked.suffix).strip("\n") == file.strip("\n")
