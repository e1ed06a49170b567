"""What an edit asks for where one value became many, or a tuple a type with names: loops, other accesses.

Pure, as edit_patterns.py. This module knows nothing about models or editors.
"""

import re
from collections.abc import Iterator

from tree_sitter import Node

from mercury_lsp.actions.places import Function, function
from mercury_lsp.diffs import Hunk
from mercury_lsp.next_edits.call_patterns import SCRIPTS, calls, definition
from mercury_lsp.next_edits.changes import HeadChange, View, closing, head_changes, split_arguments
from mercury_lsp.next_edits.edit_patterns import EVIDENT, Candidate, clusters
from mercury_lsp.text import Span

_LOOPS = {
    "go": ("for _, {one} := range {many} {{", "}"),
    "python": ("for {one} in {many}:", ""),
    "rust": ("for {one} in {many} {{", "}"),
    **dict.fromkeys(SCRIPTS, ("for (const {one} of {many}) {{", "}")),
    "java": ("for (var {one} : {many}) {{", "}"),
}
_DECLARATIONS = {
    "rust": re.compile(r"let (?:mut )?(\w+)(?:\s*:[^=]+)? = (.+);"),
    "python": re.compile(r"(\w+)(?:\s*:[^=]+)? = (.+)"),
    **dict.fromkeys(SCRIPTS, re.compile(r"(?:const|let|var) (\w+)(?:\s*:[^=]+)? = (.+?);?")),
}
_UNWRAPPED = re.compile(r"(?:\.unwrap\(\)|\.expect\([^()]*\)|\?|!)$")


def many_of(kind: str) -> str | None:
    """What a collection type holds, None for any other type.

    >>> many_of("[]Message"), many_of("list[User]"), many_of("&[u8]"), many_of("string")
    ('Message', 'User', 'u8', None)
    """
    found = re.fullmatch(
        r"(?:\[\](?P<go>.+)|&?(?:mut )?\[(?P<rust>[^;]+)\]|(?P<script>.+)\[\]"
        r"|&?(?:list|List|Sequence|Iterable|Iterator|Vec|Array|ReadonlyArray|set|tuple|Set|Collection)"
        r"[<\[](?P<of>[^,]+?)(?:, ?\.\.\.)?[>\]])",
        kind.strip(),
    )
    return next((g.strip() for g in found.groups() if g), None) if found is not None else None


def loops(view: View) -> Iterator[Candidate]:
    """What was one value is a collection now: the code that takes it for one goes into a loop."""
    if view.language not in _LOOPS:
        return
    for change in head_changes(view.changes):
        for old, new in zip(change.old.parameters, change.new.parameters, strict=False):
            if old.name != new.name and many_of(new.type) and not many_of(old.type):
                yield from _parameter_loop(view, change, old.name, new.name)
        if many_of(change.new.result) and not many_of(change.old.result):
            yield from _result(view, change)


def _parameter_loop(view: View, change: HeadChange, one: str, many: str) -> Iterator[Candidate]:
    around = _function_of(view, change.line)
    body = around.node.child_by_field_name("body") if around is not None else None
    if body is None:
        return
    listed = body.named_children
    if len(listed) == 1 and listed[0].type == "statement_list":
        listed = listed[0].named_children
    statements = [s for s in listed if "comment" not in s.type]
    using = [i for i, s in enumerate(statements) if view.words(one, view.here.span(s))]
    if not using:
        return
    last = using[-1]
    while last + 1 < len(statements) and _depends(view, statements[using[0] : last + 1], statements[last + 1]):
        last += 1
    lasts = [last]
    final = statements[-1].type == "return_statement"
    if final and last < len(statements) - 2:
        lasts.append(len(statements) - 2)  # what stands between may belong to each of them
    for last in reversed(lasts):
        whole = Span(view.here.span(statements[using[0]]).start, view.here.span(statements[last]).end)
        hunk = _looped(view, whole, one, many)
        if hunk is not None:
            yield Candidate((hunk,), "loop", -EVIDENT, group=1)


def _depends(view: View, before: list[Node], statement: Node) -> bool:
    """Whether a statement uses a variable that statements before it made."""
    text = "\n".join(view.here.span(s).of(view.text) for s in before)
    made = {m[1] for m in re.finditer(r"(?m)^\s*(?:(?:const|let|var|mut)\s+)*(\w+)(?:\s*:[^=\n]+)?\s*:?=(?!=)", text)}
    span = view.here.span(statement)
    return statement.type != "return_statement" and any(view.words(name, span) for name in made)


def _result(view: View, change: HeadChange) -> Iterator[Candidate]:
    """A function returns many now: its own search for one, and the callers that take what it gives for one."""
    own = _found_all(view, change.line)
    found = calls(view, change.new.name, definition(view, change))
    sites = [hunk for call in found if (hunk := _result_loop(view, call.whole)) is not None]
    for cluster in clusters(view, [*own, *sites]):
        yield Candidate(cluster, "loop", -EVIDENT)


def _result_loop(view: View, call: Span) -> Hunk | None:
    """`x = f(..)` and what uses x behind it, as a loop over f(..)."""
    line = view.document.line_of(call.start)
    span, lead = view.document.line_span(line), view.indent(line)
    pattern = _DECLARATIONS.get(view.language)
    found = pattern.fullmatch(span.of(view.text).strip()) if pattern is not None else None
    many = _UNWRAPPED.sub("", found[2]) if found is not None else ""
    if found is None or found[1].endswith("s") or not many.endswith(")"):
        return None
    last = None
    for below in range(line + 1, view.document.n_lines):
        other = view.document.line_text(below)
        if other.strip() and not view.indent(below).startswith(lead):
            break
        if view.words(found[1], view.document.line_span(below)):
            last = below
    if last is None or "return" in view.text[span.end : view.document.line_span(last).end].split():
        return None
    body = Span(span.start + len(lead), view.document.line_span(last).end)
    return _looped(view, body, found[1], many, skip=1)


def _found_all(view: View, line: str) -> list[Hunk]:
    """`.find(..)` of a function that returns all that match: `.filter(..)`."""
    around = _function_of(view, line)
    if around is None or around.body is None or view.language not in ("rust", *SCRIPTS):
        return []
    finds = [at for at in view.words("find", around.body) if view.text[at - 1 : at] == "."]
    if len(finds) != 1:
        return []
    hunks = [Hunk(Span(finds[0], finds[0] + len("find")), "filter")]
    statement = view.text[finds[0] : around.body.end].split(";")[0]
    if view.language == "rust" and "collect" not in statement:
        chain = view.text[around.body.start : around.body.end - 1].rstrip()
        end = around.body.start + len(chain)
        last = view.document.line_of(end - 1)
        broken = view.document.line_text(last).strip().startswith(".")
        if chain.endswith(")"):
            hunks.append(Hunk(Span(end, end), ("\n" + view.indent(last) if broken else "") + ".collect()"))
    return hunks


def _function_of(view: View, line: str) -> Function | None:
    """The function whose head is this line."""
    number = view.line_of(line)
    if number is None:
        return None
    span = view.document.line_span(number)
    name = re.search(r"(\w+)\s*(?:<[^()]*>)?\(", span.of(view.text))
    if name is None:
        return None
    at = span.start + name.start(1)
    return function(view.document, Span(at, at))


def _looped(view: View, whole: Span, one: str, many: str, skip: int = 0) -> Hunk | None:
    """The lines of a span, without the first `skip`, inside a loop over `many`."""
    opening, close = _LOOPS[view.language]
    line = view.document.line_of(whole.start)
    lead, unit = view.indent(line), view.document.indent.unit
    lines = view.text[whole.start : whole.end].split("\n")[skip:]
    if skip == 0:
        lines[0] = lead + lines[0]
    deeper = [unit + n if n.strip() else n for n in lines]
    new = "\n".join([opening.format(one=one, many=many), *deeper, *([lead + close] if close else [])])
    return Hunk(whole, new)


# --- positions that have names now -----------------------------------------------------------------------------------

_TUPLE = re.compile(r"\(([^()]*(?:\([^()]*\)[^()]*)*)\)|\b[Tt]uple\[(.+)\]|\[([^\[\]]+,[^\[\]]+)\]")


def positions(view: View) -> Iterator[Candidate]:
    """A tuple has become a type with named fields: the places that still count its elements."""
    news = "\n".join(change.new for change in view.changes)
    for change in reversed(view.changes):
        for old, new in zip(change.old.split("\n"), change.new.split("\n"), strict=False):
            found = _TUPLE.search(old)
            owner = re.search(r"[A-Za-z_]\w*", old)
            if found is None or found.group() in new or owner is None:
                continue
            kinds = split_arguments(next(g for g in found.groups() if g is not None))
            names = _fields(news, kinds)
            declared = re.search(r"([A-Za-z_]\w*)\s*:", old)
            if names is None or declared is None:
                continue
            yield from _named(view, declared[1], names)


def _fields(text: str, kinds: list[str]) -> list[str] | None:
    """The names of consecutive fields of exactly these types."""
    listed = [m.groups() for m in re.finditer(r"(?m)^\s*(?:pub |readonly )?(\w+)\s*:\s*(.+?)[,;]?\s*$", text)]
    for start in range(len(listed) - len(kinds) + 1):
        part = listed[start : start + len(kinds)]
        if [kind for _, kind in part] == kinds:
            return [name for name, _ in part]
    return None


def _named(view: View, owner: str, names: list[str]) -> Iterator[Candidate]:
    index = re.compile(r"\.(\d+)\b(?!\.?\d)") if view.language == "rust" else re.compile(r"\[(\d+)\]")
    hunks: list[Hunk] = []
    for at in view.words(owner):
        end = at + len(owner)
        closed = closing(view.text, end) if view.text[end : end + 1] == "[" else None
        if closed is not None and (view.language == "rust" or view.text[closed + 1 : closed + 2] == "["):
            end = closed + 1
        found = index.match(view.text, end)
        if found is not None and int(found[1]) < len(names):
            hunks.append(Hunk(Span(found.start(), found.end()), "." + names[int(found[1])]))
    for cluster in clusters(view, hunks):
        yield Candidate(cluster, "position", 0.0)
