"""Recent suggestions, and what is left of one after the user typed its beginning.

Values in, values out: it knows nothing about the wire or the model. Kept per document, by the text right around the
suggestion, so that a suggestion is found again for every state in which the user typed a part of it and for nothing
else.
"""

from collections import OrderedDict
from dataclasses import dataclass, replace

from mercury_lsp.edit import Edit
from mercury_lsp.text import Document, Span

WINDOW = 2048
"""Code points before and after the suggestion that must be unchanged: more than a suggestion could depend on nearby,
and little enough to compare at every key."""

_CLOSERS = {")": "(", "]": "[", "}": "{", '"': '"', "'": "'", "`": "`"}


@dataclass(frozen=True, slots=True)
class _Entry:
    start: int
    before: str
    replaced: str
    after: str
    edit: Edit


class Recent:
    """The last `size` suggestions of all documents, the least recently used forgotten first."""

    def __init__(self, size: int = 64) -> None:
        self._size = size
        self._entries: OrderedDict[tuple[str, int, str, str, str], tuple[str, _Entry]] = OrderedDict()

    def put(self, key: str, document: Document, edit: Edit) -> None:
        """Remembers that `edit` was computed for `document`."""
        start, end, text = edit.span.start, edit.span.end, document.text
        entry = _Entry(start, text[max(0, start - WINDOW) : start], text[start:end], text[end : end + WINDOW], edit)
        index = (key, start, entry.before, entry.replaced, entry.after)
        self._entries[index] = (key, entry)
        self._entries.move_to_end(index)
        while len(self._entries) > self._size:
            self._entries.popitem(last=False)

    def find(self, key: str, document: Document, cursor: int) -> Edit | None:
        """The rest of a suggestion whose beginning, and nothing else, was typed before the cursor.

        Of several, the one that was computed for the longest text before the cursor.
        """
        best: tuple[int, tuple[str, int, str, str, str], Edit] | None = None
        for index, (owner, entry) in self._entries.items():
            if owner != key:
                continue
            edit = rest(entry.edit, entry.before, entry.replaced, entry.after, document, cursor)
            if edit is not None and (best is None or entry.start >= best[0]):
                best = (entry.start, index, edit)
        if best is None:
            return None
        self._entries.move_to_end(best[1])
        return best[2]

    def forget(self, key: str) -> None:
        """Drops the suggestions of a document."""
        for index in [index for index, (owner, _) in self._entries.items() if owner == key]:
            del self._entries[index]

    def __len__(self) -> int:
        return len(self._entries)


def rest(edit: Edit, before: str, replaced: str, after: str, document: Document, cursor: int) -> Edit | None:
    """What is left of `edit` in `document`, if between its start and the cursor only its beginning was typed.

    A closer that the editor added by itself after the cursor is replaced too, if the rest closes it.
    """
    text, start = document.text, edit.span.start
    if not start <= cursor < start + len(edit.new_text):
        return None
    typed = text[start:cursor]
    left = edit.new_text[len(typed) :]
    if not edit.new_text.startswith(typed):
        return None
    if text[max(0, start - WINDOW) : start] != before:
        return None
    covered = replaced
    if not _follows(text, cursor, covered, after):
        closer = text[cursor : cursor + 1]
        covered = closer + replaced
        if not (typed and _closes(left, closer) and _follows(text, cursor, covered, after)):
            return None
    span = Span(cursor, cursor + len(covered))
    return replace(edit, version=document.version, span=span, new_text=left)


def _follows(text: str, cursor: int, covered: str, after: str) -> bool:
    if not text.startswith(covered, cursor):
        return False
    end = cursor + len(covered)
    # what is farther than the window may differ: it is compared with what stands there now
    return text[end : end + len(after)] == after and (len(after) == WINDOW or end + len(after) == len(text))


def _closes(left: str, closer: str) -> bool:
    opener = _CLOSERS.get(closer)
    if opener is None:
        return False
    return left.count(closer) % 2 == 1 if opener == closer else left.count(closer) > left.count(opener)
