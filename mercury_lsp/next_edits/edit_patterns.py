"""What the recent edits ask for elsewhere, as far as words and lines show it: renames to follow, edits to repeat.

Pure: a View (document, cursor, changes) in, Candidates out, the likeliest first. A candidate is only a proposal; who
shows it asks the model and the parser. This module knows nothing about models or editors.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mercury_lsp.diffs import Hunk
from mercury_lsp.next_edits.changes import Change, Declared, View, compound, keywords, line_pairs, word_pairs
from mercury_lsp.text import Span

HOLE = "\0"
"""In a candidate's text: what the model has to write."""
NEAR_LINES = 8
"""Places of one pattern with no more lines between them are one edit."""
PER_EXAMPLE = 4.0
"""Nats that each example of a pattern is worth, from the second on: a new line always costs the model something."""
EVIDENT = 4.0
"""Nats that a rule of the language is trusted with: left as it is, the code would be wrong."""
ONE_EXAMPLE = 2.0
"""Nats by which a single example's repetition must make the code more probable."""
BESIDE = 3
"""Tokens on each side of what an edit changed that must be alike where it is repeated."""
_DEFINING = r"\b(?:def|class|fn|func|function|struct|enum|trait|interface|type)"


@dataclass(frozen=True, slots=True)
class Candidate:
    """Hunks in order and disjoint, together one edit.

    kind: which pattern; for figures and tests. need: nats by which it must make the code more probable; below zero
    where the recent edits themselves are evidence. group: candidates of one group exclude each other, and the model
    chooses.
    """

    hunks: tuple[Hunk, ...]
    kind: str
    need: float
    group: int = 0

    @property
    def span(self) -> Span:
        return Span(self.hunks[0].span.start, self.hunks[-1].span.end)


def renames(view: View) -> Iterator[Candidate]:
    """A name was declared anew: its uses that still have the old name."""
    for change in reversed(view.changes):
        for old_line, new_line in line_pairs(change):
            for old, new in word_pairs(old_line, new_line):
                yield from _rename(view, change, new_line, old, new)


def _rename(view: View, change: Change, line: str, old: str, new: str) -> Iterator[Candidate]:
    if old in view.words_of or new in view.words_of or _pluralised(old, new, line):
        return
    at = view.word_in(line, new)
    if at is None:
        if not re.search(rf"{_DEFINING}\s+{re.escape(new)}\b", line):
            return
        declared = Declared(view.area, member=False)
    else:
        found = view.declared(at, new, assigned=True)
        if found is None:
            return
        declared = found
    if len(old) < 2 and (declared.member or declared.scope == view.area):
        return  # one letter means something only within its function
    places = [o for o in view.words(old, declared.scope) if view.means(o, old, declared)]
    if any(view.declared(o, old) for o in places):
        return  # the name is still there, of something else
    hunks = [Hunk(Span(o, o + len(old)), new) for o in places if not view.is_fresh(o)]
    for cluster in clusters(view, hunks):
        yield Candidate(cluster, "rename", 0.0)


def _pluralised(old: str, new: str, line: str) -> bool:
    """Whether a value became a collection of such values: no mere rename."""
    ending = new[len(old) :] if new.startswith(old) else ""
    return ending in ("s", "es", "_list", "List") and re.search(r"\[|<", line) is not None


def clusters(view: View, hunks: Sequence[Hunk]) -> list[tuple[Hunk, ...]]:
    """Hunks that stand near each other joined, the group nearest to the cursor first."""
    groups: list[list[Hunk]] = []
    last = 0
    for hunk in sorted(hunks, key=lambda h: h.span.start):
        line = view.document.line_of(hunk.span.start)
        if groups and line - last <= NEAR_LINES:
            groups[-1].append(hunk)
        else:
            groups.append([hunk])
        last = view.document.line_of(hunk.span.end)
    return sorted((tuple(group) for group in groups), key=lambda g: distance(view, g[0].span))


def distance(view: View, span: Span) -> int:
    """Lines from the cursor; what stands above it counts a little more."""
    line = view.document.line_of(span.start)
    return line - view.line if line >= view.line else view.line - line + 1


# --- one part of a name ----------------------------------------------------------------------------------------------


def parts(view: View, finished: str = "") -> Iterator[Candidate]:
    """One word inside a function's name became another: the same word in its body.

    finished: the whole new name, where the user has typed only the beginning of it.
    """
    for change in view.changes[-1:]:
        for old_line, new_line in line_pairs(change):
            for old, typed in word_pairs(old_line, new_line):
                new = finished if finished.startswith(typed) else typed
                swap = part_swap(old, new)
                at = view.word_in(new_line, typed)
                if swap is None or at is None:
                    continue
                node = view.node(at, len(typed))
                if node is None or node.parent is None or node.parent.child_by_field_name("name") != node:
                    continue
                body = node.parent.child_by_field_name("body")
                if body is None:
                    continue
                where = view.here.span(body)
                hunks = [
                    Hunk(Span(o, o + len(word)), other)
                    for word, other in _cased(*swap)
                    for o in view.words(word, where)
                ]
                own = [Hunk(Span(at, at + len(typed)), new)] if new != typed else []
                if hunks:
                    yield Candidate((*own, *sorted(hunks, key=lambda h: h.span.start)), "part", 0.0)


def part_swap(old: str, new: str) -> tuple[str, str] | None:
    """The one word of a compound name that became another one.

    >>> part_swap("groupByStatus", "groupByCategory"), part_swap("get_user", "put_item"), part_swap("a", "b")
    (('Status', 'Category'), None, None)
    """
    a, b = compound(old), compound(new)
    if len(a) != len(b) or len(a) < 2:
        return None
    differing = [(x, y) for x, y in zip(a, b, strict=True) if x != y]
    return differing[0] if len(differing) == 1 and len(differing[0][0]) > 2 else None


def _cased(old: str, new: str) -> list[tuple[str, str]]:
    return list(dict.fromkeys([(old, new), (old.lower(), new.lower()), (old.capitalize(), new.capitalize())]))


# --- lines to change alike -------------------------------------------------------------------------------------------

_TOKEN = re.compile(r"""[ \t]*(?:"(?:\\.|[^"\\\n])*"|`[^`\n]*`|\w+|[^\w\s])""")


@dataclass(frozen=True, slots=True)
class _Template:
    """old, new: tokens with their leading blanks. wild: which tokens of `old` may be others of their kind."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    wild: tuple[bool, ...]
    n_examples: int = 1

    def removes_a_word(self, known: frozenset[str]) -> bool:
        removed = [o.strip() for o, wild in zip(self.old, self.wild, strict=True) if not wild]
        return any(_sort(o) == "word" and o not in known for o in removed)

    def match(self, tokens: Sequence[str], start: int) -> dict[str, str] | None:
        """What the wild tokens stand for if the template fits at `start`."""
        bound: dict[str, str] = {}
        for own, wild, token in zip(self.old, self.wild, tokens[start : start + len(self.old)], strict=True):
            one, other = own.strip(), token.strip()
            if (not wild and one != other) or _sort(one) != _sort(other) or bound.setdefault(one, other) != other:
                return None
        return bound


def _sort(token: str) -> str:
    return (
        "word"
        if re.match(r"[^\W\d]", token)
        else "string"
        if token[0] in '"`'
        else "number"
        if token[0].isdigit()
        else token
    )


def repeated_lines(view: View) -> Iterator[Candidate]:
    """The same edit within a line, where it was not made yet."""
    written = {line.strip() for change in view.changes for line in change.new.split("\n")}
    for template in _templates(view.changes, keywords(view.document.language)):
        hunks = [hunk for line in _lines_near(view) for hunk in _applied(view, template, line, written)]
        for cluster in clusters(view, hunks):
            evidence = template.n_examples * PER_EXAMPLE if template.n_examples > 1 else -ONE_EXAMPLE
            yield Candidate(cluster, "repeat", -evidence)


def _lines_near(view: View) -> Iterable[int]:
    return range(view.document.line_of(view.area.start), view.document.line_of(view.area.end) + 1)


def _templates(changes: Sequence[Change], known: frozenset[str]) -> list[_Template]:
    """The newest first; edits of the same shape are one template, in which only differing words are wild."""
    found: list[_Template] = []
    for change in reversed(changes):
        for old, new in line_pairs(change):
            template = _template(old, new, known)
            if template is None:
                continue
            for index, other in enumerate(found):
                if (joined := _joined(other, template)) is not None:
                    found[index] = joined
                    break
            else:
                found.append(template)
    # one insertion alone says nothing about other lines: only what was taken away shows where to repeat it
    return [t for t in found if t.n_examples > 1 or t.removes_a_word(known)]


def _template(old: str, new: str, known: frozenset[str]) -> _Template | None:
    a, b = _TOKEN.findall(old), _TOKEN.findall(new)
    one, other = [t.strip() for t in a], [t.strip() for t in b]
    codes = [c for c in difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes() if c[0] != "equal"]
    if not codes:
        return None
    first, last = codes[0], codes[-1]
    head, tail = min(BESIDE, first[1]), min(BESIDE, len(a) - last[2])
    start, end = first[1] - head, last[2] + tail
    removed = {t for c in codes for t in one[c[1] : c[2]]}
    wild = tuple(_sort(t) in ("word", "string") and t not in removed and t not in known for t in one[start:end])
    return _Template(tuple(a[start:end]), tuple(b[first[3] - head : last[4] + tail]), wild)


def _joined(one: _Template, other: _Template) -> _Template | None:
    """Both as one, if they differ in words only, the same ones on both sides."""
    if len(one.old) != len(other.old) or len(one.new) != len(other.new):
        return None
    pairs = [(x.strip(), y.strip()) for x, y in zip((*one.old, *one.new), (*other.old, *other.new), strict=True)]
    if any(_sort(x) != _sort(y) for x, y in pairs):
        return None
    changing = {x: y for x, y in pairs[: len(one.old)] if x != y}
    if any(changing.get(x, x) != y for x, y in pairs):
        return None
    literal = tuple(x.strip() in changing for x in one.old) if one.n_examples == 1 else one.wild
    wild = tuple(w or x.strip() in changing for w, x in zip(literal, one.old, strict=True))
    return _Template(one.old, one.new, wild, one.n_examples + 1)


def _applied(view: View, template: _Template, line: int, written: set[str]) -> Iterator[Hunk]:
    span = view.document.line_span(line)
    text = span.of(view.text)
    if text.strip() in written:
        return
    matches = list(_TOKEN.finditer(text))
    tokens = [m.group() for m in matches]
    for start in range(len(tokens) - len(template.old) + 1):
        bound = template.match(tokens, start)
        if bound is None:
            continue
        new = "".join(_bound(token, bound) for token in template.new).lstrip()
        where = matches[start].start() + len(tokens[start]) - len(tokens[start].lstrip())
        end = matches[start + len(template.old) - 1].end()
        changed = text[:where] + new + text[end:]
        if new != text[where:end] and changed.strip() not in written:
            yield Hunk(Span(span.start + where, span.start + end), new)
        return


def _bound(token: str, bound: dict[str, str]) -> str:
    word = token.strip()
    return token[: len(token) - len(word)] + bound.get(word, word)


# --- lines to put in alike -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Insertion:
    """Lines that were put above (or below) a line."""

    lines: tuple[str, ...]
    anchor: str
    above: bool


def inserted_lines(view: View) -> Iterator[Candidate]:
    """The same lines put beside several lines that are alike: beside the next such line."""
    found: dict[tuple[tuple[str, ...], bool], list[_Insertion]] = {}
    for change in reversed(view.changes):
        if (insertion := _insertion(change)) is not None:
            found.setdefault((tuple(n.strip() for n in insertion.lines), insertion.above), []).append(insertion)
    for (lines, above), examples in found.items():
        if len(examples) < 2 or not any(re.search(r"\w", n) for n in lines):
            continue
        shape = _shape([e.anchor for e in examples])
        places = [
            n for n in _lines_near(view) if shape is not None and shape.fullmatch(view.document.line_text(n).strip())
        ]
        hunks = [hunk for n in places if (hunk := _beside(view, n, examples[0], above)) is not None]
        for cluster in clusters(view, hunks):
            yield Candidate(cluster, "insert", -len(examples) * PER_EXAMPLE)


def _insertion(change: Change) -> _Insertion | None:
    old, new = change.old.split("\n"), change.new.split("\n")
    codes = [c for c in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if c[0] != "equal"]
    if len(codes) != 1 or codes[0][0] != "insert":
        return None
    _, at, _, start, end = codes[0]
    while start > 0 and at > 0 and not new[end - 1].strip() and new[start - 1] == new[end - 1]:
        at, start, end = at - 1, start - 1, end - 1
    if at < len(old) and old[at].strip():
        return _Insertion(tuple(new[start:end]), old[at], above=True)
    if at > 0 and old[at - 1].strip():
        return _Insertion(tuple(new[start:end]), old[at - 1], above=False)
    return None


def _shape(anchors: Sequence[str]) -> re.Pattern[str] | None:
    """What all the lines are: the words in which they differ may be any."""
    split = [[t.strip() for t in _TOKEN.findall(a)] for a in anchors]
    if len({len(s) for s in split}) != 1:
        return None
    columns = list(zip(*split, strict=True))
    if not any(len(set(c)) == 1 and re.match(r"\w", c[0]) for c in columns):
        return None
    if any(len(set(c)) > 1 and {_sort(t) for t in c} != {"word"} for c in columns):
        return None
    return re.compile(r"\s*".join(r"\w+" if len(set(c)) > 1 else re.escape(c[0]) for c in columns))


def _beside(view: View, line: int, example: _Insertion, above: bool) -> Hunk | None:
    """The example's lines beside a line, its words in place of the example's; None if they stand there."""
    document = view.document
    text = document.line_text(line)
    lead = text[: len(text) - len(text.lstrip())]
    base = example.anchor[: len(example.anchor) - len(example.anchor.lstrip())]
    swaps = dict(zip(_words(example.anchor), _words(text), strict=False))
    new = [
        lead + re.sub(r"\w+", lambda m: swaps.get(m.group(), m.group()), n.removeprefix(base)) for n in example.lines
    ]
    around = [document.line_text(n).strip() for n in range(max(0, line - len(new) - 1), line + len(new) + 2)]
    if all(n.strip() in around for n in new if n.strip()):
        return None
    span = document.line_span(line)
    if above:
        return Hunk(Span(span.start, span.start), "".join(n + "\n" for n in new))
    return Hunk(Span(span.end, span.end), "".join("\n" + n for n in new))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text)
