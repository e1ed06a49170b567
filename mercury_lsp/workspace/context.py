"""What the model is shown of other places, by value per token: declarations that the code around the cursor uses,
recent edits elsewhere, similar code in other open documents, diagnostics near the cursor.

Values in, values out: what is open, indexed and edited comes from the caller, who passes nothing that is ignored. It
knows nothing about files, editors or when to look again (context_cache.py).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mercury_lsp.languages import grammar_of
from mercury_lsp.region import CountTokens, EditRegion
from mercury_lsp.text import Document, Span, model_text
from mercury_lsp.workspace.index import Declaration, Query
from mercury_lsp.workspace.recent_edits import RecentEdit
from mercury_model.draft import Snippet

Lookup = Callable[[Query], Sequence[Declaration]]
Locate = Callable[[str], tuple[str, str] | None]
"""URI -> (root, path relative to it with `/`); None for a document that must not be shown."""

NEAR_LINES = 30
"""Lines on each side of the cursor whose identifiers are looked up."""
SIMILAR_DOCUMENTS = 6
SIMILAR_CHARS = 200_000
LEAST_SIMILAR = 0.15
"""Jaccard index of the identifiers below which two pieces of code have nothing to do with each other."""
EDIT_LINES = 3
DIAGNOSTIC_LINES = 20
KEPT_BONUS = 1.3
"""A piece that is shown already is worth so much more: each exchange costs a prefill."""

SHARES = {"declaration": 0.7, "similar": 0.6, "edit": 0.5, "diagnostic": 0.2}
"""Most of the budget that one kind may take. Pieces stand in this order: what changes most stands last."""
_EDIT_VALUE, _SIMILAR_VALUE, _DIAGNOSTIC_VALUE = 8.0, 30.0, 4.0
_SEPARATOR = 2  # tokens: file separator and line end
_IMPORTED_NAME = 0.15  # weight of a name that is imported and not used near the cursor yet
_WORD = re.compile(r"[^\W\d]\w{2,}")
_IMPORT_LINE = re.compile(r"^[ \t]*(?:from|import|use|using|export)\b.*$", re.MULTILINE)
_TOP = 20_000


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A problem somebody published about a document."""

    span: Span
    message: str


@dataclass(frozen=True, slots=True)
class _Piece:
    kind: str
    path: str
    text: str
    value: float
    order: tuple[float, ...] = ()
    container: str = ""


def gather(
    document: Document,
    region: EditRegion,
    index: Lookup | None,
    edits: Sequence[RecentEdit],
    others: Sequence[Document],
    diagnostics: Sequence[Diagnostic],
    budget: int,
    count_tokens: CountTokens,
    *,
    locate: Locate,
    kept: Sequence[Snippet] = (),
) -> tuple[Snippet, ...]:
    """What to show before the region, in at most `budget` tokens; what is shown already stays in its place.

    index: answers which declarations are meant. edits: the newest first. others: open documents, those used last
    first. kept: what was shown before.
    """
    located = locate(document.uri)
    if budget <= 0 or located is None:
        return ()
    pieces = [
        *_declarations(document, region, index, located),
        *_edits(document, region, edits, others, locate),
        *_similar(document, region, others, locate, budget),
        *_diagnostics(document, region, diagnostics, located[1]),
    ]
    shown = "\n".join(snippet.text for snippet in kept)
    taken = _affordable(pieces, budget, count_tokens, shown)
    return _ordered(_snippets(taken, document.language), kept)


def size(snippets: Sequence[Snippet], count_tokens: CountTokens) -> int:
    """Tokens that pieces take in the prompt."""
    return sum(count_tokens(f"{snippet.path}\n{snippet.text}") + _SEPARATOR for snippet in snippets)


def used_names(document: Document, cursor: int) -> tuple[tuple[str, float], ...]:
    """Identifiers around the cursor, weighted by how near they are; those before it count double."""
    here = document.line_of(cursor)
    weights: dict[str, float] = {}
    for line in range(max(0, here - NEAR_LINES), min(document.n_lines, here + NEAR_LINES + 1)):
        distance = here - line if line <= here else 2 * (line - here) + 4
        for name in _WORD.findall(document.line_text(line)[:1000]):
            weights[name] = max(weights.get(name, 0.0), 1 / (1 + distance / 8))
    for line in _IMPORT_LINE.findall(document.text[:_TOP]):
        for name in _WORD.findall(line):
            weights[name] = max(weights.get(name, 0.0), _IMPORTED_NAME)
    return tuple(weights.items())


def _declarations(
    document: Document, region: EditRegion, index: Lookup | None, located: tuple[str, str]
) -> list[_Piece]:
    if index is None:
        return []
    root, path = located
    hidden = (document.line_of(region.before.start), document.line_of(region.after.end))
    names = used_names(document, region.cursor)
    query = Query(root, path, document.language, model_text(document.text[:_TOP]), names, hidden)
    found: dict[tuple[str, str], _Piece] = {}
    for one in index(query):
        indented = f"    {one.signature}" if one.container else one.signature
        piece = _Piece("declaration", one.path, indented, one.value, (one.line,), one.container)
        found.setdefault((one.path, f"{one.container} {one.signature}"), piece)
    return list(found.values())


def _edits(
    document: Document, region: EditRegion, edits: Sequence[RecentEdit], others: Sequence[Document], locate: Locate
) -> list[_Piece]:
    texts = {other.uri: other for other in (*others, document)}
    pieces: list[_Piece] = []
    for age, edit in enumerate(edits):
        located = locate(edit.uri)
        visible = edit.uri == document.uri and region.before.start <= edit.span.start <= region.after.end
        if located is None or visible or not edit.new.strip():
            continue
        text = edit.new
        source = texts.get(edit.uri)
        if source is not None and edit.span.end <= len(source.text):
            text = _lines_around(source, edit.span, EDIT_LINES)
        pieces.append(_Piece("edit", located[1], text, _EDIT_VALUE * 0.8**age, (edit.at,)))
    return pieces


def _lines_around(document: Document, span: Span, n_lines: int) -> str:
    first = document.line_span(document.line_of(span.start) - n_lines)
    last = document.line_span(document.line_of(span.end) + n_lines)
    return model_text(document.text[first.start : last.end]).strip("\n")


def _similar(
    document: Document, region: EditRegion, others: Sequence[Document], locate: Locate, budget: int
) -> list[_Piece]:
    height = max(6, min(30, budget // 24))  # lines of about 12 tokens; two windows fit
    here = document.line_of(region.cursor)
    last = min(document.n_lines - 1, here + height // 4)
    first = document.line_span(max(0, here - height))
    wanted = frozenset(_WORD.findall(document.text[first.start : document.line_span(last).end]))
    family = _family(document.language)
    pieces: list[_Piece] = []
    for other in [other for other in others if other.uri != document.uri][:SIMILAR_DOCUMENTS]:
        located = locate(other.uri)
        if located is None or _family(other.language) != family:
            continue
        best, place = 0.0, 0
        for line, names in _windows(other.text[:SIMILAR_CHARS], height):
            score = len(wanted & names) / (len(wanted | names) or 1)
            if score > best:
                best, place = score, line
        if best >= LEAST_SIMILAR:
            lines = model_text(other.text[:SIMILAR_CHARS]).split("\n")[place : place + height]
            pieces.append(_Piece("similar", located[1], "\n".join(lines).strip("\n"), _SIMILAR_VALUE * best, (place,)))
    return pieces


@lru_cache(maxsize=16)
def _windows(text: str, height: int) -> tuple[tuple[int, frozenset[str]], ...]:
    """(first line, identifiers) of windows that overlap by half."""
    step = height // 2
    lines = model_text(text).split("\n")
    steps = [frozenset(_WORD.findall("\n".join(lines[start : start + step]))) for start in range(0, len(lines), step)]
    steps.append(frozenset())
    return tuple((index * step, steps[index] | steps[index + 1]) for index in range(len(steps) - 1))


def _diagnostics(document: Document, region: EditRegion, diagnostics: Sequence[Diagnostic], path: str) -> list[_Piece]:
    here = document.line_of(region.cursor)
    comment = grammar_of(document.language).line_comment or "#"
    pieces: list[_Piece] = []
    for diagnostic in diagnostics:
        line = document.line_of(diagnostic.span.start)
        distance = abs(line - here)
        message = " ".join(diagnostic.message.split())[:160]
        if distance <= DIAGNOSTIC_LINES and message:
            code = model_text(document.line_text(line)).strip()[:80]
            text = f"{comment} {message}: {code}" if code else f"{comment} {message}"
            pieces.append(_Piece("diagnostic", path, text, _DIAGNOSTIC_VALUE / (1 + distance / 8), (line,)))
    return pieces


def _affordable(pieces: Sequence[_Piece], budget: int, count_tokens: CountTokens, shown: str) -> list[_Piece]:
    """The most valuable pieces per token that fit, no kind beyond its share."""
    costed: list[tuple[float, int, _Piece]] = []
    for piece in pieces:
        cost = count_tokens(piece.text + "\n")
        if 0 < cost <= budget:
            bonus = KEPT_BONUS if piece.text in shown else 1.0
            costed.append((bonus * piece.value / cost, cost, piece))
    costed.sort(key=lambda item: (-item[0], item[2].path, item[2].order))
    taken: list[_Piece] = []
    heads: set[tuple[str, ...]] = set()
    spent = dict.fromkeys(SHARES, 0)
    for _, cost, piece in costed:
        needed = {("", *_file(piece)): piece.path} | (
            {(piece.container, *_file(piece)): f"# {piece.container}\n"} if piece.container else {}
        )
        cost += sum(count_tokens(text) + _SEPARATOR for head, text in needed.items() if head not in heads)
        kind = piece.kind
        if sum(spent.values()) + cost <= budget and spent[kind] + cost <= SHARES[kind] * budget:
            taken.append(piece)
            heads |= set(needed)
            spent[kind] += cost
    return taken


def _file(piece: _Piece) -> tuple[str, ...]:
    """What goes into one snippet: the declarations of a file, the diagnostics; anything else stands alone."""
    alone = () if piece.kind in ("declaration", "diagnostic") else (piece.text,)
    return (piece.kind, piece.path, *alone)


def _snippets(pieces: Sequence[_Piece], language: str) -> list[Snippet]:
    groups: dict[tuple[str, ...], list[_Piece]] = {}
    rank = list(SHARES)
    for piece in sorted(pieces, key=lambda p: (rank.index(p.kind), p.path if p.kind != "edit" else "", p.order)):
        groups.setdefault(_file(piece), []).append(piece)
    return [Snippet(group[0].path, "\n".join(_with_containers(group, language))) for group in groups.values()]


def _with_containers(pieces: Sequence[_Piece], language: str) -> list[str]:
    """Members behind a line with their type's name where its own declaration does not stand above."""
    comment = grammar_of(language).line_comment or "#"
    lines: list[str] = []
    within = ""
    for piece in pieces:
        declared = any(re.search(rf"\b{re.escape(piece.container)}\b", line) for line in lines)
        if piece.container and piece.container != within and not declared:
            lines.append(f"{comment} {piece.container}")
        within = piece.container
        lines.append(piece.text)
    return lines


def _ordered(snippets: list[Snippet], kept: Sequence[Snippet]) -> tuple[Snippet, ...]:
    """What is shown already first, as it stands, so that the model's cache of it stays good."""
    before = [snippet for snippet in kept if snippet in snippets]
    return (*before, *(snippet for snippet in snippets if snippet not in before))


def _family(language: str) -> str:
    grammar = grammar_of(language)
    return grammar.family or grammar.name or language
