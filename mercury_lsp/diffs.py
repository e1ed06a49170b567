"""Differences between two texts: unified diffs that `git apply` takes, and the smallest hunks of an edit.

Lines end at `\\n` only, as git sees them: a `\\r` before it belongs to the line and is kept. Texts in, values out;
this module knows nothing about documents, files or models.
"""

import difflib
from dataclasses import dataclass

from mercury_lsp.text import Span

CONTEXT = 3
_NO_NEWLINE = "\\ No newline at end of file\n"
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\t": "\\t", "\n": "\\n", "\r": "\\r"}


@dataclass(frozen=True, slots=True)
class Hunk:
    """`span` of the old text becomes `new_text`."""

    span: Span
    new_text: str


def unified_diff(path: str, old: str, new: str) -> str:
    """The diff from `old` to `new` of the file `path` (relative, with `/`); empty where they are the same.

    >>> print(unified_diff("a.txt", "one\\n", "two\\n"), end="")
    --- a/a.txt
    +++ b/a.txt
    @@ -1 +1 @@
    -one
    +two
    """
    lines = difflib.unified_diff(
        _lines(old), _lines(new), _quoted("a/" + path), _quoted("b/" + path), n=CONTEXT, lineterm="\n"
    )
    return "".join(line if line.endswith("\n") else line + "\n" + _NO_NEWLINE for line in lines)


def hunks(old: str, new: str, offset: int = 0) -> tuple[Hunk, ...]:
    """What to replace in `old`, in order and disjoint, to get `new`; `offset` is added to every span.

    Lines that are the same in both are in no hunk; inside a hunk the equal head and tail are left out too.
    """
    before, after = _lines(old), _lines(new)
    starts = [0]
    for line in before:
        starts.append(starts[-1] + len(line))
    found: list[Hunk] = []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, top, bottom, new_top, new_bottom in matcher.get_opcodes():
        if tag == "equal":
            continue
        if bottom - top == new_bottom - new_top:  # line by line
            for line, new_line in zip(range(top, bottom), after[new_top:new_bottom], strict=True):
                found.extend(_trimmed(starts[line], before[line], new_line, offset))
        else:
            found.extend(_trimmed(starts[top], "".join(before[top:bottom]), "".join(after[new_top:new_bottom]), offset))
    return tuple(found)


def apply(text: str, changes: tuple[Hunk, ...]) -> str:
    """`text` after hunks whose spans are in order and disjoint."""
    parts: list[str] = []
    position = 0
    for hunk in changes:
        parts += (text[position : hunk.span.start], hunk.new_text)
        position = hunk.span.end
    return "".join((*parts, text[position:]))


def _trimmed(start: int, old: str, new: str, offset: int) -> list[Hunk]:
    size = min(len(old), len(new))
    head = next((n for n in range(size) if old[n] != new[n]), size)
    # never between the two characters of a line end: an editor's positions cannot name that place
    head -= int(head > 0 and old[head - 1] == "\r")
    tail = next((n for n in range(size - head) if old[-1 - n] != new[-1 - n]), size - head)
    tail -= int(tail > 0 and old[len(old) - tail] == "\n" and (old + new).find("\r") >= 0)
    if head == len(old) - tail and head == len(new) - tail:
        return []
    return [Hunk(Span(offset + start + head, offset + start + len(old) - tail), new[head : len(new) - tail])]


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _quoted(path: str) -> str:
    """A path as git writes it: in quotes where it holds what git escapes."""
    if any(char in _ESCAPES for char in path):
        return '"' + "".join(_ESCAPES.get(char, char) for char in path) + '"'
    return path + "\t" if " " in path else path  # a tab ends a name with spaces
