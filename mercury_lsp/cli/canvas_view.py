"""Draws drafts in a terminal: the canvas filling in between the lines that stand around it.

A masked slot is a block, a settled token is green, a tentative one dim, a revised one marked. Where the output is
no terminal, each pass is one plain line. This module knows nothing about models or how the text was chosen.
"""

import contextlib
from collections.abc import Callable, Generator

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from mercury_lsp.edit import Edit
from mercury_lsp.region import EditRegion
from mercury_lsp.text import Document
from mercury_model.draft import MASK_GLYPH, Draft, Ended, Slot

STYLES = {"settled": "bold green", "tentative": "dim", "masked": "blue", "revised": "black on yellow"}
LINES_ABOVE, LINES_BELOW = 6, 4
MASK = MASK_GLYPH * 2
PLAIN_WIDTH = 80

ENDINGS: dict[Ended, str] = {
    "": "",
    "end": "the model",
    "rule": "the syntax",
    "length": "the token limit",
    "deadline": "the deadline",
}

CONTROLS = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"} | {0x7F: "\u2421"}
"""Control characters are shown as their pictures: code on the screen must not steer the terminal."""


@contextlib.contextmanager
def watching(region: EditRegion, console: Console) -> Generator[Callable[[Draft], None]]:
    """Shows every draft it is called with: in place in a terminal, one line each elsewhere."""
    if not console.is_terminal:
        yield lambda draft: console.out(plain(draft), highlight=False)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield lambda draft: live.update(frame(region, draft, console.width), refresh=True)


def frame(region: EditRegion, draft: Draft, width: int) -> Group:
    """The canvas in its surroundings, at most `width` columns wide."""
    text = region.document.text
    line = region.document.line_of(region.cursor)
    rest = text[region.span.end : region.document.line_span(line).end]
    middle = Text(shown(region.head))
    for slot in trimmed(draft):
        middle.append(*drawn(slot))
    middle.append(shown(rest))
    legend = Text("  ").join(Text(name, STYLES[name]) for name in ("settled", "tentative", "revised"))
    legend.append(f"  {MASK} masked", STYLES["masked"])
    return numbered(region.document, region.document, line, middle, line, Group(Text(footer(draft)), legend), width)


def result(region: EditRegion, edit: Edit, draft: Draft, width: int) -> Group:
    """The completed lines of the file in their surroundings, what is new in green."""
    document, line = region.document, region.document.line_of(region.cursor)
    after = document.apply(edit.span, edit.new_text.replace("\n", document.newline), document.version)
    last_old = document.line_of(edit.span.end)
    rest = document.text[edit.span.end : document.line_span(last_old).end]
    middle = Text(shown(region.head))
    middle.append(shown(edit.new_text), STYLES["settled"])
    middle.append(shown(rest))
    return numbered(document, after, line, middle, last_old, Text(footer(draft), "dim"), width)


def completed(region: EditRegion, edit: Edit) -> list[str]:
    """The lines of the file that the edit touched, as they are afterwards, with their numbers."""
    document = region.document
    after = document.apply(edit.span, edit.new_text.replace("\n", document.newline), document.version)
    first = document.line_of(edit.span.start)
    last = after.line_of(edit.span.start + len(edit.new_text.replace("\n", document.newline)))
    gutter = len(str(after.n_lines))
    return [f"{n + 1:>{gutter}} │ {after.line_text(n)}" for n in range(first, last + 1)]


def numbered(
    before: Document, after: Document, line: int, middle: Text, last_old: int, below: Text | Group, width: int
) -> Group:
    """Lines above, the lines of `middle`, lines below, each with the number it has when `middle` stands there."""
    gutter = len(str(after.n_lines + middle.plain.count("\n"))) + 1
    rows: list[Text] = []
    room = max(10, width - gutter - 3)

    def row(label: str, code: Text, mark: str) -> None:
        rows.append(Text.assemble((f"{label:>{gutter}} {mark} ", "dim"), code, no_wrap=True, overflow="crop"))

    for n in range(max(0, line - LINES_ABOVE), line):
        row(str(n + 1), around(before.line_text(n), room), "│")
    pieces = middle.split("\n", allow_blank=True)
    for n, code in enumerate(pieces, line):
        code.expand_tabs(4)
        for k, part in enumerate(folded(code, room)):
            row(str(n + 1) if k == 0 else "", part, "┃")
    shift = len(pieces) - 1 - (last_old - line)
    for n in range(last_old + 1, min(before.n_lines, last_old + 1 + LINES_BELOW)):
        row(str(n + shift + 1), around(before.line_text(n), room), "│")
    return Group(*rows, Text(""), below)


def around(line: str, room: int) -> Text:
    code = Text(shown(line))
    code.expand_tabs(4)
    code.truncate(room, overflow="ellipsis")
    return code


def folded(code: Text, room: int) -> list[Text]:
    """The line cut into pieces of at most `room` columns; wide characters count as two."""
    cuts: list[int] = []
    used = 0
    for at, char in enumerate(code.plain):
        columns = Text(char).cell_len
        if used + columns > room:
            cuts.append(at)
            used = 0
        used += columns
    return list(code.divide(cuts))


def trimmed(draft: Draft) -> tuple[Slot, ...]:
    """The slots without what belongs to the text already: tokens may begin left of the cursor, or end too late."""
    if not draft.slots or draft.done:
        return (Slot(draft.text, "settled", draft.confidence),)
    written = "".join(slot.text for slot in draft.slots if slot.state != "masked")
    excess = len(written) - len(draft.text)
    if excess <= 0 or not written.endswith(draft.text):
        return draft.slots
    slots: list[Slot] = []
    for slot in draft.slots:
        cut = min(excess, len(slot.text))
        excess -= cut
        slots.append(Slot(slot.text[cut:], slot.state, slot.confidence, slot.revised))
    return tuple(slots)


def drawn(slot: Slot) -> tuple[str, str]:
    if slot.state == "masked":
        return MASK, STYLES["masked"]
    return shown(slot.text), STYLES["revised" if slot.revised else slot.state]


def shown(text: str) -> str:
    return text.replace("\r\n", "\n").translate(CONTROLS)


def footer(draft: Draft) -> str:
    rate = draft.n_tokens / draft.forwards if draft.forwards else 0.0
    text = f"forward {draft.forwards:g} · {draft.n_tokens} tokens · {rate:.1f} tokens per forward"
    if draft.ended:
        return f"{text} · ended by {ENDINGS[draft.ended]}"
    return f"{text} · {draft.n_open} masked" if draft.n_open else text


def plain(draft: Draft) -> str:
    """One pass as one line of at most 80 columns; of a long middle the end is shown, where it grows."""
    slots = "".join(MASK_GLYPH if slot.state == "masked" else slot.text for slot in trimmed(draft))
    text = shown(slots).replace("\n", "⏎").replace("\t", " ")
    head = f"forward {draft.forwards:g}: "
    room = PLAIN_WIDTH - len(head)
    return head + (text if len(text) <= room else "…" + text[-room + 1 :])
