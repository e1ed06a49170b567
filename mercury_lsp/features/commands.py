"""workspace/executeCommand: rewrite, fill, cycle, pause, resume, snooze, status, selectModel.

pygls' own handler of the method leaves a cancelled command running, so that this one stands in its place (server.py).
Each row of COMMANDS takes the session, its arguments (the first one of the request, an object) and the client's token
of progress. Bad arguments are an error of one line that says what the command takes.
"""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import cattrs
from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from pygls.protocol import default_converter

from mercury_lsp.actions.places import Hole, hole
from mercury_lsp.actions.repair import Work
from mercury_lsp.actions.rewriting import Wish, fill
from mercury_lsp.actions.tasks import TASKS
from mercury_lsp.diffs import Hunk
from mercury_lsp.edit import Edit, completion_edit
from mercury_lsp.features.code_action import COMMAND, edit_of, read_data
from mercury_lsp.features.positions import to_offset, to_span
from mercury_lsp.features.session import Session, as_wire
from mercury_lsp.features.store import document_key
from mercury_lsp.features.suggest import refusal
from mercury_lsp.features.wire import inline_item, is_vscode
from mercury_lsp.features.working import canvas, current_edits, do, plain, room, shown, tell
from mercury_lsp.features.workspace_edit import workspace_edit
from mercury_lsp.region import EditRegion, completion_region, request_for
from mercury_lsp.text import Document, Span
from mercury_model.draft import Draft, Infiller, Request

T = TypeVar("T")
Token = int | str | None
_CONVERTER = default_converter()

CYCLE_CANDIDATES = 3
CYCLE_TRIES = 3
CYCLE_TEMPERATURE = 0.8
MAX_SNOOZE_MINUTES = 24 * 60.0


@dataclass(frozen=True)
class RewriteArguments:
    """apply: let the editor apply the edit; else it is the answer."""

    uri: str
    range: types.Range
    instruction: str = ""
    apply: bool = True


@dataclass(frozen=True)
class PlaceArguments:
    uri: str
    position: types.Position
    apply: bool = True


@dataclass(frozen=True)
class SnoozeArguments:
    minutes: float = 30.0


@dataclass(frozen=True)
class ModelArguments:
    name: str


@dataclass(frozen=True)
class NoArguments:
    pass


@dataclass(slots=True)
class Cycle:
    """Where `mercury.cycle` is: the candidates for one state of one document.

    seen: texts that were shown, at: which of them is; waiting: drawn and not shown yet; last: any edit for this state.
    """

    document: Document
    cursor: int
    seen: list[str]
    seed: int = 0
    at: int = 0
    waiting: list[Edit] = field(default_factory=list[Edit])
    last: Edit | None = None


async def rewrite(session: Session, given: RewriteArguments, token: Token) -> dict[str, Any]:
    """Rewrites the lines of a range by an instruction."""
    document = opened(session, given.uri)
    span = to_span(document, given.range, session.encoding)
    wish = Wish(document, span, instruction=given.instruction.strip(), room=room(session, document))
    title = given.instruction.strip() or TASKS["rewrite"].title
    return await _changed(session, document, TASKS["rewrite"].work(wish), span, title, token, apply=given.apply)


async def fill_place(session: Session, given: PlaceArguments, token: Token) -> dict[str, Any]:
    """Fills the hole at a position, or writes what belongs there."""
    document = opened(session, given.uri)
    cursor = to_offset(document, given.position, session.encoding)
    at = await asyncio.to_thread(hole, document, Span(cursor, cursor)) or Hole(Span(cursor, cursor))
    work = fill(document, at, room(session, document))
    return await _changed(session, document, work, at.span, TASKS["fill"].title, token, apply=given.apply)


async def act(session: Session, given: Mapping[str, Any], token: Token) -> dict[str, Any]:
    """Does a code action for a client that cannot resolve one."""
    data = read_data(given)
    if data is None:
        raise JsonRpcInvalidParams(message=f"{COMMAND} takes the data of a code action of this server")
    edit = await shown(session, data.title, token, edit_of(session, data))
    return await _applied(session, edit, data.title) if edit is not None else {"applied": False}


async def _changed(
    session: Session, document: Document, work: Work, span: Span, title: str, token: Token, *, apply: bool
) -> dict[str, Any]:
    """Does a task and hands its edit to the editor: {"applied": ...}, or {"applied": False, "edit": ...}."""
    body = do(session, document, work, canvas(session, document, span))
    hunk: Hunk | None = await shown(session, title, token, body)
    if hunk is None:
        tell(session, "Mercury found nothing to change.")
        return {"applied": False}
    placed = current_edits(session, document, hunk)
    if placed is None:
        tell(session, "Mercury: the code has changed while the model was at work; ask for it again.")
        return {"applied": False}
    now, changes = placed
    edit = workspace_edit(now, changes, session.encoding, session.capabilities, title)
    return await _applied(session, edit, title) if apply else {"applied": False, "edit": _CONVERTER.unstructure(edit)}


async def _applied(session: Session, edit: types.WorkspaceEdit, title: str) -> dict[str, Any]:
    params = types.ApplyWorkspaceEditParams(edit=edit, label=f"Mercury: {title}")
    try:
        answer = await session.server.workspace_apply_edit_async(params)
    except JsonRpcException as error:  # some clients have no other way to say no
        answer = types.ApplyWorkspaceEditResult(applied=False, failure_reason=error.message)
    if not answer.applied:
        tell(
            session,
            "Mercury: the editor did not take the edit" + (f": {answer.failure_reason}" * bool(answer.failure_reason)),
        )
    return {"applied": answer.applied}


async def cycle(session: Session, given: PlaceArguments, token: Token) -> dict[str, Any]:
    """The next candidate at a position; ghost text shows it when it is asked for next."""
    document = opened(session, given.uri)
    key = document_key(document.uri)
    cursor = to_offset(document, given.position, session.encoding)
    state = session.cycles.get(key)
    if state is None or state.document.text != document.text or state.cursor != cursor:
        known = session.recent.find(key, document, cursor)
        state = session.cycles[key] = Cycle(document, cursor, [known.new_text] if known is not None else [], last=known)
    edit = await shown(session, "Next candidate", token, _next(session, document, state))
    now = session.documents.get(document.uri)
    if edit is None or now is None or now.text != document.text:
        return {"item": None, "index": state.at, "count": len(state.seen)}
    session.recent.put(key, document, edit)
    whole_line = is_vscode(session.client_name)
    item = inline_item(document, cursor, edit, session.encoding, whole_line=whole_line)
    wire = _CONVERTER.unstructure(item) if item is not None else None
    return {"item": wire, "index": state.at, "count": len(state.seen)}


async def _next(session: Session, document: Document, state: Cycle) -> Edit | None:
    """A candidate that was not shown yet; when the model has no other, those that were, in turn."""
    for _ in range(CYCLE_TRIES):
        if not state.waiting and not await _draw(session, document, state):
            return None
        while state.waiting:
            edit = state.waiting.pop(0)
            if edit.new_text not in state.seen:
                state.seen.append(edit.new_text)
                state.at = len(state.seen) - 1
                return edit
    if state.last is None:
        return None
    state.at = (state.at + 1) % len(state.seen)
    return dataclasses.replace(state.last, new_text=state.seen[state.at])


async def _draw(session: Session, document: Document, state: Cycle) -> bool:
    """New candidates into `state.waiting`: several in one run at first, then one drawn by chance at a time.

    False when there is no model or nothing to complete.
    """
    settings = session.folders.settings_of(document.uri)
    seed, state.seed = state.seed, state.seed + 1
    space = room(session, document)
    found: list[Edit] = []
    region: EditRegion | None = None

    def prepared(infiller: Infiller) -> Request | None:
        nonlocal region
        region = completion_region(document, state.cursor, space(infiller), infiller.count_tokens)
        if region is None:
            return None
        drawn = {"temperature": CYCLE_TEMPERATURE, "seed": seed} if seed else {"candidates": CYCLE_CANDIDATES}
        return request_for(region, max_tokens=settings.inline.max_tokens, **drawn)

    def finished(draft: Draft) -> None:
        if draft.done and region is not None:
            edit = completion_edit(region, draft.text, confidence=draft.confidence)
            if edit is not None:
                found.append(edit)

    future = session.engine.submit(document_key(document.uri) + "#task", prepared, finished)
    if await asyncio.wrap_future(future) is None:
        return False
    state.waiting += found
    state.last = found[-1] if found else state.last
    return True


async def pause(session: Session, _: NoArguments, token: Token) -> dict[str, Any]:
    """Offers nothing until resumed; whatever runs stops."""
    session.pause.pause()
    return _quiet(session)


async def snooze(session: Session, given: SnoozeArguments, token: Token) -> dict[str, Any]:
    """Offers nothing for some minutes."""
    if not 0 < given.minutes <= MAX_SNOOZE_MINUTES:
        raise JsonRpcInvalidParams(message=f"mercury.snooze takes minutes from 0 to {MAX_SNOOZE_MINUTES:.0f}")
    session.pause.snooze(given.minutes)
    if session.loop is not None:
        session.loop.call_later(60 * given.minutes + 0.01, resumed, session)
    return _quiet(session)


async def resume(session: Session, _: NoArguments, token: Token) -> dict[str, Any]:
    """Ends a pause or snooze."""
    session.pause.resume()
    return resumed(session)


def _quiet(session: Session) -> dict[str, Any]:
    session.stop_all()
    session.send_status()
    return as_wire(session.status())


def resumed(session: Session) -> dict[str, Any]:
    """Tells the client if nothing keeps the server quiet any more."""
    if not session.pause.reason:
        session.inactive = ""
        session.send_status()
    return as_wire(session.status())


async def status(session: Session, _: NoArguments, token: Token) -> dict[str, Any]:
    """What `mercury/status` says, and how many runs of the model have begun."""
    return {**as_wire(session.status()), "runs": session.engine.n_runs}


async def select_model(session: Session, given: ModelArguments, token: Token) -> dict[str, Any]:
    """Loads another model in the background; `mercury/status` says how it gets on."""
    if not given.name.strip():
        raise JsonRpcInvalidParams(message="mercury.selectModel takes {name}, as `mercury-lsp model list` prints it")
    model = dataclasses.replace(session.settings.model, name=given.name.strip())
    session.settings = dataclasses.replace(session.settings, model=model)
    session.stop_all()
    session.engine.reload()
    return {"model": model.name}


@dataclass(frozen=True, slots=True)
class Command:
    """takes: the arguments, for people. writes: it runs the model, so that it is refused while paused."""

    run: Callable[[Session, Any, Token], Awaitable[dict[str, Any]]]
    arguments: type
    takes: str
    writes: bool = False


COMMANDS: dict[str, Command] = {
    "mercury.rewrite": Command(rewrite, RewriteArguments, "{uri, range, instruction?, apply?}", writes=True),
    "mercury.fill": Command(fill_place, PlaceArguments, "{uri, position, apply?}", writes=True),
    "mercury.cycle": Command(cycle, PlaceArguments, "{uri, position}", writes=True),
    COMMAND: Command(act, dict, "the data of a code action", writes=True),
    "mercury.pause": Command(pause, NoArguments, "nothing"),
    "mercury.resume": Command(resume, NoArguments, "nothing"),
    "mercury.snooze": Command(snooze, SnoozeArguments, "{minutes}"),
    "mercury.status": Command(status, NoArguments, "nothing"),
    "mercury.selectModel": Command(select_model, ModelArguments, "{name}"),
}


def options(_: types.ClientCapabilities) -> types.ExecuteCommandOptions:
    return types.ExecuteCommandOptions(commands=list(COMMANDS), work_done_progress=True)


async def execute(session: Session, params: types.ExecuteCommandParams) -> dict[str, Any]:
    """Answers what the command answers."""
    command = COMMANDS.get(params.command)
    if command is None:
        raise JsonRpcInvalidParams(message=f"unknown command {params.command}: there are {', '.join(COMMANDS)}")
    given = _arguments(params.command, command, plain((params.arguments or [{}])[0]))
    if command.writes and session.pause.reason:
        tell(session, f"Mercury is {session.pause.reason}.")
        return {"applied": False}
    token: object = params.work_done_token  # lsprotocol lets anything through
    return await command.run(session, given, token if isinstance(token, int | str) else None)


def _arguments(name: str, command: Command, raw: Any) -> Any:
    if command.arguments is dict and isinstance(raw, dict):
        return raw  # type: ignore[reportUnknownVariableType]
    known = (
        {f.name for f in dataclasses.fields(command.arguments)}
        if dataclasses.is_dataclass(command.arguments)
        else set[str]()
    )
    try:
        if not isinstance(raw, dict) or set(raw) - known:  # type: ignore[reportUnknownArgumentType]
            raise TypeError
        return _CONVERTER.structure(raw, command.arguments)
    except (cattrs.BaseValidationError, TypeError, ValueError, KeyError):
        raise JsonRpcInvalidParams(message=f"{name} takes {command.takes}") from None


def opened(session: Session, uri: str) -> Document:
    """The open document of a URI, if it may be touched; else an error that says what is wrong."""
    document = session.documents.get(uri)
    if document is None:
        raise JsonRpcInvalidParams(message=f"{uri} is not open in this editor")
    reason = refusal(session, document)
    if reason:
        raise JsonRpcInvalidParams(message=f"{uri}: {reason}")
    return document
