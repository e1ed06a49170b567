"""The workspace: folders, settings and files that change while the server runs.

Settings come from initializationOptions, from the client when it is asked (workspace/configuration), and from
`.mercury.toml`; files are watched by the client where it can, else by the server (watching.py).
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

from lsprotocol import types

from mercury_lsp.features.folders import path_of
from mercury_lsp.features.session import Session
from mercury_lsp.languages import GRAMMARS
from mercury_lsp.settings import Source
from mercury_lsp.settings_files import FILE_NAME
from mercury_lsp.workspace.ignore import GIT_FILE, OWN_FILE
from mercury_lsp.workspace.watching import watch

logger = logging.getLogger(__name__)

SECTION = "mercury"
ANSWER_SECONDS = 5.0
"""A client that does not answer by then has nothing to say."""
RULES = (GIT_FILE, OWN_FILE)


def roots_of(params: types.InitializeParams) -> list[Path]:
    """The folders that the client opened."""
    uris = [folder.uri for folder in params.workspace_folders or ()]
    if not uris and params.root_uri:
        uris = [params.root_uri]
    if not uris and params.root_path:
        return [Path(params.root_path)]
    return [path for uri in uris if (path := path_of(uri)) is not None]


def configure(session: Session, roots: Sequence[Path] | None = None) -> None:
    """Applies the settings as they are known now; reports each problem once."""
    folders = session.folders
    before = session.settings
    problems = folders.configure(folders.roots if roots is None else roots, lambda root: _sources(session, root))
    session.settings = folders.settings
    session.setting_problems = [problem for problem in problems if problem not in session.reported]
    session.engine.configure(idle_seconds=60 * session.settings.model.idle_unload_minutes)
    after = session.settings.model
    changed = (before.model.name, before.model.device, before.model.cache_megabytes) != (
        after.name,
        after.device,
        after.cache_megabytes,
    )
    if (changed or before.remote != session.settings.remote) and session.engine.status.state != ("unloaded"):
        session.engine.reload()


def report_problems(session: Session) -> None:
    """Shows what is wrong in the settings, in one message."""
    if session.setting_problems:
        session.reported.update(session.setting_problems)
        session.announce("\n".join(session.setting_problems), types.MessageType.Warning)
        session.setting_problems = []


def _sources(session: Session, root: Path | None) -> list[Source]:
    asked = session.configuration.get(root, session.configuration.get(None))
    return [Source("", session.options), Source("", asked)]


def start(session: Session) -> None:
    """After `initialized`: registers what the client offers, asks for its settings, indexes, loads the model."""
    report_problems(session)
    session.send_status()
    _background(session, _start(session))


async def _start(session: Session) -> None:
    try:
        await _register(session)
        await _ask(session)
    finally:
        _settled(session)
        if session.settings.enabled and session.settings.model.preload:
            session.engine.start()


def did_change_configuration(session: Session, params: types.DidChangeConfigurationParams) -> None:
    """Asks for the settings where the client can be asked; else takes those that came along."""
    pushed: object = params.settings
    if _can_be_asked(session):
        _background(session, _ask_again(session))
    elif isinstance(pushed, dict) and SECTION in pushed:
        session.configuration = {None: pushed}
        configure(session)
        _settled(session)


def did_change_workspace_folders(session: Session, params: types.DidChangeWorkspaceFoldersParams) -> None:
    removed = {path_of(folder.uri) for folder in params.event.removed}
    added = [path for folder in params.event.added if (path := path_of(folder.uri)) is not None]
    configure(session, [root for root in session.folders.roots if root not in removed] + added)
    _settled(session)
    _background(session, _ask_again(session))


def did_change_watched_files(session: Session, params: types.DidChangeWatchedFilesParams) -> None:
    for change in params.changes:
        if change.type == types.FileChangeType.Deleted and session.documents.get(change.uri) is None:
            session.folders.ring.forget(change.uri)
    changed(session, [path for change in params.changes if (path := path_of(change.uri)) is not None])


def did_save(session: Session, params: types.DidSaveTextDocumentParams) -> None:
    """A saved file is a changed file, whether anybody watches or not."""
    session.folders.contexts.touch()
    path = path_of(params.text_document.uri)
    if path is not None:
        changed(session, [path])


def changed(session: Session, paths: Sequence[Path]) -> None:
    """These paths may be new, changed or gone."""
    names = {path.name for path in paths}
    if FILE_NAME in names:
        configure(session)
        _settled(session)
    if names.intersection(RULES):
        session.folders.ignore_files_changed()
    elif paths:
        session.folders.index.changed(paths)


def _settled(session: Session) -> None:
    """The settings may be others: what depends on them is brought up to date."""
    report_problems(session)
    session.send_status()
    session.folders.start_index()
    _watch(session)


def _watch(session: Session) -> None:
    if _client_watches(session.capabilities):
        return
    roots = session.folders.watched()
    known = [path for path, _ in roots]
    if known == session.watched:
        return
    if session.watching is not None:
        session.watching.cancel()
    session.watched, session.watching = known, None
    if roots:

        def warn(message: str) -> None:
            session.announce(message, types.MessageType.Warning)

        session.watching = _background(session, watch(roots, lambda paths: changed(session, paths), warn))


def _client_watches(capabilities: types.ClientCapabilities) -> bool:
    workspace = capabilities.workspace
    watched = workspace.did_change_watched_files if workspace else None
    return bool(watched and watched.dynamic_registration)


def _can_be_asked(session: Session) -> bool:
    workspace = session.capabilities.workspace
    return bool(workspace and workspace.configuration)


async def _register(session: Session) -> None:
    workspace = session.capabilities.workspace
    registrations: list[types.Registration] = []
    if _client_watches(session.capabilities):
        options = types.DidChangeWatchedFilesRegistrationOptions(
            watchers=[types.FileSystemWatcher(glob_pattern=pattern) for pattern in patterns()]
        )
        registrations.append(
            types.Registration("mercury-files", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, register_options=options)
        )
    if workspace and workspace.did_change_configuration and workspace.did_change_configuration.dynamic_registration:
        section = types.DidChangeConfigurationRegistrationOptions(section=SECTION)
        registrations.append(
            types.Registration("mercury-settings", types.WORKSPACE_DID_CHANGE_CONFIGURATION, register_options=section)
        )
    if registrations:
        await _answer(
            session.server.client_register_capability_async(types.RegistrationParams(registrations=registrations))
        )


def patterns() -> list[str]:
    """Globs of the files whose changes matter."""
    suffixes = sorted({suffix for row in GRAMMARS.values() if row.definitions for suffix in row.suffixes})
    return [f"**/*{{{','.join(suffixes)}}}", f"**/{{{','.join((*RULES, FILE_NAME))}}}"]


async def _ask_again(session: Session) -> None:
    await _ask(session)
    _settled(session)


async def _ask(session: Session) -> None:
    """Asks for the settings of each folder, and for those of none."""
    if not _can_be_asked(session):
        return
    places: list[Path | None] = [None, *session.folders.roots]
    items = [
        types.ConfigurationItem(section=SECTION, scope_uri=None if place is None else place.as_uri())
        for place in places
    ]
    found = await _answer(session.server.workspace_configuration_async(types.ConfigurationParams(items=items)))
    if isinstance(found, list | tuple) and len(found) == len(places):
        session.configuration = dict(zip(places, found, strict=True))
        configure(session)


async def _answer(question: Coroutine[Any, Any, Any] | Any) -> Any:
    """The client's answer; None when it refuses or keeps silent."""
    try:
        return await asyncio.wait_for(question, ANSWER_SECONDS)
    except Exception as error:
        logger.info("the client did not answer: %s", type(error).__name__)
        return None


def _background(session: Session, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
    task = asyncio.ensure_future(work)
    session.tasks.add(task)
    task.add_done_callback(lambda done: _done(session, done))
    return task


def _done(session: Session, task: "asyncio.Task[None]") -> None:
    session.tasks.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("background work failed: %s", type(error).__name__)
