"""textDocument/codeAction and codeAction/resolve: titles from syntax alone, the model only for the chosen one.

Offered for a selection, a diagnostic, or a hole or syntax error at the cursor; nothing else lights the bulb.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import cattrs
from lsprotocol import types

from mercury_lsp.actions import faults
from mercury_lsp.actions.places import hole
from mercury_lsp.actions.remedies import Complaint
from mercury_lsp.actions.rewriting import Wish
from mercury_lsp.actions.tasks import TASKS
from mercury_lsp.features.anchors import Anchor, anchor, locate
from mercury_lsp.features.positions import to_span
from mercury_lsp.features.session import Session
from mercury_lsp.features.suggest import refusal
from mercury_lsp.features.working import canvas, current_edits, do, plain, room, shown, tell
from mercury_lsp.features.workspace_edit import workspace_edit
from mercury_lsp.text import Document, Span

FIX_ALL = "source.fixAll.mercury"
KINDS = {
    "mend": types.CodeActionKind.QuickFix.value,
    "repair": types.CodeActionKind.QuickFix.value,
    "fill": types.CodeActionKind.RefactorRewrite.value,
    "complete": types.CodeActionKind.RefactorRewrite.value,
    "rewrite": types.CodeActionKind.RefactorRewrite.value,
    "docstring": types.CodeActionKind.RefactorRewrite.value,
    "annotate": types.CodeActionKind.RefactorRewrite.value,
    "simplify": types.CodeActionKind.RefactorRewrite.value,
    "repair_all": FIX_ALL,
}
COMMAND = "mercury.act"
"""What a client runs that cannot resolve actions."""

_FOR_SELECTIONS = ("complete", "rewrite", "docstring", "annotate", "simplify")
_MAX_FIXES = 8  # diagnostics that get a title each
_MAX_MESSAGE = 60
_WHOLE = 100_000  # characters: a larger document is looked through for syntax errors only around the cursor


@dataclass(frozen=True)
class Data:
    """What an action needs to be done later. Spans count from the start of the anchor's first line, in code points."""

    uri: str
    version: int | None
    task: str
    anchor: Anchor
    span: tuple[int, int]
    message: str = ""
    code: str = ""
    source: str = ""
    place: tuple[int, int] = (0, 0)
    title: str = ""


def options(_: types.ClientCapabilities) -> types.CodeActionOptions:
    kinds = [types.CodeActionKind.QuickFix, types.CodeActionKind.RefactorRewrite, FIX_ALL]
    return types.CodeActionOptions(code_action_kinds=kinds, resolve_provider=True)


async def code_action(session: Session, params: types.CodeActionParams) -> list[types.CodeAction | types.Command]:
    """The titles; an empty list where nothing is at hand."""
    document = session.documents.get(params.text_document.uri)
    if document is None or refusal(session, document):
        return []
    span = to_span(document, params.range, session.encoding)
    only = params.context.only
    complaints = [
        (diagnostic, _complaint(session, document, diagnostic))
        for diagnostic in params.context.diagnostics[:_MAX_FIXES]
    ]
    session.surroundings.told(document, [(complaint.span, complaint.message) for _, complaint in complaints])
    # parsing takes longer than the event loop may be held
    found = await asyncio.to_thread(lambda: list(_offers(document, span, complaints, only)))
    return [_action(session, data, diagnostic) for data, diagnostic in found]


Reported = list[tuple[types.Diagnostic, Complaint]]


def _complaint(session: Session, document: Document, diagnostic: types.Diagnostic) -> Complaint:
    message = diagnostic.message
    return Complaint(
        to_span(document, diagnostic.range, session.encoding),
        message if isinstance(message, str) else message.value,
        str(diagnostic.code if diagnostic.code is not None else ""),
        diagnostic.source or "",
    )


def _offers(
    document: Document, span: Span, reported: Reported, only: "Any"
) -> Iterator[tuple[Data, types.Diagnostic | None]]:
    def wanted(task: str) -> bool:
        kind = KINDS[task]
        return only is None or any(f"{kind}.".startswith(f"{getattr(o, 'value', o)}.") for o in only)

    def offer(task: str, complaint: Complaint | None = None) -> Data | None:
        wish = Wish(document, complaint.span if complaint is not None else span, complaint=complaint)
        region = TASKS[task].region(wish) if wanted(task) else None
        return _data(document, task, wish, region) if region is not None else None

    offers: list[tuple[Data | None, types.Diagnostic | None]] = [(offer("mend", c), d) for d, c in reported]
    lines = {document.line_of(c.span.start) for _, c in reported}
    if not lines & {document.line_of(span.start), document.line_of(span.end)}:
        offers.append((offer("repair"), None))
    marked = hole(document, span) if wanted("fill") else None
    if marked is not None:
        offers.append((offer("fill"), None))
    if len(span):
        offers += [(offer(task), None) for task in _FOR_SELECTIONS if task != "complete" or marked is None]
    # the whole document is parsed only where somebody asks for that kind: this runs at every move of the cursor
    everywhere = only is not None and len(document.text) <= _WHOLE
    if wanted("repair_all") and (faults.faults(document) if everywhere else faults.faults(document, span)):
        offers.append((_data(document, "repair_all", Wish(document, span), span), None))
    for data, diagnostic in offers:
        if data is not None:
            yield data, diagnostic


def _data(document: Document, task: str, wish: Wish, region: Span) -> Data:
    complaint = wish.complaint
    ends = [region.start, region.end, wish.span.start, wish.span.end]
    ends += [complaint.span.start, complaint.span.end] if complaint is not None else []
    place = anchor(document, Span(min(ends), max(ends)))
    zero = document.line_span(place.line).start
    title = TASKS[task].title
    if complaint is not None:
        message = " ".join(complaint.message.split())
        title += f": {message if len(message) <= _MAX_MESSAGE else message[: _MAX_MESSAGE - 1] + '…'}"
    return Data(
        document.uri,
        document.version,
        task,
        place,
        (wish.span.start - zero, wish.span.end - zero),
        complaint.message if complaint is not None else "",
        complaint.code if complaint is not None else "",
        complaint.source if complaint is not None else "",
        (complaint.span.start - zero, complaint.span.end - zero) if complaint is not None else (0, 0),
        title,
    )


def _action(session: Session, data: Data, diagnostic: types.Diagnostic | None) -> types.CodeAction | types.Command:
    text_document = session.capabilities.text_document
    support = text_document.code_action if text_document is not None else None
    resolves = support is not None and support.resolve_support and "edit" in support.resolve_support.properties
    tags = support.tag_support if support is not None else None
    tagged = tags is not None and types.CodeActionTag.LlmGenerated in tags.value_set
    wire = asdict(data)
    command = types.Command(title=data.title, command=COMMAND, arguments=[wire])
    if support is None or support.code_action_literal_support is None:
        return command
    return types.CodeAction(
        title=data.title,
        kind=KINDS[data.task],
        diagnostics=[diagnostic] if diagnostic is not None else None,
        data=wire if resolves else None,
        command=None if resolves else command,
        tags=[types.CodeActionTag.LlmGenerated] if tagged else None,
    )


async def resolve(session: Session, action: types.CodeAction) -> types.CodeAction:
    """The action with its edit; without one, and with a message, if it cannot be had. Nothing else is changed."""
    data = read_data(action.data)
    if data is not None and action.edit is None:
        action.edit = await shown(session, data.title, None, edit_of(session, data))
    return action


def read_data(raw: object) -> Data | None:
    """What came back from the client, if it is ours and whole."""
    try:
        return cattrs.structure(plain(raw), Data)
    except Exception:
        return None


async def edit_of(session: Session, data: Data) -> types.WorkspaceEdit | None:
    """Does the task. None, with a message for the user, if there is nothing to change or the code has changed."""
    document = session.documents.get(data.uri)
    reason = _refused(session, document)
    if document is None or reason:
        tell(session, f"Mercury: {reason}.")
        return None
    wish = _found_again(session, document, data)
    if wish is None:
        tell(session, "Mercury: the code has changed since this action was offered; ask for it again.")
        return None
    task = TASKS[data.task]
    hunk = await do(session, document, task.work(wish), canvas(session, document, wish.span))
    if hunk is None:
        tell(session, f"Mercury found nothing to change for “{data.title}”.")
        return None
    placed = current_edits(session, document, hunk)
    if placed is None:
        tell(session, "Mercury: the code has changed while the model was at work; ask for it again.")
        return None
    now, changes = placed
    return workspace_edit(now, changes, session.encoding, session.capabilities, data.title, for_action=True)


def _refused(session: Session, document: Document | None) -> str:
    if document is None:
        return "this document is not open any more"
    return refusal(session, document)


def _found_again(session: Session, document: Document, data: Data) -> Wish | None:
    if data.task not in TASKS:
        return None
    if data.task == "repair_all":  # it is about the document as it is
        return Wish(document, Span(0, 0), room=room(session, document))
    line = locate(document, data.anchor)
    if line is None:
        return None
    zero = document.line_span(line).start
    complaint = None
    if data.message:
        place = Span(zero + data.place[0], zero + data.place[1])
        complaint = Complaint(place, data.message, data.code, data.source)
    return Wish(
        document, Span(zero + data.span[0], zero + data.span[1]), complaint=complaint, room=room(session, document)
    )
