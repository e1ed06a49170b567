"""What an edit of a function's head asks of those who call it: other arguments, an await.

Pure, as edit_patterns.py. The rules are those of the languages: a caller that awaits is asynchronous itself. This
module knows nothing about models or editors.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from mercury_lsp.actions.places import function
from mercury_lsp.diffs import Hunk
from mercury_lsp.languages import grammar_of
from mercury_lsp.next_edits.changes import Declared, Head, HeadChange, Parameter, View, head_changes, split_arguments
from mercury_lsp.next_edits.edit_patterns import EVIDENT, HOLE, Candidate, clusters
from mercury_lsp.text import Span

_CALLS = frozenset(("call", "call_expression", "method_invocation"))
_CALLBACKS = ("cb", "callback", "done", "next", "fn", "handler")
SCRIPTS = ("javascript", "typescript", "tsx")
_RUNNERS = re.compile(
    r"(?:run|create_task|gather|ensure_future|wait_for|run_until_complete|spawn|all|race|block_on)\s*\(\s*\[?$"
)
"""What takes a promise or coroutine as it is: nothing is awaited in there."""


@dataclass(frozen=True, slots=True)
class Call:
    """name: of what is called. whole: the call with its receiver. brackets: its arguments with the brackets."""

    name: Span
    whole: Span
    brackets: Span
    node: Node


def calls(view: View, name: str, declared: Declared | None = None) -> Iterator[Call]:
    """The calls of a name in the code around the cursor, its definition left out; of what is declared, if given."""
    for at in view.words(name):
        if view.declared(at, name) is not None or (declared is not None and not view.means(at, name, declared)):
            continue
        node = view.node(at, len(name))
        while node is not None and node.type not in _CALLS:
            callee = node.parent.child_by_field_name("function") if node.parent is not None else None
            if node.parent is not None and node.parent.type in _CALLS and callee is not None and callee != node:
                node = None  # an argument of another call
                break
            node = node.parent
            if node is not None and node.type in grammar_of(view.document.language).block_nodes:
                node = None
        if node is None:
            continue
        callee, given = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if callee is None or given is None or view.here.span(callee).end != at + len(name):
            continue
        yield Call(Span(at, at + len(name)), view.here.span(node), view.here.span(given), node)


def definition(view: View, change: HeadChange) -> Declared | None:
    """What the changed head declares, if it stands in this document."""
    at = view.word_in(change.line, change.new.name)
    return view.declared(at, change.new.name) if at is not None else None


def asynchronous(view: View) -> Iterator[Candidate]:
    """A function has become asynchronous: its callers await it, and are asynchronous themselves."""
    for change in head_changes(view.changes):
        if not _became_async(change):
            continue
        dropped = [p for p in change.old.parameters if _is_callback(p) and p.name not in _names(change.new)]
        for call in calls(view, change.new.name, definition(view, change)):
            hunks = _promised(view, call) if dropped and view.language in SCRIPTS else _awaited(view, call)
            own = _made_async(view, call)
            if hunks and own is not None:
                yield Candidate(tuple(sorted((*own, *hunks), key=lambda h: h.span.start)), "await", -EVIDENT)


def _became_async(change: HeadChange) -> bool:
    promised = change.new.result.startswith("Promise<") and not change.old.result.startswith("Promise<")
    return (change.new.asynchronous and not change.old.asynchronous) or promised


def _is_callback(parameter: Parameter) -> bool:
    return parameter.name in _CALLBACKS or "=>" in parameter.type


def _names(head: Head) -> list[str]:
    return [p.name for p in head.parameters]


def _awaited(view: View, call: Call) -> list[Hunk]:
    text = view.text
    before = text[max(0, call.whole.start - 60) : call.whole.start]
    after = text[call.whole.end : call.whole.end + 8]
    begin = Span(call.whole.start, call.whole.start)
    if re.search(r"\bawait\s*\(?$", before) or _RUNNERS.search(before):
        return []
    if view.language == "rust":
        behind = Span(call.whole.end, call.whole.end)
        return [] if after.startswith(".await") else [Hunk(behind, ".await")]
    if after.lstrip().startswith((".then", ".catch")):
        return []
    if after.startswith((".", "[")):
        return [Hunk(begin, "(await "), Hunk(Span(call.whole.end, call.whole.end), ")")]
    return [Hunk(begin, "await ")]


def _made_async(view: View, call: Call) -> list[Hunk] | None:
    """What makes the function around a call asynchronous; None where there is none that could be."""
    kinds = grammar_of(view.document.language).function_nodes
    node = call.node.parent
    while node is not None and node.type not in kinds:
        node = node.parent
    if node is None:
        return None
    whole, body = view.here.span(node), node.child_by_field_name("body")
    head = view.text[whole.start : view.here.span(body).start if body is not None else whole.end]
    if re.search(r"\basync\b", head):
        return []
    if node.type == "arrow_function" and (node.parent is None or node.parent.type != "variable_declarator"):
        return None  # what takes a callback does not wait for it
    name = node.child_by_field_name("name")
    keyword = re.search(r"\b(?:def|fn|function)\b", head)
    at = whole.start + keyword.start() if keyword is not None else whole.start
    if node.type == "method_definition" and name is not None:
        at = view.here.span(name).start
    hunks = [Hunk(Span(at, at), "async ")]
    result = node.child_by_field_name("return_type")
    if result is not None and view.language in SCRIPTS:
        span = view.here.span(result)
        kind = span.of(view.text).removeprefix(":").strip()
        if not kind.startswith("Promise<"):
            hunks.append(Hunk(Span(span.end - len(kind), span.end), f"Promise<{kind}>"))
    return hunks


def _promised(view: View, call: Call) -> list[Hunk]:
    """A statement `f(a, (err, x) => { ... })` as `const x = await f(a)` and the body behind it."""
    statement = call.node.parent
    listed = call.node.child_by_field_name("arguments")
    given = listed.named_children if listed is not None else []
    if statement is None or statement.type != "expression_statement" or not given:
        return []
    callback = given[-1]
    if callback.type not in ("arrow_function", "function_expression", "function"):
        return []
    listed = callback.child_by_field_name("parameters") or callback.child_by_field_name("parameter")
    body = callback.child_by_field_name("body")
    if listed is None or body is None:
        return []
    inside = view.here.span(listed).of(view.text).strip("()")
    taken = [re.sub(r"[?:].*", "", p).strip() for p in split_arguments(inside)]
    error = taken[0] if taken and re.fullmatch(r"_?(?:e|err|error)", taken[0]) else ""
    values = taken[1:] if error else taken
    lines = _callback_lines(view, body, error)
    if len(values) > 1 or lines is None:
        return []
    whole = view.here.span(statement)
    kept = ", ".join(view.here.span(g).of(view.text) for g in given[:-1])
    callee = view.text[call.whole.start : call.brackets.start]
    semicolon = ";" if whole.of(view.text).endswith(";") else ""
    first = f"const {values[0]} = " if values else ""
    lead = view.indent(view.document.line_of(whole.start))
    text = "\n".join([f"{first}await {callee}({kept}){semicolon}", *(lead + n if n else n for n in lines)])
    return [Hunk(whole, text)]


def _callback_lines(view: View, body: Node, error: str) -> list[str] | None:
    """The lines of a callback without its error handling, at no indentation; None where that is not all there is."""
    if body.type != "statement_block":
        return [view.here.span(body).of(view.text) + ";"]
    lines: list[str] = []
    for child in body.named_children:
        text = view.here.span(child).of(view.text)
        if error and child.type == "if_statement":
            condition = child.child_by_field_name("condition")
            if condition is not None and view.here.span(condition).of(view.text).strip("() ") == error:
                continue  # a promise that fails throws by itself
        if child.type == "return_statement" or (error and re.search(rf"\b{re.escape(error)}\b", text)):
            return None
        lead = view.indent(view.document.line_of(view.here.span(child).start))
        lines += [n.removeprefix(lead) for n in text.split("\n")]
    return lines


# --- arguments -------------------------------------------------------------------------------------------------------


def arguments(view: View) -> Iterator[Candidate]:
    """A function takes other parameters: its calls that still give the old ones."""
    for change in head_changes(view.changes):
        old, new = change.old.parameters, change.new.parameters
        before, after = _names(change.old), _names(change.new)
        if before == after:
            continue
        if len(old) == len(new) and change.old.name == change.new.name and set(before) != set(after):
            continue  # a parameter has another name: a caller does not see it
        hunks: list[Hunk] = []
        names = dict.fromkeys((change.new.name, change.old.name))
        declared = definition(view, change)
        found = (call for name in names for call in calls(view, name, declared))
        for call in (c for c in found if not view.is_fresh(c.name.start)):
            given = split_arguments(call.brackets.of(view.text)[1:-1])
            text = _rearranged(view, call, given, old, new)
            if text is not None and (text != ", ".join(given) or call.name.of(view.text) != change.new.name):
                if call.name.of(view.text) != change.new.name:
                    hunks.append(Hunk(call.name, change.new.name))
                hunks.append(Hunk(Span(call.brackets.start + 1, call.brackets.end - 1), text))
        for cluster in clusters(view, hunks):
            is_open = any(HOLE in hunk.new_text for hunk in cluster)
            yield Candidate(cluster, "arguments", 0.0 if is_open else -EVIDENT)


def _rearranged(
    view: View, call: Call, given: list[str], old: tuple[Parameter, ...], new: tuple[Parameter, ...]
) -> str | None:
    """The arguments of a call for the new parameters; None if it does not give what the old ones take."""
    found = [m for g in given if (m := re.match(r"(\w+)\s*=(?!=)\s*(.+)", g, re.DOTALL)) is not None]
    named = {m[1]: m[2] for m in found}
    plain = given[: len(given) - len(named)]
    required = [p for p in old if not p.optional]
    if not len(required) <= len(given) <= len(old) or any(g.startswith(("*", "...")) for g in given):
        return None
    values = {p.name: g for p, g in zip(old, plain, strict=False)}
    result: list[str] = []
    for p in new:
        if p.name in values:
            result.append(values[p.name])
        elif p.name in named:
            result.append(f"{p.name}={named[p.name]}")
        elif p.name not in [o.name for o in old] and not p.optional:
            result.append(p.name if _in_sight(view, call, p.name) else HOLE)
    return ", ".join(result) if result.count(HOLE) <= 1 else None


def _in_sight(view: View, call: Call, name: str) -> bool:
    """Whether the function around a call has a variable of this name."""
    around = function(view.document, call.whole)
    if around is None:
        return False
    before = Span(around.span.start, call.whole.start)
    return any(not view.text[max(0, at - 1) : at].endswith(".") for at in view.words(name, before))
