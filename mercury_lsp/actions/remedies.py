"""What a diagnostic's own words say about the remedy: one row per kind of complaint, whoever published it.

A row turns (document, complaint) into edits to choose from, or into holes that the model is to fill. Nothing here is
certain: rewriting.py judges every edit by the parser, and asks the model to choose between equals. This module knows
nothing about models or editors.
"""

import difflib
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mercury_lsp import syntax
from mercury_lsp.actions.places import Hole, arguments, end_of_body, function
from mercury_lsp.actions.repair import Candidate, misspelled
from mercury_lsp.diffs import Hunk
from mercury_lsp.languages import grammar_of
from mercury_lsp.text import Document, Span

_WORD = re.compile(r"[^\W\d]\w*")
_QUOTED = re.compile(r"[`'\"‘“]([^`'\"‘’“”\n]{1,80})[`'\"’”]")


@dataclass(frozen=True, slots=True)
class Complaint:
    """A diagnostic: where, what it says, its code and who published it."""

    span: Span
    message: str
    code: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Blank:
    """A hole for one expression, up to the closer or comma that ends it, or to the end of the line."""

    hole: Hole
    line: bool = False


Remedy = Candidate | Blank
Row = tuple[re.Pattern[str], Callable[[Document, Complaint], Iterator[Remedy]]]


def remedies(document: Document, complaint: Complaint) -> tuple[Remedy, ...]:
    """What the rows say, cheapest first; holes last, in order."""
    message = complaint.message
    found = [r for pattern, row in ROWS if pattern.search(message) for r in row(document, complaint)]
    edits = sorted((r for r in found if isinstance(r, Candidate)), key=lambda c: c.cost)
    return (*edits, *(r for r in found if isinstance(r, Blank)))


def doubtful(document: Document, complaint: Complaint) -> tuple[Span, ...]:
    """The spans a complaint casts doubt on: its range, or the line's identifiers that it names if that is empty."""
    span = complaint.span
    if document.line_of(span.start) != document.line_of(span.end):
        span = Span(span.start, document.line_span(document.line_of(span.start)).end)
    named = [
        Span(span.start + m.start(), span.start + m.end())
        for word in _named(complaint.message)
        for m in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", span.of(document.text))
    ]
    if named and len(span.of(document.text)) > 30:
        return tuple(sorted(named, key=lambda s: s.start))
    return (span,) if len(span) else (_word_at(document, span.start),)


def narrowed(document: Document, span: Span) -> tuple[Span, ...]:
    """The names of values in a longer doubtful span, if there are one or two; else the span itself."""
    text = span.of(document.text)
    keywords = set(syntax.anonymous_tokens(syntax.language_of(document.language) or ""))
    bare = re.sub(r"\"[^\"\n]*\"|'[^'\n]*'|`[^`]*`", lambda m: " " * len(m.group()), text)
    names = [m for m in re.finditer(r"(?<![\w.])[^\W\d]\w*(?!\w|\s*\()", bare) if m.group() not in keywords]
    if not 1 <= len(names) <= 2:
        return (span,)
    return tuple(Span(span.start + m.start(), span.start + m.end()) for m in names)


def _named(message: str) -> list[str]:
    return [m.group(1) for m in _QUOTED.finditer(message)]


def _word_at(document: Document, offset: int) -> Span:
    """The word at, or just before, an offset; an empty span where none is."""
    line = document.line_span(document.line_of(offset))
    for m in re.finditer(r"\w+", line.of(document.text)):
        if line.start + m.start() <= offset <= line.start + m.end():
            return Span(line.start + m.start(), line.start + m.end())
    return Span(offset, offset)


def _identifier(document: Document, complaint: Complaint) -> Span | None:
    """The identifier complained about: one that the message names, within the range or else on its line."""
    line = document.line_span(document.line_of(complaint.span.start))
    words = [w for name in _named(complaint.message) for w in _WORD.findall(name)]
    words += _WORD.findall(complaint.message.rsplit(":", 1)[-1])
    for area in (complaint.span, line):
        for word in words:
            m = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", area.of(document.text))
            if m is not None:
                return Span(area.start + m.start(), area.start + m.end())
    word = _word_at(document, complaint.span.start)
    return word if len(word) else None


def unknown_name(document: Document, complaint: Complaint) -> Iterator[Remedy]:
    """Names of the document that are like the unknown one; a module of Python's library that was not imported."""
    where = _identifier(document, complaint)
    if where is None:
        return
    wrong = where.of(document.text)
    meant = re.search(r"(?:did you mean|similar name exists|instead)\W*[`'\"](\w+)[`'\"]", complaint.message, re.I)
    if meant is not None and meant.group(1) != wrong:
        yield Candidate(Hunk(where, meant.group(1)), 0.3)
    python = syntax.language_of(document.language) == "python"
    if python and wrong in sys.stdlib_module_names and document.text[where.end : where.end + 1] == ".":
        at = _import_place(document)
        yield Candidate(Hunk(Span(at, at), f"import {wrong}{document.newline}"), 0.4)
    attribute = document.text[: where.start].endswith(".")
    area = syntax.window(document, where.start)
    counts = Counter(_WORD.findall(area.of(document.text)))
    known = set(syntax.anonymous_tokens(syntax.language_of(document.language) or ""))
    members = set(re.findall(r"(?:\.|\bdef |\bfn |\bfunc(?:\s*\([^)]*\))? )\s*([^\W\d]\w*)", area.of(document.text)))
    for name, n in counts.items():
        if name == wrong or name in known or (n == 1 and counts[wrong] > 1 and not attribute):
            continue
        likeness = difflib.SequenceMatcher(None, wrong.lower(), name.lower()).ratio()
        if misspelled(wrong, name) or likeness >= 0.7:
            strange = 0.2 * (attribute != (name in members))
            yield Candidate(Hunk(where, name), 0.6 + 2 * (1 - likeness) + strange)
    yield Blank(Hole(where))


def _import_place(document: Document) -> int:
    """Where an import goes: before the first import, else behind the docstring and comments at the top."""
    for line in range(min(document.n_lines, 200)):
        text = document.line_text(line)
        if re.match(r"(import|from)\s", text) and not text.startswith("from __future__"):
            return document.line_span(line).start
    parsed = syntax.parse(document.text[:5000], document.language)
    first = parsed.tree.root_node.named_child(0) if parsed is not None else None
    line = 0
    if first is not None and first.type in ("expression_statement", "string") and first.text[:1] in (b'"', b"'"):  # type: ignore[index]
        line = first.end_point[0] + 1
    while line + 1 < document.n_lines and document.line_text(line).startswith("#"):
        line += 1
    return document.line_span(line).start


def needless(document: Document, complaint: Complaint) -> Iterator[Remedy]:
    """A word that should go: the one in quotes, or the keyword the range begins with."""
    span = complaint.span
    line = document.line_span(document.line_of(span.start))
    area = span if len(span) else line
    words = [n for n in _named(complaint.message) if n.isalpha()]
    if "mutable" in complaint.message:
        words.append("mut")
    for word in words:
        m = re.search(rf"(?<!\w){re.escape(word)}(?!\w)[ \t]*", area.of(document.text))
        m, area = (m, area) if m else (re.search(rf"(?<!\w){word}(?!\w)[ \t]*", line.of(document.text)), line)
        if m is not None:
            yield Candidate(Hunk(Span(area.start + m.start(), area.start + m.end()), ""), 0.5)
            return
    keyword = re.match(r"(await|async|return|else|mut|new|pass)\b[ \t]*;?", span.of(document.text))
    if keyword is not None:
        yield Candidate(Hunk(_whole_line(document, Span(span.start, span.start + keyword.end())), ""), 0.6)


def unused(document: Document, complaint: Complaint) -> Iterator[Remedy]:
    """An import that nothing uses goes; a variable gets the underscore where the message says so."""
    where = _identifier(document, complaint)
    line = document.line_span(document.line_of(complaint.span.start))
    text = line.of(document.text)
    if where is not None and "underscore" in complaint.message:
        yield Candidate(Hunk(Span(where.start, where.start), "_"), 0.4)
    here = grammar_of(document.language).import_nodes
    parsed = syntax.parse(text.strip(), document.language)
    root = parsed.tree.root_node if parsed is not None else None
    quoted = re.fullmatch(r'\s*(?:\w+\s+)?"[^"]+"\s*', text) is not None  # a line of Go's import ( ... )
    if quoted or (root is not None and root.named_child_count == 1 and root.named_children[0].type in here):
        name = where.of(document.text) if where is not None else ""
        listed = re.search(rf"\b{re.escape(name)}\b\s*,\s*|\s*,\s*\b{re.escape(name)}\b", text) if name else None
        if listed is not None:
            yield Candidate(Hunk(Span(line.start + listed.start(), line.start + listed.end()), ""), 0.4)
        else:
            yield Candidate(Hunk(document.line_span(document.line_of(line.start), keepend=True), ""), 0.5)


def _whole_line(document: Document, span: Span) -> Span:
    line = document.line_of(span.start)
    if document.line_text(line).strip() == span.of(document.text).strip():
        return document.line_span(line, keepend=True)
    return span


def not_awaited(document: Document, complaint: Complaint) -> Iterator[Remedy]:
    """`await` before the expression."""
    text = complaint.span.of(document.text)
    if len(complaint.span) and not text.startswith("await"):
        skipped = len(text) - len(text.lstrip())
        at = complaint.span.start + skipped
        yield Candidate(Hunk(Span(at, at), "await "), 0.4)


def instead(document: Document, complaint: Complaint) -> Iterator[Remedy]:
    """`Expected 'A' and instead saw 'B'`, `Use 'A' instead of 'B'`: A for B on the line."""
    line = document.line_span(document.line_of(complaint.span.start))
    for pattern, order in (
        (r"[Ee]xpected '([^']+)' (?:and|but) (?:instead )?(?:saw|got|found) '([^']+)'", (1, 2)),
        (r"[Uu]se [`'\"]([^`'\"]+)[`'\"] instead of [`'\"]([^`'\"]+)[`'\"]", (1, 2)),
        (r"[Rr]eplace [`'\"]([^`'\"]+)[`'\"] with [`'\"]([^`'\"]+)[`'\"]", (2, 1)),
    ):
        m = re.search(pattern, complaint.message)
        if m is None:
            continue
        right, wrong = m.group(order[0]), m.group(order[1])
        start = max(complaint.span.start, line.start)
        at = document.text.find(wrong, start, line.end)
        at = at if at >= 0 else document.text.find(wrong, line.start, line.end)
        if at >= 0:
            yield Candidate(Hunk(Span(at, at + len(wrong)), right), 0.4)
    constant = re.search(r"never reassigned.*'const'", complaint.message)
    found = re.search(r"\b(let|var)\b", line.of(document.text)) if constant else None
    if found is not None:
        yield Candidate(Hunk(Span(line.start + found.start(), line.start + found.end()), "const"), 0.4)


def number_of_arguments(document: Document, complaint: Complaint) -> Iterator[Remedy]:
    """A call with too few arguments gets holes for more; one with too many loses the last ones."""
    call = arguments(document, complaint.span)
    if call is None:
        return
    brackets, given = call
    if given and (surplus := _surplus(complaint.message, len(given))) > 0:
        kept = given[: len(given) - surplus]
        start = kept[-1].end if kept else brackets.start + 1
        yield Candidate(Hunk(Span(start, given[-1].end), ""), 0.5)
        return
    at = given[-1].end if given else brackets.start + 1
    separator = ", " if given else ""
    caller = function(document, complaint.span)
    scope = (caller.span if caller is not None else Span(0, at)).of(document.text)
    for name in _named(complaint.message):
        if re.fullmatch(r"[^\W\d]\w*", name) and re.search(rf"(?<![\w.]){name}\b(?!\s*\()", scope):
            yield Candidate(Hunk(Span(at, at), separator + name), 0.5)  # the caller has a value of that name
    yield Blank(Hole(Span(at, at), separator))


def _surplus(message: str, n_given: int) -> int:
    """How many arguments too many a message speaks of."""
    m = re.search(r"[Ee]xpected (\d+) arguments?, but got (\d+)", message)
    m = m or re.search(
        r"takes (?:from \d+ to )?(\d+) (?:positional )?arguments?,? but (\d+) (?:was|were|arguments?)", message
    )
    if m is not None:
        return min(n_given, max(0, int(m.group(2)) - int(m.group(1))))
    return 1 if re.search(r"too many (?:positional )?arguments", message, re.I) else 0


def no_return(document: Document, complaint: Complaint) -> Iterator[Remedy]:
    """A hole for the value at the end of the function; in Rust perhaps only a semicolon too many."""
    found = function(document, complaint.span)
    if found is None or found.body is None:
        return
    end = end_of_body(document, found)
    if end is None:
        return
    if syntax.language_of(document.language) == "rust":
        at = end.span.start
        if document.text[at - 1 : at] == ";":
            yield Candidate(Hunk(Span(at - 1, at), ""), 0.5)
        yield Blank(end, line=True)
        return
    yield Blank(Hole(end.span, end.lead + "return "), line=True)


_NO_EFFECT = r"has no effect|[Uu]nnecessary|[Uu]nneeded|[Rr]edundant|[Uu]seless|not needed|does not need|not awaitable"

ROWS: tuple[Row, ...] = (
    (
        re.compile(
            r"[Uu]ndefined (?:name|variable|identifier)|is not defined|[Cc]annot find|^undefined:|[Uu]nresolved|"
            r"does not exist|has no (?:attribute|field|member|method)|no (?:method|field) named|"
            r"[Uu]ndeclared|[Nn]o member named|is unknown|did you mean|no associated"
        ),
        unknown_name,
    ),
    (re.compile(_NO_EFFECT), needless),
    (re.compile(r"[Uu]nused|but (?:never|unused)|never (?:read|used)|not used|never reassigned.*underscore"), unused),
    (re.compile(r"never awaited|[Mm]issing await|must be awaited|is not awaited|[Ff]loating"), not_awaited),
    (re.compile(r"instead|never reassigned|[Rr]eplace "), instead),
    (re.compile(r"\b[Aa]rguments?\b"), number_of_arguments),
    (
        re.compile(
            r"[Mm]issing return|code paths return|ending return|must return|[Nn]o return|expected .* found `?\(\)`?|"
            r"does not return a value"
        ),
        no_return,
    ),
)
