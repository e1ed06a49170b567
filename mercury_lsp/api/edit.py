"""Edits and applies: the tagged prompts of Mercury's edit endpoints become a rewrite of a region.

Both layouts are read: the region inside the file, and the region in a section of its own. An edit that changes nothing
is answered `None`, as published. This module knows nothing about HTTP, streaming or who runs when.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mercury_lsp.api import failures
from mercury_lsp.api.answering import Question, Reply, Stopping
from mercury_lsp.api.chat import text_of
from mercury_lsp.api.sampling import sampled
from mercury_lsp.api.shapes import EditRequest, Message
from mercury_model.draft import Request, Snippet

DEFAULT_TOKENS = 1024
NO_EDIT = "None"
CURSOR = "<|cursor|>"
_EXISTING = "... existing code ..."
_PATH = re.compile(r"\A\s*(?:current_file_path|code_snippet_file_path):[ \t]*([^\n]*)(?:\n|\Z)")


@dataclass(frozen=True, slots=True)
class Place:
    """What an edit prompt says. region: the code that may change, without the cursor mark; cursor: offset in it."""

    path: str
    before: str
    region: str
    after: str
    cursor: int | None
    snippets: tuple[Snippet, ...]
    history: str


def question(body: EditRequest) -> Question:
    """Raises ApiError where there is nothing to edit in the messages."""
    prompt = _prompt(body.messages)
    place = read_place(prompt)
    context = place.snippets
    if place.history:
        context = (*context, Snippet("recent edits", place.history))
    request = Request(
        prefix=place.before,
        suffix=place.after,
        path=place.path,
        context=context,
        original=place.region,
    )
    return _question(body, request, prompt, place.region)


def apply_question(body: EditRequest) -> Question:
    """`<|original_code|>` and `<|update_snippet|>`: the original with the snippet worked in. Raises ApiError."""
    prompt = _prompt(body.messages)
    original, update = section(prompt, "original_code"), section(prompt, "update_snippet")
    if original is None or update is None:
        raise failures.invalid("the prompt needs <|original_code|> and <|update_snippet|>", "messages")
    original, update = _framed(original), _framed(update)
    instruction = (
        f"Work this update into it; a comment `{_EXISTING}` stands for code that stays as it is.\n```\n{update}\n```"
    )
    return _question(body, Request("", "", original=original, instruction=instruction), prompt, original)


def _question(body: EditRequest, request: Request, prompt: str, region: str) -> Question:
    chosen = sampled(body, "edit")
    request = Request(
        prefix=request.prefix,
        suffix=request.suffix,
        path=request.path,
        context=request.context,
        original=request.original,
        instruction=request.instruction,
        max_tokens=body.max_tokens or DEFAULT_TOKENS,
        policy=chosen.policy,
        effort=chosen.effort,
        temperature=chosen.temperature,
        top_p=chosen.top_p,
        top_k=chosen.top_k,
        seed=chosen.seed,
        end=Stopping(chosen.stop) if chosen.stop else None,
    )

    def reply(text: str, was_cut: bool) -> Reply:
        # half an edit would delete the rest of the region
        if was_cut or text.strip("\n") == region.strip("\n"):
            return Reply(NO_EDIT)
        return Reply(f"```\n{text.removesuffix(chr(10))}\n```")

    return Question(
        kind="edit",
        model=body.model,
        request=request,
        shown=prompt,
        param="messages",
        whole=True,
        reply=reply,
        warning=chosen.warning,
        stream=bool(body.stream),
        diffusing=bool(body.diffusing and body.stream),
        canvas=bool(body.canvas),
        include_usage=bool(body.stream_options and body.stream_options.include_usage),
    )


def _prompt(messages: Sequence[Message]) -> str:
    users = [text_of(message) for message in messages if message.role == "user"]
    if not users:
        raise failures.invalid("an edit needs a user message with the tagged prompt", "messages")
    return users[-1].replace("\r\n", "\n")


def read_place(prompt: str) -> Place:
    """Raises ApiError without `<|code_to_edit|>`."""
    marked = section(prompt, "code_to_edit")
    if marked is None:
        raise failures.invalid("the prompt needs the region to edit in <|code_to_edit|>", "messages")
    region = _framed(marked)
    cursor = region.find(CURSOR)
    region = region.replace(CURSOR, "")
    file = section(prompt, "current_file_content") or ""
    path, content = _path_of(file)
    nested = _pattern("code_to_edit").search(content)
    if nested is not None:
        before, after = content[: nested.start()], content[nested.end() :].removeprefix("\n")
    else:
        content = content.replace(CURSOR, "")
        at = content.find(region) if region.strip() else -1
        before, after = (content[:at], content[at + len(region) :].removeprefix("\n")) if at >= 0 else ("", "")
    found = _pattern("recently_viewed_code_snippet").finditer(prompt)
    snippets = [Snippet(*_path_of(match[1].strip("\n"))) for match in found]
    return Place(
        path=path,
        before=before,
        region=region + "\n" if region and after else region,
        after=after,
        cursor=cursor if cursor >= 0 else None,
        snippets=tuple(s for s in snippets if s.text.strip()),
        history=(section(prompt, "edit_diff_history") or "").strip("\n"),
    )


def section(prompt: str, name: str) -> str | None:
    """What stands between `<|name|>` and `<|/name|>`; to the end where it is not closed."""
    match = _pattern(name).search(prompt)
    return match[1] if match else None


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"<\|{name}\|>(.*?)(?:<\|/{name}\|>|\Z)", re.DOTALL)


def _framed(text: str) -> str:
    """A section's text without the line breaks that set it off from its tags."""
    return text.removeprefix("\n").removesuffix("\n")


def _path_of(text: str) -> tuple[str, str]:
    match = _PATH.match(text)
    return (match[1].strip(), text[match.end() :]) if match else ("", text.removeprefix("\n"))
