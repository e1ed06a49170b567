"""Rewrite code that is there: the canvas starts as the user's own code and only doubtful slots are masked.

1. Doubt. What the caller points at is doubtful. Where it points at nothing, one causal pass of the base over the code
   finds the tokens that are improbable while the model is sure of another one. Left to right that is most of a
   programmer's free choices, so each is tried: the other token stands there, and the code behind it is scored again.
   Only where the whole becomes more probable by GAIN is there real doubt.
2. Masks. A doubtful stretch (widened to whole identifiers) is masked and filled with both sides in view: what follows
   it is the suffix. The first token may not be the one that stood there. A filling ends where the text goes on as the
   code behind the stretch does. Near spellings that stand elsewhere in view are candidates beside the filling.
3. Choice. The candidate that makes the code most probable wins, minus what its distance from the old text costs; a
   stretch that the caller did not point at is changed only for a gain of GAIN.
With an instruction, the model is asked in words, as a chat; the old code is what its answer is copied from, so
unchanged lines cost a check and no draft.

Tokens under no doubt keep every byte. This module knows nothing about syntax, documents or diagnostics.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from mercury_model.denoiser import BlockDenoiser, Scored, perform
from mercury_model.draft import Draft, Request, Slot
from mercury_model.filling import Run, draft_of, drive, fill
from mercury_model.prompt import instruction_prompt, prompt

IMPROBABLE = -4.0
"""Log probability below which a token is doubtful (1.8%)..."""
SURE = 0.6
"""...if the model would have written another one with at least this probability."""
MOST_DOUBTS = 12
"""Doubts of the model's own that are tried, the most improbable first."""
GAIN = 8.0
"""Nats by which an unasked change must make the code more probable. A misspelt name gains 10 and more; an operator
that the model merely likes better gains 3 to 7."""
DISTANCE_COST = 1.5
"""Nats a candidate pays for each character it lies from the old text."""
HORIZON = 48
"""Tokens behind a stretch by which candidates are compared."""
REJOIN = 12
"""Characters of the code behind a stretch that must stand at the end of its filling for it to have rejoined."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Characters start..end of the code are to be written again. asked: the caller pointed at them."""

    start: int
    end: int
    asked: bool


def rewrite(denoiser: BlockDenoiser, request: Request) -> Iterator[Draft]:
    """Drafts of the region's new text; the last has done=True. Without doubt the text is the original, unchanged."""
    if request.instruction:
        yield from _by_instruction(denoiser, request)
        return
    text = request.original or ""
    spent = _Spent()
    stretches = [Stretch(a, b, True) for a, b in _merged(request.doubtful, len(text))]
    if not stretches:
        stretches = _own_doubts(denoiser, request, text, spent)
    shift = 0
    for stretch in stretches:
        before = text
        moved = replace(stretch, start=stretch.start + shift, end=stretch.end + shift)
        for draft in _refill(denoiser, request, before, moved, spent):
            text = draft.text
            yield draft
        shift += len(text) - len(before)
    yield Draft(
        text=text,
        slots=(Slot(text, "settled", 1.0),),
        settled=len(text),
        n_tokens=denoiser.tokens.count(text),
        forwards=spent.forwards,
        prefilled=spent.prefilled,
        done=True,
        ended="end",
    )


@dataclass
class _Spent:
    forwards: float = 0.0
    prefilled: int = 0


def _merged(spans: Sequence[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    """Sorted, within the text, overlapping and touching ones joined."""
    out: list[tuple[int, int]] = []
    for start, end in sorted((max(0, a), min(length, b)) for a, b in spans):
        if start > end:
            continue
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def _own_doubts(denoiser: BlockDenoiser, request: Request, text: str, spent: _Spent) -> list[Stretch]:
    """The stretches where another token makes the code behind it more probable by GAIN."""
    shown = prompt(denoiser.tokens, replace(request, original=None))
    ids = denoiser.tokens.encode(shown.healed + text)
    scored = _score(denoiser, request, shown.ids, ids, 0, spent)
    doubts = [
        (scored.log_p[i], i)
        for i, token in enumerate(ids)
        if i and scored.own_token[i] != token and scored.log_p[i] < IMPROBABLE and scored.own_confidence[i] >= SURE
    ]
    ends = [len(denoiser.tokens.decode(ids[: i + 1])) - len(shown.healed) for i in range(len(ids))]
    spans: list[tuple[int, int]] = []
    for _, i in sorted(doubts)[:MOST_DOUBTS]:
        start, end = _whole_words(text, max(0, ends[i - 1]), ends[i])
        other = denoiser.tokens.decode([scored.own_token[i]]).strip()
        candidates = [c for c in (*near_spellings(text[start:end], text + request.prefix + request.suffix), other) if c]
        if start < end and _gain(denoiser, request, text, start, end, candidates, spent)[0] >= GAIN:
            spans.append((start, end))
    return [Stretch(a, b, False) for a, b in _merged(spans, len(text))]


def _gain(
    denoiser: BlockDenoiser, request: Request, text: str, start: int, end: int, candidates: list[str], spent: _Spent
) -> tuple[float, str]:
    """How many nats the best candidate in place of text[start:end] gains over it, its distance paid; and which."""
    shown = prompt(denoiser.tokens, replace(request, original=None))
    encode = denoiser.tokens.encode
    # all are scored from the same token on; the last token before the stretch may join with it
    head = max(0, len(encode(shown.healed + text[:start])) - 1)

    def likelihood(candidate: str) -> float:
        ids = encode(shown.healed + text[:start] + candidate + text[end : end + 8 * HORIZON])
        most = len(encode(shown.healed + text[:start] + candidate)) + HORIZON
        return sum(_score(denoiser, request, shown.ids, ids[:most], head, spent).log_p)

    old = text[start:end]
    before = likelihood(old)
    gains = [(likelihood(c) - before - DISTANCE_COST * distance(old, c), c) for c in candidates if c != old]
    return max(gains, default=(float("-inf"), old))


def _score(
    denoiser: BlockDenoiser, request: Request, context: list[int], ids: list[int], start: int, spent: _Spent
) -> Scored:
    """Scores of ids[start:] behind context and ids[:start]."""
    session = denoiser.session(request.document)
    whole = [*context, *ids]
    at = len(context) + start
    for ask in session.prefill(whole[: at - 1]):
        perform(denoiser.transformer, [ask])
        spent.prefilled += ask.rows.ids.shape[0]
    spent.forwards += 1
    return session.score(whole[at - 1 : -1], whole[at:])


def _whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    """The span widened to the identifiers it cuts; leading blanks left out."""
    while start < end and text[start].isspace():
        start += 1
    while start > 0 and start < len(text) and _is_word(text[start]) and _is_word(text[start - 1]):
        start -= 1
    while 0 < end < len(text) and _is_word(text[end - 1]) and _is_word(text[end]):
        end += 1
    return start, end


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _refill(denoiser: BlockDenoiser, request: Request, text: str, stretch: Stretch, spent: _Spent) -> Iterator[Draft]:
    """Write the stretch again; yields drafts whose text is the whole region, the last one final."""
    start, end = stretch.start, stretch.end
    old, rest = text[start:end], text[end:]
    inner = replace(
        request,
        original=None,
        prefix=request.prefix + text[:start],
        suffix=rest + request.suffix,
        end=_rejoining(rest + request.suffix, one_line="\n" not in old),
        guess="",
        max_tokens=max(16, 2 * denoiser.tokens.count(old) + 12),
    )
    shown = prompt(denoiser.tokens, inner)
    first = denoiser.tokens.encode(shown.healed + old)[:1] if old else []
    run = Run(denoiser, inner, denoiser.session(request.document), shown, frozenset(first), watched=False)
    for draft in drive(run, fill(run)):
        if not draft.done:
            yield replace(
                draft,
                text=text[:start] + draft.text + rest,
                settled=start,
                forwards=spent.forwards + run.forwards,
                slots=(Slot(text[:start], "settled", 1.0), *draft.slots, Slot(rest, "settled", 1.0)),
            )
    spent.forwards += run.forwards
    spent.prefilled += run.prefilled
    # choosing between several takes a causal pass; without one the filling is the answer
    around = text[:start] + rest + request.prefix + request.suffix
    candidates = near_spellings(old, around) if denoiser.causal else []
    if run.ended in ("end", "rule"):
        candidates.append(run.text)
    new = _best(denoiser, request, text, stretch, candidates, spent)
    yield replace(draft_of(run, None), text=text[:start] + new + rest, done=False, ended="", settled=start + len(new))


def _rejoining(following: str, *, one_line: bool) -> Callable[[str], int | None]:
    """The rule of a stretch's end: the filling has begun to repeat what follows, or its line is over."""
    anchor = following[:REJOIN]
    line = following.split("\n", 1)[0]

    def end(filled: str) -> int | None:
        if anchor.strip() and filled.endswith(anchor):
            return len(filled) - len(anchor)
        at = filled.find("\n")
        if not one_line or at < 0:
            return None
        return at - len(line) if line and filled[:at].endswith(line) else at

    return end


def _best(
    denoiser: BlockDenoiser, request: Request, text: str, stretch: Stretch, candidates: list[str], spent: _Spent
) -> str:
    """The old text or the candidate that makes the code most probable; the old one never where the caller pointed."""
    old = text[stretch.start : stretch.end]
    candidates = [c for c in dict.fromkeys(candidates) if c != old]
    if not candidates or (stretch.asked and len(candidates) == 1):
        return candidates[0] if candidates else old
    gain, best = _gain(denoiser, request, text, stretch.start, stretch.end, candidates, spent)
    return best if stretch.asked or gain >= GAIN else old


def near_spellings(name: str, text: str) -> list[str]:
    """Identifiers of `text` that a slip of the finger turns into `name`: at most 2 edits, of 4 characters or more."""
    if len(name) < 3 or not all(_is_word(c) for c in name):
        return []
    words = set(re.findall(r"\w{3,}", text)) - {name}
    near = [(d, w) for w in words if abs(len(w) - len(name)) <= 2 and (d := distance(name, w)) <= 2 and d < len(w) - 2]
    return [w for _, w in sorted(near)[:4]]


def distance(a: str, b: str) -> int:
    """Levenshtein distance in characters."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        above, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (x != y))
    return row[-1]


def _by_instruction(denoiser: BlockDenoiser, request: Request) -> Iterator[Draft]:
    """Ask in words; the answer's code block is the new text. Copies of the old code are checked, not drafted."""
    original = request.original or ""
    fence = "\n```"
    budget = 2 * denoiser.tokens.count(original) + 96

    def end(text: str) -> int | None:
        at = text.find(fence)
        return at if at >= 0 else None

    inner = replace(request, original=None, guess=original, end=end, max_tokens=max(request.max_tokens, budget))
    shown = instruction_prompt(denoiser.tokens, request)
    run = Run(
        denoiser,
        inner,
        denoiser.session(request.document),
        shown,
        hints=(tuple(denoiser.tokens.encode(original)),),
        watched=False,
    )
    for draft in drive(run, fill(run)):
        done = replace(draft, ended="length", text=original) if draft.done and run.ended == "length" else draft
        yield replace(done, text=_fitted(done.text, original))


def _fitted(text: str, original: str) -> str:
    """The answer with the original's final line break."""
    text = text.rstrip("\n")
    return text + original[len(original.rstrip("\n")) :]
