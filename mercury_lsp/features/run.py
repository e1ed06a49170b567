"""One run of the model for one cursor, which more than one request may wait for.

It knows how a request is built from a document and how a draft becomes an edit; nothing about the wire, pauses or
what the user typed since, but whether that agrees with what the model has written so far.
"""

import asyncio
import time
from dataclasses import replace

from mercury_lsp.edit import Edit, completion_edit
from mercury_lsp.engine import Engine
from mercury_lsp.features.frame import Frame
from mercury_lsp.features.store import document_key
from mercury_lsp.features.surroundings import Surroundings
from mercury_lsp.region import Budget, EditRegion, completion_region, request_for
from mercury_lsp.settings import Settings
from mercury_lsp.syntax import scope_at
from mercury_lsp.text import Document
from mercury_model.draft import Draft, Infiller, Request

LONGEST = 20_000
"""Characters; a model elsewhere may not keep to max_tokens, and editors have stumbled over less."""


class Run:
    """Submitted when it is made; the engine stops it when the document's next run begins, or is cancelled.

    frame: the document, and what the model reads for it.
    regions: the last region per document; read and written here, so that windows stay where they are while they fit.
    """

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        regions: dict[str, EditRegion],
        surroundings: Surroundings,
        frame: Frame,
        cursor: int,
    ) -> None:
        document = self.document = frame.document
        self._frame = frame
        self.cursor = cursor
        self._settings = settings
        self._regions = regions
        self._surroundings = surroundings
        self._region: EditRegion | None = None
        self._text = ""
        self._edit: Edit | None = None
        self._future = engine.submit(document_key(document.uri), self._prepare, self._drafted)

    def serves(self, document: Document, cursor: int) -> bool:
        """Whether this run may answer for `document`: its own text, or only what it has drafted was typed since."""
        if self._future.done() and (self._future.cancelled() or self._future.result() is None):
            return False
        old, new, start = self.document.text, document.text, self.cursor
        if cursor - start != len(new) - len(old) or not self._text.startswith(new[start:cursor]):
            return False
        return new[:start] == old[:start] and new[cursor:] == old[start:]

    async def edit(self) -> Edit | None:
        """The edit for this run's document, or None; raises CancelledError when the run was stopped.

        Cancelling the wait leaves the run alone: another request may want it.
        """
        draft = await asyncio.shield(asyncio.wrap_future(self._future))
        return self._edit if draft is not None else None

    def _drafted(self, draft: Draft) -> None:
        """In the engine's thread, whose parser holds the tree of this document already."""
        self._text = draft.text
        if draft.done and self._region is not None and len(draft.text) <= LONGEST:
            edit = completion_edit(self._region, draft.text, confidence=draft.confidence)
            self._edit = self._frame.inside(edit) if edit is not None else None

    def _prepare(self, infiller: Infiller) -> Request | None:
        """Builds the request in the engine's thread, where parsing and counting tokens hold nobody up."""
        inline, context = self._settings.inline, self._settings.context
        document, cursor = self._frame.whole, self._frame.offset + self.cursor
        off = {scope for scope, on in (("comment", inline.comments), ("string", inline.strings)) if not on}
        if off and scope_at(self.document, self.cursor) in off:  # parsing is most of what a key costs the server
            return None
        tokens = context.tokens or infiller.info.context_tokens
        suffix = int(tokens * context.suffix_share)
        share, count = int(tokens * min(context.share, 0.9 - context.suffix_share)), infiller.count_tokens
        key = document_key(document.uri)
        previous = self._regions.get(key)
        least = Budget(prefix=tokens - suffix - share, suffix=suffix)
        shown = self._surroundings.show(document, cursor, least, share, count, previous)
        budget = replace(least, prefix=tokens - suffix - shown.n_tokens)
        region = completion_region(document, cursor, budget, count, previous)
        if region is None:
            return None
        self._region = self._regions[key] = region
        return request_for(
            region,
            context=shown.snippets,
            path=shown.path,
            max_tokens=inline.max_tokens,
            policy=inline.policy,
            effort=inline.effort,
            deadline=time.monotonic() + inline.deadline_ms / 1000 if inline.deadline_ms else None,
        )
