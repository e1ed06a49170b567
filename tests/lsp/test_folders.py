"""Roots, their settings and rules: what is ignored stays ignored while the settings are read anew."""

from collections.abc import Callable, Sequence
from pathlib import Path

from mercury_lsp.features.folders import Folders
from mercury_lsp.settings import Source


def test_there_is_no_moment_without_rules_while_the_settings_are_read(tmp_path: Path) -> None:
    """The model's thread may ask at any time: here, whenever the settings of a root are asked for."""
    roots = [tmp_path / name for name in ("one", "two")]
    for root in roots:
        root.mkdir()
        (root / ".mercuryignore").write_text("private/\n")
    hidden = [(root / "private" / "notes.py").as_uri() for root in roots]
    folders = Folders()
    folders.configure(roots, lambda root: [])
    for uri in hidden:
        folders.adopt(f"cell:{uri}", uri)
    seen: list[bool] = []

    def asking(answer: Callable[[Path | None], Sequence[Source]]) -> Callable[[Path | None], Sequence[Source]]:
        def sources(root: Path | None) -> Sequence[Source]:
            asked = (*hidden, *(f"cell:{uri}" for uri in hidden))
            seen.extend(folders.reason(uri) is not None and folders.locate(uri) is None for uri in asked)
            return answer(root)

        return sources

    folders.configure(roots, asking(lambda root: [Source("", {"mercury": {"enabled": True}})]))
    folders.configure(roots[::-1], asking(lambda root: []))
    assert len(seen) == 2 * 3 * 4
    assert all(seen)
    folders.close()
