"""What a run of the model is shown of other places: context.py fed from the session, at most as often as
context_cache.py says. Called in the model's thread.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mercury_lsp.features.folders import Folders
from mercury_lsp.features.store import Documents, document_key
from mercury_lsp.region import Budget, CountTokens, EditRegion, completion_region
from mercury_lsp.text import Document, Span
from mercury_lsp.workspace.context import Diagnostic, gather, size
from mercury_model.draft import Snippet

Snippets = tuple[Snippet, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """snippets: the pieces, n_tokens: what they take of the prompt, path: of the document itself in its folder."""

    snippets: Snippets = ()
    n_tokens: int = 0
    path: str = ""


class Surroundings:
    """The context of each document of a session, and the diagnostics others published, as far as they are known."""

    def __init__(self, folders: Folders, documents: Documents) -> None:
        self._diagnostics: dict[str, tuple[Diagnostic, ...]] = {}
        self._folders = folders
        self._documents = documents
        self._sizes: dict[str, tuple[Snippets, int]] = {}

    def forget(self, uri: str) -> None:
        """Drops what is kept about a document."""
        key = document_key(uri)
        self._diagnostics.pop(key, None)
        self._sizes.pop(key, None)
        self._folders.contexts.forget(key)

    def told(self, document: Document, diagnostics: Sequence[tuple[Span, str]]) -> None:
        """What others have to say about a place in a document, in the place of what they said before."""
        found = tuple(Diagnostic(span, message) for span, message in diagnostics)
        key = document_key(document.uri)
        if found:
            self._diagnostics[key] = found
        else:
            self._diagnostics.pop(key, None)

    def show(
        self,
        document: Document,
        cursor: int,
        budget: Budget,
        share: int,
        count_tokens: CountTokens,
        previous: EditRegion | None,
    ) -> Shown:
        """At most `share` tokens about other places; budget: of the windows beside them; previous: the last region."""
        located = self._folders.locate(document.uri)
        if located is None:
            return Shown()
        if share <= 0:
            return Shown(path=located[1])
        key = document_key(document.uri)

        def look(kept: Snippets) -> Snippets:
            region = completion_region(document, cursor, budget, count_tokens, previous)
            return () if region is None else self._gather(document, region, share, count_tokens, kept)

        pause = self._folders.settings_of(document.uri).context.refresh_seconds
        snippets = self._folders.contexts.get(key, document.line_of(cursor), pause, look)
        known = self._sizes.get(key)
        if known is None or known[0] is not snippets:
            known = self._sizes[key] = (snippets, size(snippets, count_tokens))
        return Shown(snippets, known[1], located[1])

    def _gather(
        self, document: Document, region: EditRegion, share: int, count_tokens: CountTokens, kept: Snippets
    ) -> Snippets:
        folders = self._folders

        def is_cell(uri: str) -> bool:  # of this notebook: it stands in the document's text already
            owner = folders.owner(uri)
            return owner != uri and document_key(owner) == document_key(document.uri)

        others = [
            other
            for other in self._documents.all()
            if not is_cell(other.uri) and not folders.reason(other.uri, other.language)
        ]
        opened = {document_key(other.uri) for other in others}
        edits = [edit for edit in folders.ring.edits() if not is_cell(edit.uri)]
        for uri in {edit.uri for edit in edits if document_key(edit.uri) not in opened and folders.gone(edit.uri)}:
            folders.ring.forget(uri)  # renamed or deleted: the text may be a secret's by now
        return gather(
            document,
            region,
            folders.index.lookup,
            [edit for edit in edits if document_key(edit.uri) in opened or not folders.gone(edit.uri)],
            others,
            self._diagnostics.get(document_key(document.uri), ()),
            share,
            count_tokens,
            locate=folders.locate,
            kept=kept,
        )
