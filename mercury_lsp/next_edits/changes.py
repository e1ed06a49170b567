"""What the recent edits changed: words, lines, function heads; and where names stand in a document now.

Values in, values out: a Change is the text of whole lines before and after. This module proposes nothing and knows
nothing about models or editors.
"""

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from tree_sitter import Node

from mercury_lsp import syntax
from mercury_lsp.actions.places import Here
from mercury_lsp.languages import grammar_of
from mercury_lsp.text import Document, Span

MAX_CHANGES = 12
"""Of the recent edits, the newest that are looked at."""
_WORD = re.compile(r"\w+")
_PIECE = re.compile(r"\w+|[^\w\s]")
_COMPOUND = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_BODY_WORDS = frozenset(
    ("if", "for", "while", "switch", "catch", "return", "match", "with", "elif", "else", "loop", "select", "when")
)
_PARAMETER_LISTS = frozenset(("parameters", "formal_parameters", "parameter_list", "lambda_parameters"))
_DECLARING_FIELDS = ("name", "pattern", "declarator")
_BINDING = frozenset(("short_var_declaration", "var_spec", "const_spec", "let_declaration", "for_statement"))
_MEMBERS = frozenset(
    (
        "method_definition",
        "method_signature",
        "public_field_definition",
        "field_definition",
        "property_signature",
        "field_declaration",
        "method_declaration",
        "method_elem",
    )
)


@dataclass(frozen=True, slots=True)
class Change:
    """One recent edit: whole lines before and after, `\\n` line ends, none at the end."""

    path: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """name: without type and default. text: all of it. type: as written, empty if there is none."""

    name: str
    text: str
    type: str = ""
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a function: its receiver (self) is no parameter."""

    name: str
    parameters: tuple[Parameter, ...]
    result: str
    asynchronous: bool


@dataclass(frozen=True, slots=True)
class HeadChange:
    """A function's head before and after an edit."""

    old: Head
    new: Head
    line: str


def pieces(text: str) -> list[str]:
    """Words and single other characters, without white space."""
    return _PIECE.findall(text)


def line_pairs(change: Change) -> list[tuple[str, str]]:
    """The lines that became others, old and new; lines that only came or went are in no pair."""
    old, new = change.old.split("\n"), change.new.split("\n")
    pairs: list[tuple[str, str]] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "replace":
            both = list(zip(old[a:b], new[c:d], strict=False))
            pairs += [(x, y) for x, y in both if x.strip() and y.strip() and (b - a == d - c or _alike(x, y) > 0.5)]
    return pairs


def _alike(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, pieces(one), pieces(other), autojunk=False).ratio()


def word_pairs(old: str, new: str) -> list[tuple[str, str]]:
    """The words of a line that became other words, in order."""
    a, b = pieces(old), pieces(new)
    pairs: list[tuple[str, str]] = []
    for tag, i, j, k, n in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == "replace" and j - i == n - k:
            pairs += [(x, y) for x, y in zip(a[i:j], b[k:n], strict=True) if _name(x) and _name(y)]
    return pairs


def _name(word: str) -> bool:
    return _WORD.fullmatch(word) is not None and not word[0].isdigit()


def compound(name: str) -> list[str]:
    """The words a name is made of.

    >>> compound("groupByStatus"), compound("user_id2")
    (['group', 'By', 'Status'], ['user', 'id', '2'])
    """
    return _COMPOUND.findall(name)


@lru_cache
def keywords(language: str) -> frozenset[str]:
    """The words of a language that are no names."""
    return frozenset(w for w in syntax.anonymous_tokens(syntax.language_of(language) or "") if _name(w))


# --- heads -----------------------------------------------------------------------------------------------------------

_HEAD = re.compile(
    r"""(?mx)^[ \t]*
    (?P<before>(?:(?:export|default|public|private|protected|static|override|async|unsafe|pub(?:\([^)]*\))?)\s+)*)
    (?P<keyword>(?:def|fn|func|function\*?)\s+)?
    (?:\([^()]*\)\s*)?
    (?P<name>[A-Za-z_]\w*)\s*(?:<[^()]*>|\[[^()\]]*\])?\("""
)


def heads(text: str) -> list[Head]:
    """The function heads that begin in `text`, in any of the languages; a call at the beginning of a line is none."""
    found: list[Head] = []
    for match in _HEAD.finditer(text):
        end = closing(text, match.end() - 1)
        if end is None or match["name"] in _BODY_WORDS:
            continue
        rest = text[end + 1 :].split("\n", 1)[0].strip()
        if not match["keyword"] and not rest.endswith("{"):
            continue
        result = re.sub(r"^(?:->|:)\s*", "", re.sub(r"\s*[{:]\s*$", "", rest)).strip()
        listed = [parameter(part) for part in split_arguments(text[match.end() : end])]
        own = tuple(p for p in listed if p.name not in ("self", "cls"))
        found.append(Head(match["name"], own, result, "async" in match["before"].split()))
    return found


def head_changes(changes: Sequence[Change]) -> Iterator[HeadChange]:
    """Function heads that were edited, the newest first; each with its line as it is now."""
    for change in reversed(changes):
        old, new = heads(change.old), heads(change.new)
        if len(old) == len(new):
            for before, after in zip(old, new, strict=True):
                if before != after:
                    lines = change.new.split("\n")
                    line = next((n for n in lines if re.search(rf"\b{after.name}\b.*\(", n)), "")
                    yield HeadChange(before, after, line)


def parameter(text: str) -> Parameter:
    """Of `name: Type = default` and of Go's `name Type`."""
    text = text.strip()
    head, equals, _ = text.partition("=") if "=>" not in text else (text, "", "")
    name, colon, kind = head.partition(":")
    optional = bool(equals) or name.rstrip().endswith("?") or name.strip().startswith(("*", "..."))
    if not colon:
        name, _, kind = head.strip().partition(" ")
    words = _WORD.findall(name)
    return Parameter(words[-1] if words else "", text, kind.strip(), optional)


def closing(text: str, opening: int) -> int | None:
    """Where the bracket at `opening` is closed; strings are passed over."""
    depth, quote, index = 0, "", opening
    while index < len(text):
        char = text[index]
        if quote:
            index += char == "\\"
            quote = "" if char == quote else quote
        elif char in '"`' or (char == "'" and re.match(r"'(?:\\.|[^'\\\n])*'", text[index:])):
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth == 0:
                return index
        index += 1
    return None


def split_arguments(text: str) -> list[str]:
    """The parts between the commas outside of brackets and strings, stripped; none for white space alone."""
    parts, depth, quote, start = list[str](), 0, "", 0
    for index, char in enumerate(text):
        if quote:
            quote = "" if char == quote and text[index - 1] != "\\" else quote
        elif char in "\"'`":
            quote = char
        elif char in "([{<" or (char == ">" and text[index - 1 : index] not in ("=", "-")) or char in ")]}":
            depth += 1 if char in "([{<" else -1
        elif char == "," and depth <= 0:
            parts.append(text[start:index].strip())
            start = index + 1
    return [part for part in (*parts, text[start:].strip()) if part]


# --- names in a document ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Declared:
    """scope: where the name may be used. member: it is used behind a dot. owner: the class whose member it is."""

    scope: Span
    member: bool
    owner: str = ""


class View:
    """The parsed surroundings of a cursor, and where the changes stand in them."""

    def __init__(self, document: Document, cursor: int, changes: Sequence[Change] = ()) -> None:
        self.document = document
        self.cursor = cursor
        self.changes = tuple(changes)[-MAX_CHANGES:]
        self.here = Here(document, cursor)
        self.area = self.here.area
        self.text = document.text
        self.line = document.line_of(cursor)
        self.words_of = keywords(document.language)

    @property
    def language(self) -> str:
        return syntax.language_of(self.document.language) or ""

    def node(self, offset: int, size: int = 1) -> Node | None:
        return self.here.node(Span(offset, offset + size))

    def words(self, name: str, within: Span | None = None) -> list[int]:
        """Where `name` stands as a word of the code, in strings and comments not."""
        area = within or self.area
        found = (m.start() + area.start for m in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", area.of(self.text)))
        return [at for at in found if self._is_code(at, len(name))]

    def _is_code(self, at: int, size: int) -> bool:
        node = self.node(at, size)
        return node is not None and ("identifier" in node.type or node.type in ("word", "variable_name"))

    @cached_property
    def _fresh(self) -> frozenset[str]:
        lines = (line for change in self.changes for line in set(change.new.split("\n")) - set(change.old.split("\n")))
        return frozenset(line for line in lines if line.strip())

    def is_fresh(self, at: int) -> bool:
        """Whether the line at an offset is one that the user has just written: it is as the user wants it."""
        return self.document.line_text(self.document.line_of(at)).rstrip() in self._fresh

    def word_in(self, line: str, word: str) -> int | None:
        """Where a word stands in the line of exactly this text."""
        number = self.line_of(line)
        if number is None:
            return None
        return next(iter(self.words(word, self.document.line_span(number))), None)

    def line_of(self, text: str) -> int | None:
        """The number of the line of exactly this text, the nearest to the cursor; None where there is none."""
        first, last = self.document.line_of(self.area.start), self.document.line_of(self.area.end)
        same = [n for n in range(first, last + 1) if self.document.line_text(n).rstrip() == text.rstrip()]
        return min(same, key=lambda n: abs(n - self.line), default=None)

    def placed(self, change: Change) -> Span | None:
        """The whole lines that a change wrote, if they still stand here."""
        if not change.new.strip():
            return None
        found = re.compile(rf"(?m)^{re.escape(change.new)}$").search(self.text, self.area.start, self.area.end)
        return Span(found.start(), found.end()) if found is not None else None

    def declared(self, at: int, name: str, *, assigned: bool = False) -> Declared | None:
        """What the word at an offset declares there; None where it only uses a name.

        assigned: an assignment is a declaration too, as in languages that have no other.
        """
        node = self.node(at, len(name))
        if node is None or node.parent is None:
            return None
        holder = node.parent
        while holder.type in ("expression_list", "typed_parameter", "tuple_pattern", "mut_pattern", "pattern_list"):
            node, holder = holder, holder.parent
            if holder is None:
                return None
        direct = any(holder.child_by_field_name(field) == node for field in _DECLARING_FIELDS)
        binding = holder.type in _BINDING or (assigned and holder.type == "assignment")
        left = binding and holder.child_by_field_name("left") == node
        if not (direct or left or holder.type in _PARAMETER_LISTS) or holder.type in _USES:
            return None
        if holder.type in _MEMBERS:
            return Declared(self.area, member=True, owner=self._owner(holder))
        kinds = grammar_of(self.document.language).function_nodes
        around = holder.parent if holder.type in kinds else holder
        while around is not None and around.type not in kinds:
            around = around.parent
        if around is not None and holder.type not in kinds:
            return Declared(self.here.span(around), member=False)
        owner = self._owner(holder) if holder.type in kinds or holder.type == "assignment" else ""
        return Declared(self.area, member=bool(owner), owner=owner)

    def _owner(self, node: Node) -> str:
        """The class, struct or implemented type whose member a definition is; empty for none."""
        receiver = node.child_by_field_name("receiver")
        if receiver is not None:
            return _WORD.findall(self.here.span(receiver).of(self.text))[-1]
        classes = grammar_of(self.document.language).class_nodes | {"impl_item", "struct_item", "type_spec"}
        functions = grammar_of(self.document.language).function_nodes
        around = node.parent
        while around is not None and around.type not in classes and around.type not in functions:
            around = around.parent
        if around is None or around.type in functions:
            return ""
        name = around.child_by_field_name("type" if around.type == "impl_item" else "name")
        return self.here.span(name).of(self.text).split("<")[0] if name is not None else ""

    def means(self, at: int, name: str, declared: Declared) -> bool:
        """Whether the word at an offset can be the declared one, by what stands before it.

        A member is one of self or this, of something of its class, or, if its name is no common one, of anything whose
        class is not to be seen.
        """
        before = re.search(r"(\w*)[)\]]?\s*(?:\.|->|::|\?\.)$", self.text[max(0, at - 80) : at])
        if not declared.member:
            return before is None
        if before is None:
            node = self.node(at, len(name))
            return node is not None and node.type in _KEYS
        receiver = before[1]
        own = re.search(r"(?:^|[^\w.>:])(?:self|this|cls)\.$", self.text[max(0, at - 80) : at]) is not None
        if own or receiver == declared.owner:
            return True
        kind = re.search(
            rf"(?<![.\w]){re.escape(receiver)}\s*(?::=|[:= ])\s*(?:new |&|\*|mut )*([A-Za-z_]\w*)", self.text
        )
        if receiver and kind is not None and kind[1][0].isupper():
            return kind[1] == declared.owner
        return name not in _COMMON

    def indent(self, line: int) -> str:
        text = self.document.line_text(line)
        return text[: len(text) - len(text.lstrip())]


_USES = frozenset(("keyword_argument", "named_expression", "scoped_identifier", "field_initializer", "jsx_attribute"))
"""Nodes whose field `name` holds a name that is only used there."""

_KEYS = frozenset(("field_identifier", "property_identifier", "shorthand_field_identifier"))
_COMMON = frozenset(
    (
        *(
            "get",
            "set",
            "add",
            "push",
            "pop",
            "find",
            "map",
            "filter",
            "update",
            "append",
            "remove",
            "delete",
            "insert",
        ),
        *(
            "close",
            "open",
            "read",
            "write",
            "send",
            "join",
            "split",
            "run",
            "next",
            "keys",
            "values",
            "items",
            "format",
        ),
        *("index", "count", "sort", "copy", "clear", "len", "length", "size", "contains", "has", "name", "id", "value"),
    )
)
"""Members that many classes have: behind something of an unknown class they are not taken for ours."""
