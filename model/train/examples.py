"""From source files to training examples: which middles are taken out, and how they are laid out for the model.

Everything is a function of its arguments: the k-th example of a seed is the same in every run and every process,
so a run resumes at any k, and workers share the work by steps. This module knows nothing about tensors, masks,
noise schedules or losses.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from shards import Shards

from mercury_lsp.syntax import GRAMMARS, Parsed, parse

Kind = Literal["line", "lines", "block", "statement", "expression", "argument", "random"]

WEIGHTS: dict[Kind, float] = {
    "line": 0.25,
    "lines": 0.20,
    "block": 0.20,
    "statement": 0.12,
    "expression": 0.08,
    "argument": 0.05,
    "random": 0.10,
}
"""How often each kind of middle is drawn; line and lines are what people complete, and what is measured."""

LANGUAGE_WEIGHTS = {"python": 1.3}
"""How much oftener than its tokens' share a language is drawn; the rest are 1. Python is then 61% (55% of tokens)."""

STATEMENT = re.compile(r"(statement|declaration|definition|_item|assignment|rule_set|element|pair|command)$")
EXPRESSION = re.compile(
    r"(expression|operator|call|invocation|literal|attribute|subscript|string|list|tuple|dictionary"
    r"|comprehension|lambda|object|array|value)$"
)
ARGUMENTS = re.compile(r"(arguments|argument_list|parameters|parameter_list)$")
BLOCK = re.compile(r"^(block|statement_block|class_body|compound_statement|declaration_list|do_group)$")

MAX_CHARS = 600
"""Longer middles are more than 128 tokens in every language of the corpus."""

SUFFIX_SHARE = 1 / 3
"""Of the context's tokens, what the suffix may take while the prefix wants them too."""

WINDOW = 640
"""Tokens on each side of an anchor that are decoded and parsed: more than a context and a middle can use."""

TRIES = 20
"""Anchors tried for one example; a whole file of blank lines is the only thing known to need more than a few."""

Span = tuple[int, int]


class Vocabulary(Protocol):
    """What is needed of mercury_model.tokens.Tokens."""

    fim_prefix: int
    fim_middle: int
    fim_suffix: int
    end: int

    def encode(self, text: str, /) -> list[int]: ...
    def decode(self, ids: Sequence[int], /) -> str: ...


@dataclass(frozen=True, slots=True)
class Middle:
    """A piece of a text, text[start:end] in code points, never empty."""

    start: int
    end: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class Example:
    """One training sequence: context, then the middle, then the end token.

    ids[:middle_start] is the context, ids[middle_start:-1] the middle, ids[-1] the end token.
    """

    ids: tuple[int, ...]
    middle_start: int
    kind: str = ""
    language: str = ""

    @property
    def middle(self) -> tuple[int, ...]:
        return self.ids[self.middle_start : -1]


def middles(text: str, language: str, rng: random.Random, n: int, *, within: Span | None = None) -> list[Middle]:
    """Up to n middles of at most MAX_CHARS code points in lines or nodes that start in `within`.

    Kinds are drawn by WEIGHTS; one that has no candidate here (no block, an unknown language) gives way to the
    others. A third of the nodes lose their beginning to the prefix, as if somebody were typing in them.
    """
    low, high = within or (0, len(text))
    candidates = {
        kind: [s for s in spans if low <= s[0] < high] for kind, spans in _nodes(text, language, (low, high)).items()
    }
    lines = [span for span in _line_spans(text) if low <= span[0] < high and text[slice(*span)].strip()]
    kinds: list[Kind] = [k for k in WEIGHTS if candidates.get(k) or (k in ("line", "lines", "random") and lines)]
    found: list[Middle] = []
    for kind in rng.choices(kinds, [WEIGHTS[kind] for kind in kinds], k=n) if kinds else ():
        if kind == "line":
            span = _rest_of_line(text, rng.choice(lines), rng)
        elif kind == "lines":
            span = _whole_lines(text, rng.choice(lines), rng)
        elif kind == "random":
            start = rng.randrange(*rng.choice(lines))
            span = (start, min(len(text), start + round(2 ** rng.uniform(0, 8.7))))
        else:
            start, end = rng.choice(candidates[kind])
            if rng.random() < 1 / 3:
                start += rng.randrange(1 + (end - start) * 2 // 3)
            span = (start, end)
        if span[0] < span[1] <= span[0] + MAX_CHARS:
            found.append(Middle(*span, kind))
    return found


def _nodes(text: str, language: str, within: Span) -> dict[Kind, list[Span]]:
    """Code point spans of the syntax nodes near `within` by kind; a block is what stands between its braces."""
    found: dict[Kind, list[Span]] = {"block": [], "statement": [], "expression": [], "argument": []}
    parsed = parse(text, language) if language in GRAMMARS else None
    if parsed is None:
        return found
    low, high = parsed.byte(within[0]), parsed.byte(within[1])
    stack = [(parsed.tree.root_node, "")]
    while stack:
        node, parent = stack.pop()
        if node.end_byte < low or node.start_byte >= high:
            continue
        stack += [(child, node.type) for child in node.named_children]
        kind: Kind
        if BLOCK.search(node.type) or node.type in GRAMMARS[language].block_nodes:
            kind = "block"
        elif ARGUMENTS.search(parent):
            kind = "argument"
        elif STATEMENT.search(node.type):
            kind = "statement"
        elif EXPRESSION.search(node.type):
            kind = "expression"
        else:
            continue
        if 0 < node.end_byte - node.start_byte <= 4 * MAX_CHARS:
            span = _inner(parsed, node.start_byte, node.end_byte, kind)
            if 0 < span[1] - span[0] <= MAX_CHARS:
                found[kind].append(span)
    return found


def _inner(parsed: Parsed, start: int, end: int, kind: Kind) -> Span:
    first, last = parsed.offset(start), parsed.offset(end)
    braces = parsed.text[first : first + 1] + parsed.text[last - 1 : last]
    return (first + 1, last - 1) if kind == "block" and braces in ("{}", "[]") else (first, last)


def _line_spans(text: str) -> list[Span]:
    """Lines without their line feeds."""
    ends = [match.start() for match in re.finditer(r"\n|\Z", text)]
    return list(zip([0, *(end + 1 for end in ends[:-1])], ends, strict=True))


def _rest_of_line(text: str, line: Span, rng: random.Random) -> Span:
    """From a place in the line's code, its first character half of the time, to the line's end."""
    start, end = line
    code = end - len(text[start:end].lstrip())
    return (code if rng.random() < 0.5 else rng.randrange(code, end), end)


def _whole_lines(text: str, line: Span, rng: random.Random) -> Span:
    """One to sixteen lines from `line` on, few more often than many; with or without indent and last line feed."""
    start, end = line
    for _ in range(min(15, int(rng.expovariate(0.3)))):
        following = text.find("\n", end + 1)
        end = following if following >= 0 else end
    if rng.random() < 0.5:
        start = line[1] - len(text[line[0] : line[1]].lstrip())
    return (start, end + (end < len(text) and rng.random() < 0.5))


def tail_window(ids: Sequence[int], n: int, tokens: Vocabulary) -> list[int]:
    """The longest end of `ids` that has at most n tokens and starts at a line start.

    Tokens end where lines do, so the window is what its own text would be encoded to. Where the last n tokens
    hold no line start, they are the window.
    """
    for start in range(max(0, len(ids) - n), len(ids)):
        if start == 0 or tokens.decode(ids[start - 1 : start]).endswith("\n"):
            return list(ids[start:])
    return list(ids[len(ids) - n :])


def head_window(ids: Sequence[int], n: int, tokens: Vocabulary) -> list[int]:
    """The longest start of `ids` that has at most n tokens and ends at a line's end, as in tail_window."""
    if len(ids) <= n:
        return list(ids)
    for end in range(n, 0, -1):
        if tokens.decode(ids[end - 1 : end]).endswith("\n"):
            return list(ids[:end])
    return list(ids[:n])


def fim_sequence(
    prefix: str, middle: str, suffix: str, tokens: Vocabulary, max_context: int, kind: str = "", language: str = ""
) -> Example:
    """Suffix first: <|fim_prefix|><|fim_suffix|>{suffix}<|fim_middle|>{prefix}{middle}<|endoftext|>.

    The three texts are encoded apart, as they are when somebody types. max_context: tokens before the middle,
    the three marks among them; what does not fit is cut off at line boundaries, far from the middle.
    """
    room = max_context - 3
    prefix_ids, suffix_ids = tokens.encode(prefix), tokens.encode(suffix)
    share = max(int(room * SUFFIX_SHARE), room - len(prefix_ids))
    after = head_window(suffix_ids, min(room, share), tokens)
    before = tail_window(prefix_ids, room - len(after), tokens)
    context = (tokens.fim_prefix, tokens.fim_suffix, *after, tokens.fim_middle, *before)
    return Example((*context, *tokens.encode(middle), tokens.end), len(context), kind, language)


def corrupt(ids: Sequence[int], rng: random.Random, pool: Sequence[int], fill: int, rate: float = 0.15) -> list[int]:
    """The same number of slots holding code to be put right: about `rate` of them suffer something.

    A neighbour's place (swap), a token gone (the rest moves up, `fill` stands at the end), a token of `pool`
    too many (the last one falls off) or instead, a name that is stale (every occurrence of one token replaced).
    pool: tokens of the context, the likeliest wrong ones. fill: the mask token.
    """
    slots = list(ids)
    for _ in range(max(1, round(rate * len(slots)))) if slots else ():
        at, wrong = rng.randrange(len(slots)), rng.choice(pool) if pool else fill
        match rng.choice(("swap", "delete", "insert", "replace", "stale")):
            case "swap":
                other = min(at + 1, len(slots) - 1)
                slots[at], slots[other] = slots[other], slots[at]
            case "delete":
                slots[at:] = [*slots[at + 1 :], fill]
            case "insert":
                slots[at:] = [wrong, *slots[at:-1]]
            case "replace":
                slots[at] = wrong
            case _:
                stale = slots[at]
                slots = [wrong if slot == stale else slot for slot in slots]
    return slots


def examples(
    shards: Shards,
    seed: int,
    start: int = 0,
    *,
    tokens: Vocabulary,
    split: str = "train",
    step: int = 1,
    max_context: int = 448,
    max_middle: int = 128,
) -> Iterator[Example]:
    """The examples start, start + step, start + 2 step, ... of a seed, without end.

    Places are drawn evenly over a language's tokens in the split. Raises ValueError if the split is empty.
    """
    rows = shards.of(split)
    ends = np.cumsum([row.n * LANGUAGE_WEIGHTS.get(row.language, 1.0) for row in rows])
    if not rows or ends[-1] == 0:
        raise ValueError(f"the corpus has no {split} files: build it with model/train/corpus.py")
    number = start
    while True:
        rng = random.Random(f"{seed} {split} {number}")
        for _ in range(TRIES):
            row = rows[int(np.searchsorted(ends, rng.random() * ends[-1], side="right"))]
            at = rng.randrange(row.n)
            text, within = _around(shards, row.offset, row.n, at, tokens)
            chosen = middles(text, row.language, rng, 1, within=within)
            if not chosen:
                continue
            middle = chosen[0]
            example = fim_sequence(
                text[: middle.start],
                text[middle.start : middle.end],
                text[middle.end :],
                tokens,
                max_context,
                middle.kind,
                row.language,
            )
            if 1 <= len(example.middle) <= max_middle:
                yield example
                break
        number += step


def _around(shards: Shards, offset: int, n: int, at: int, tokens: Vocabulary) -> tuple[str, Span]:
    """The text around token `at` of a file, whole lines only, and where a middle may start: close to it."""
    low, high = max(0, at - WINDOW), min(n, at + WINDOW)
    ids = shards.tokens[offset + low : offset + high].tolist()
    text = tokens.decode(ids)
    anchor = len(tokens.decode(ids[: at - low]))
    first = text.find("\n") + 1 if low > 0 else 0
    last = text.rfind("\n") + 1 if high < n else len(text)
    return text[first:last], (max(0, anchor - first - MAX_CHARS), max(1, anchor - first + MAX_CHARS))
