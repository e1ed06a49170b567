"""Measures several ways to fill a middle side by side: the same questions, asked of each in turn.

A contestant is an Infiller and how it is to decode; who comes first changes from question to question, so that a
machine that slows down slows all of them down. Each is asked something before, unmeasured. What comes out are rows and
timed answers; this module knows nothing about tables, plots, files or where the contestants come from.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from mercury_lsp.evaluation import humaneval
from mercury_lsp.evaluation.humaneval import Decoding, Row, Task
from mercury_lsp.evaluation.sandbox import DEFAULT_LIMITS, Limits
from mercury_lsp.evaluation.typing_traces import Trace, Typist
from mercury_lsp.region import Budget, completion_region, request_for
from mercury_lsp.text import Document, Span
from mercury_model.draft import Infiller, Request

Report = Callable[[str, float], None]

SUGGESTION_TOKENS = 64
"""The server's own default (inline.max_tokens)."""
WARM_UP = Request("import os\n\n\ndef main():\n    path = os.", "\n\n\nmain()\n", max_tokens=4)


@dataclass(frozen=True, slots=True)
class Contestant:
    """Who is asked. policy and effort of the decoding mean nothing to a peer."""

    name: str
    infiller: Infiller
    decoding: Decoding


@dataclass(frozen=True, slots=True)
class Timed:
    """One timed answer. place: what was asked, the same for all contestants. context: tokens it was shown at most.

    seconds: until it was complete, or, where only its beginning was wanted, until the first text that stays.
    prefilled: tokens of the prompt that had to be read. n_tokens: tokens written.
    """

    contestant: str
    place: str
    context: int
    seconds: float
    prefilled: int
    n_tokens: int


def in_turn(contestants: Sequence[Contestant], n: int) -> list[Contestant]:
    """The contestants in the order of question `n`: each is first once in as many questions as there are."""
    first = n % len(contestants)
    return [*contestants[first:], *contestants[:first]]


def warm_up(contestants: Sequence[Contestant]) -> None:
    """Asks each of them something, so that nobody's first measured answer pays for what is read or built once."""
    for contestant in contestants:
        for _ in contestant.infiller(_decoded(WARM_UP, contestant, "")):
            pass


def quality(
    tasks: Sequence[Task],
    contestants: Sequence[Contestant],
    finished: Sequence[Row],
    keep: Callable[[Row], None],
    report: Report,
    limits: Limits = DEFAULT_LIMITS,
) -> dict[str, list[Row]]:
    """Each contestant's rows in the order of the tasks; a row in `finished` is not asked again."""
    rows: dict[str, list[Row]] = {contestant.name: [] for contestant in contestants}
    known: dict[str, list[Row]] = {}
    for row in finished:
        known.setdefault(row.task, []).append(row)
    for n, task in enumerate(tasks):
        report("answers to tasks", n / len(tasks))
        for contestant in in_turn(contestants, n):
            kept = known.get(task.task_id, [])
            rows[contestant.name] += humaneval.evaluate(
                [task], [contestant.decoding], contestant.infiller, kept, keep, limits
            )
    return rows


def per_key(
    contestants: Sequence[Contestant], traces: Sequence[Trace], every: int, context: int, report: Report
) -> list[Timed]:
    """While the traces are typed, every `every`-th key is answered by all, with what the server would ask there.

    context: tokens of the document that are shown at most, as the first contestant counts them. Each keeps its own
    cache from key to key. No pause is made and no suggestion is taken: what is measured is the model's part of the
    latency.
    """
    judge = contestants[0].infiller
    budget, n = Budget.of(judge, context), 0
    found: list[Timed] = []
    for number, trace in enumerate(traces):
        report("answers to keys", number / len(traces))
        before, typist, region, key = trace.before, Typist(trace), None, -1
        while (action := typist.act("")) is not None:
            key += 1
            before = before[: -len(action.text)] if action.kind == "delete" else before + action.text
            if key % every:
                continue
            document = Document(f"{number}/{trace.name}", key, trace.language, before + trace.after)
            region = completion_region(document, len(before), budget, judge.count_tokens, region)
            if region is None:
                continue
            asked = request_for(region, max_tokens=SUGGESTION_TOKENS)
            for contestant in in_turn(contestants, n):
                request = _decoded(asked, contestant, document.uri)
                found.append(timed(contestant, request, f"{document.uri}, key {key}", context))
            n += 1
    return found


def contexts(budget: int) -> list[int]:
    """Sizes from 256 tokens on, each twice the one before, up to 4096 and to `budget`, which is the last."""
    largest = min(budget, 4096)
    return [*(size for size in (256, 512, 1024, 2048, 4096) if size < largest), largest]


def by_context(
    contestants: Sequence[Contestant], document: Document, sizes: Sequence[int], repeats: int, seed: int, report: Report
) -> list[Timed]:
    """Time to the first text, with nothing read before, at `repeats` places of the document for each size."""
    judge = contestants[0].infiller
    found: list[Timed] = []
    for n, (shortened, cursor) in enumerate(_places(document, repeats, seed)):
        for index, size in enumerate(sizes):
            report("contexts of several sizes", (n * len(sizes) + index) / (repeats * len(sizes)))
            region = completion_region(shortened, cursor, Budget.of(judge, size), judge.count_tokens)
            if region is None:
                continue
            asked = request_for(region, max_tokens=SUGGESTION_TOKENS)
            for contestant in in_turn(contestants, n + index):
                request = _decoded(asked, contestant, "")
                found.append(timed(contestant, request, f"offset {cursor}, {size} tokens", size, whole=False))
    return found


def timed(contestant: Contestant, request: Request, place: str, context: int, *, whole: bool = True) -> Timed:
    """Asks, and stops the clock at the end or, unless the `whole` answer is wanted, at the first text that stays."""
    began = time.perf_counter()
    prefilled = n_tokens = 0
    drafts = contestant.infiller(request)
    for draft in drafts:
        prefilled, n_tokens = draft.prefilled, draft.n_tokens
        if draft.settled and not whole:
            break
    seconds = time.perf_counter() - began
    close = getattr(drafts, "close", None)
    if close is not None:
        close()
    return Timed(contestant.name, place, context, seconds, prefilled, n_tokens)


def pairs(values: Sequence[Timed], ours: str, other: str) -> list[tuple[Timed, Timed]]:
    """The answers of both to the same questions."""
    theirs = {value.place: value for value in values if value.contestant == other}
    return [(v, theirs[v.place]) for v in values if v.contestant == ours and v.place in theirs]


def _decoded(request: Request, contestant: Contestant, document: str) -> Request:
    """The contestant's own cache, policy and effort; an empty document: nothing is reused."""
    return replace(
        request,
        document=document and f"{document} {contestant.name}",
        policy=contestant.decoding.policy,
        effort=contestant.decoding.effort,
    )


def _places(document: Document, n: int, seed: int) -> Iterator[tuple[Document, int]]:
    """The document with half of a line of code left, and the cursor there: `n` lines of its middle half."""
    middle = range(document.n_lines // 4, 1 + 3 * document.n_lines // 4)
    code = [line for line in middle if document.line_text(line).strip()]
    for line in random.Random(seed).sample(code, min(n, len(code))):
        span, text = document.line_span(line), document.line_text(line)
        cursor = span.start + len(text) - len(text.lstrip()) + len(text.strip()) // 2
        yield document.apply(Span(cursor, span.end), "", document.version), cursor
