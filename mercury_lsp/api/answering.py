"""From a question to an answer: runs it in the pool and makes one body or a stream of events of the drafts.

Only settled text is streamed, and of that nothing that a stop sequence, a tool call or a judge could still take back.
With `diffusing` each event is the whole current text instead, masks shown. This module knows nothing about prompts.
"""

import json
import time
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from mercury_lsp.api import failures
from mercury_lsp.api.failures import ApiError
from mercury_lsp.api.pool import log
from mercury_lsp.api.runs import OverloadedError, Run, Runs, UnavailableError
from mercury_lsp.engine import explain
from mercury_model.draft import MASK_GLYPH, Draft, Request, Slot
from mercury_model.errors import RequestError

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """What the client gets as the model's words."""

    content: str | None
    tool_calls: tuple[Json, ...] = ()


def as_it_is(text: str) -> Reply:
    return Reply(text)


@dataclass(frozen=True, slots=True)
class Question:
    """One request to the model, and how its text becomes a reply.

    kind: "chat", "edit" or "text". model: the name the client used. shown: texts that count as the prompt.
    lead: text that stands before the model's own words and belongs to the reply. whole: text that is settled may still
    change (a judge), so nothing goes out before the end. sendable: text -> how much of it may go out now.
    reply: whole text, whether it was cut off -> Reply; may raise ApiError. extra: final draft's text -> our own fields.
    """

    kind: str
    model: str
    request: Request
    shown: str
    param: str = "prompt"
    lead: str = ""
    stop: tuple[str, ...] = ()
    whole: bool = False
    sendable: Callable[[str], int] = len
    reply: Callable[[str, bool], Reply] = field(default=lambda text, cut: as_it_is(text))
    extra: Callable[[str], Json] | None = None
    warning: str | None = None
    stream: bool = False
    diffusing: bool = False
    canvas: bool = False
    include_usage: bool = False
    summary: bool = False


OBJECTS = {
    "chat": ("chatcmpl-", "chat.completion", "chat.completion.chunk"),
    "edit": ("chatcmpl-", "edit.completion", "chat.completion.chunk"),
    "text": ("cmpl-", "text_completion", "text_completion"),
}
"""Kind -> beginning of the id, object of a whole answer, object of a chunk."""


class Answer:
    """An answer under way. Use `whole` or `events`; `finished` is called once with the outcome for the counters."""

    def __init__(self, question: Question, runs: Runs, n_prompt: int) -> None:
        self.question = question
        self.id = OBJECTS[question.kind][0] + uuid.uuid4().hex
        self.created = int(time.time())
        self.n_prompt = n_prompt
        self.ticket = _submit(runs, question.request)
        self.last = Draft("")
        self.began = time.monotonic()

    async def first(self) -> Draft:
        """Waits for the first draft, so that what is wrong with the request is told by a status code."""
        draft = await self._next()
        if draft is None:
            raise failures.broken("the model gave no answer")
        return draft

    async def _next(self) -> Draft | None:
        try:
            self.last = await anext(self.ticket)
        except StopAsyncIteration:
            return None
        except OverloadedError:
            raise failures.too_many() from None
        except UnavailableError as error:
            raise failures.overloaded(str(error)) from None
        except RequestError as error:
            raise failures.invalid(str(error)) from None
        except Exception as error:
            raise failures.broken(explain(error)) from None
        return self.last

    async def close(self) -> None:
        await self.ticket.aclose()

    async def whole(self) -> Json:
        """The body of an answer that is not streamed. Raises ApiError."""
        while await self._next() is not None:
            pass
        text, reply = self._reply()
        choice: Json = {"index": 0}
        if self.question.kind == "text":
            choice["text"] = reply.content or ""
        else:
            calls = [dict(call) for call in reply.tool_calls]
            choice["message"] = {
                "role": "assistant",
                "content": reply.content,
                "tool_calls": calls,
                "tool_call_id": None,
            }
        choice["finish_reason"] = self._finish(reply)
        body = self._frame(OBJECTS[self.question.kind][1], [choice])
        body |= {"usage": self.usage(), "warning": self.question.warning}
        if self.question.summary:
            body["reasoning_summary"] = {"content": None, "status": "skipped"}
        if self.question.extra is not None:
            body["mercury"] = self.question.extra(text)
        return body

    async def events(self, draft: Draft) -> AsyncIterator[bytes]:
        """Server-sent events, from the first draft on, to `[DONE]`. An error on the way is the last event."""
        try:
            if self.question.kind != "text":
                yield self._event({"role": "assistant", "content": ""})
            sent = drawn = ""
            current: Draft | None = draft
            while current is not None:
                if self.question.diffusing:
                    if (text := self._drawn(current)) != drawn or self.question.canvas:
                        drawn = text
                        yield self._event({"content": text}, current)
                elif (now := self._safe(current)).startswith(sent):
                    if len(now) > len(sent):
                        yield self._event({"content": now[len(sent) :]}, current)
                        sent = now
                elif current.done or len(now) > len(sent):
                    # begun anew after a replica died, on a machine that computes otherwise
                    raise failures.overloaded("the denoiser died and its successor wrote another text: ask again")
                current = await self._next()
            async for event in self._endings(sent):
                yield event
        except ApiError as error:
            yield event_of(error.body)
        finally:
            await self.close()
        yield b"data: [DONE]\n\n"

    async def _endings(self, sent: str) -> AsyncIterator[bytes]:
        text, reply = self._reply()
        content = reply.content or ""
        if self.question.diffusing:
            if content != self._drawn(self.last):
                yield self._event({"content": content})
        elif content.startswith(sent) and len(content) > len(sent):
            yield self._event({"content": content[len(sent) :]})
        if reply.tool_calls:
            calls = [{"index": i, **call} for i, call in enumerate(reply.tool_calls)]
            yield self._event({"tool_calls": calls})
        extra = self.question.extra(text) if self.question.extra is not None else {}
        yield self._event({}, finish=self._finish(reply), extra=extra)
        if self.question.include_usage:
            frame = self._frame(OBJECTS[self.question.kind][2], [])
            yield event_of(frame | {"usage": self.usage(), "warning": self.question.warning})

    def usage(self) -> Json:
        last, ticket = self.last, self.ticket
        cached = max(0, self.n_prompt - last.prefilled) if last.prefilled or last.forwards else 0
        first = None if ticket.first_text is None else round(1000 * (ticket.first_text - ticket.submitted), 1)
        return {
            "prompt_tokens": self.n_prompt,
            "completion_tokens": last.n_tokens,
            "total_tokens": self.n_prompt + last.n_tokens,
            "reasoning_tokens": 0,
            "cached_input_tokens": cached,
            "prompt_tokens_details": {"cached_tokens": cached},
            "completion_tokens_details": {"reasoning_tokens": 0},
            "forwards": last.forwards,
            "time_to_first_text_ms": first,
        }

    def _reply(self) -> tuple[str, Reply]:
        text, _ = cut(self.question.lead + self.last.text, self.question.stop, len(self.question.lead))
        return text, self.question.reply(text, self.last.ended in ("length", "deadline"))

    def _finish(self, reply: Reply) -> str:
        if reply.tool_calls:
            return "tool_calls"
        return "length" if self.last.ended in ("length", "deadline") else "stop"

    def _safe(self, draft: Draft) -> str:
        """The text that no later draft will take back."""
        question = self.question
        if question.whole:
            return ""
        text, stopped = cut(question.lead + draft.text[: draft.settled], question.stop, len(question.lead))
        if not stopped and not draft.done:
            text = text[: len(text) - begun(text, question.stop)]
        return text[: question.sendable(text)]

    def _drawn(self, draft: Draft) -> str:
        text = self.question.lead + canvas_text(draft)
        return cut(text, self.question.stop, len(self.question.lead))[0]

    def _frame(self, kind: str, choices: list[Json]) -> Json:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.question.model,
            "choices": choices,
        }

    def _event(
        self, delta: Json, draft: Draft | None = None, *, finish: str | None = None, extra: Json | None = None
    ) -> bytes:
        if self.question.kind == "text":
            choice: Json = {"index": 0, "text": delta.get("content", ""), "finish_reason": finish}
        else:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
        body = self._frame(OBJECTS[self.question.kind][2], [choice])
        if finish is not None and self.question.warning is not None:
            body["warning"] = self.question.warning
        if self.question.canvas and draft is not None:
            body["mercury"] = canvas(draft)
        if extra:
            body["mercury"] = {**extra, "usage": self.usage()}
        return event_of(body)


def _submit(runs: Runs, request: Request) -> Run:
    try:
        return runs.submit(request)
    except OverloadedError:
        raise failures.too_many() from None
    except UnavailableError as error:
        raise failures.overloaded(str(error)) from None


@dataclass(frozen=True, slots=True)
class Stopping:
    """A rule for the text's end: a stop sequence, or whichever other rule says so first.

    A value and no closure, so that a request can be sent to another machine.
    """

    stop: tuple[str, ...]
    others: tuple[Callable[[str], int | None], ...] = ()

    def __call__(self, text: str) -> int | None:
        kept, stopped = cut(text, self.stop)
        if stopped:
            return len(kept)
        found = [at for at in (rule(text) for rule in self.others) if at is not None]
        return min(found) if found else None


def cut(text: str, stop: tuple[str, ...], start: int = 0) -> tuple[str, bool]:
    """`text` up to the first stop sequence behind `start`, and whether there was one."""
    found = [at for sequence in stop if (at := text.find(sequence, start)) >= 0]
    return (text[: min(found)], True) if found else (text, False)


def begun(text: str, marks: tuple[str, ...]) -> int:
    """How many characters at the end of `text` may be the beginning of one of `marks`."""
    return max(
        (n for mark in marks for n in range(1, min(len(mark), len(text) + 1)) if text.endswith(mark[:n])), default=0
    )


def canvas_text(draft: Draft) -> str:
    """The whole current text, a glyph for every masked slot."""
    if draft.done or not draft.n_open:
        return draft.text
    return "".join(MASK_GLYPH if slot.state == "masked" else slot.text for slot in drawn(draft))


def drawn(draft: Draft) -> list[Slot]:
    """The slots as they spell the text.

    What the prompt's last token held before the middle begins stands in the first slots and not in the text; what was
    written behind the text's end stands in the last ones.
    """
    visible = "".join(slot.text for slot in draft.slots if slot.state != "masked")
    skip = max(0, visible.find(draft.text)) if draft.text else 0
    left = len(draft.text)
    out: list[Slot] = []
    for slot in draft.slots:
        if slot.state == "masked":
            out.append(slot)
            continue
        text, skip = slot.text[skip:], max(0, skip - len(slot.text))
        text, left = text[:left], left - len(text[:left])
        if text:
            out.append(replace(slot, text=text))
    return out


def canvas(draft: Draft) -> Json:
    """Our own field of a chunk: the slots as [text, state, confidence, revised], and what they cost so far."""
    slots = [[s.text, s.state, round(s.confidence, 3), int(s.revised)] for s in drawn(draft)]
    return {
        "slots": slots,
        "text": draft.text,
        "forwards": draft.forwards,
        "tokens": draft.n_tokens,
        "open": draft.n_open,
        "ms": {name: round(value, 1) for name, value in draft.ms.items()},
    }


def dumps(value: object) -> bytes:
    """JSON that is always UTF-8, lone surrogates or not."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def event_of(body: Json) -> bytes:
    return b"data: " + dumps(body) + b"\n\n"


__all__ = ["Answer", "Question", "Reply", "Stopping", "canvas_text", "cut", "dumps", "log"]
