"""Every method that the server answers: one row each. A new feature is a file beside this one and its row here."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lsprotocol import types

from mercury_lsp.features import (
    code_action,
    commands,
    completion,
    documents,
    inline_completion,
    lifecycle,
    next_edit,
    notebooks,
    rejection,
    working,
    workspace,
)
from mercury_lsp.features.session import Session


def always(_: types.ClientCapabilities) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Feature:
    """One method.

    handler: (session, params) -> answer; a coroutine function for requests, a plain one for notifications, which must
    be applied in order. options: what is advertised for the method, by the client's capabilities. wanted: whether it is
    offered to this client at all. otherwise: the answer when the handler fails because of a fault of ours, so that
    the user is not shown an error for it.
    """

    method: str
    handler: Callable[[Session, Any], Any]
    options: Callable[[types.ClientCapabilities], Any] | None = None
    wanted: Callable[[types.ClientCapabilities], bool] = always
    otherwise: Callable[[], Any] = lambda: None


FEATURES: tuple[Feature, ...] = (
    Feature(types.INITIALIZED, lifecycle.initialized),
    Feature(types.SHUTDOWN, lifecycle.shutdown),
    Feature(types.TEXT_DOCUMENT_DID_OPEN, documents.did_open),
    Feature(types.TEXT_DOCUMENT_DID_CHANGE, documents.did_change),
    Feature(types.TEXT_DOCUMENT_DID_CLOSE, documents.did_close),
    Feature(types.TEXT_DOCUMENT_DID_SAVE, workspace.did_save),
    Feature(types.NOTEBOOK_DOCUMENT_DID_OPEN, notebooks.did_open),
    Feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE, notebooks.did_change),
    Feature(types.NOTEBOOK_DOCUMENT_DID_SAVE, notebooks.did_save),
    Feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE, notebooks.did_close),
    Feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION, workspace.did_change_configuration),
    Feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS, workspace.did_change_workspace_folders),
    Feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES, workspace.did_change_watched_files),
    Feature(
        types.TEXT_DOCUMENT_INLINE_COMPLETION,
        inline_completion.inline_completion,
        options=inline_completion.options,
        otherwise=list,
    ),
    Feature(
        types.TEXT_DOCUMENT_COMPLETION,
        completion.completion,
        options=completion.options,
        wanted=completion.wanted,
        otherwise=lambda: types.CompletionList(is_incomplete=True, items=[]),
    ),
    Feature(types.TEXT_DOCUMENT_CODE_ACTION, code_action.code_action, options=code_action.options, otherwise=list),
    Feature(types.CODE_ACTION_RESOLVE, code_action.resolve),
    Feature(types.WORKSPACE_EXECUTE_COMMAND, commands.execute, options=commands.options),
    Feature(next_edit.METHOD, next_edit.answer, otherwise=next_edit.nothing),
    Feature(next_edit.ALIAS, next_edit.answer, otherwise=next_edit.nothing),
    Feature(next_edit.SHOWN, next_edit.shown),
    Feature(next_edit.REJECTED, rejection.rejected),
    Feature(types.WINDOW_WORK_DONE_PROGRESS_CANCEL, working.progress_cancelled),
)
