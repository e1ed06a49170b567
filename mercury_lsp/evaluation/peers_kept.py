"""What a run of the peers report has measured, kept in a folder, so that the next run need not measure it again.

    FOLDER/rows.jsonl       answers to tasks, one a line
           PART.json        the other parts, each under the options it was measured with

It knows nothing about what the parts are.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mercury_lsp.errors import UsageError
from mercury_lsp.evaluation.humaneval import Row, RowFile


class Kept:
    """Without a folder everything lives as long as the run."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UsageError(f"cannot keep results in {folder}: {error.strerror}; name another folder") from error
        self._rows = RowFile(folder / "rows.jsonl") if folder is not None else None

    @property
    def rows(self) -> list[Row]:
        """Those that were there when the run began."""
        return self._rows.rows if self._rows is not None else []

    def keep(self, row: Row) -> None:
        if self._rows is not None:
            self._rows.append(row)

    def part(
        self, name: str, options: dict[str, Any], measure: Callable[[], Any], machine: Callable[[], str]
    ) -> tuple[Any, str]:
        """What `measure` gives (JSON values) and the machine it was measured on, from the folder if it is there."""
        path = self._folder / f"{name}.json" if self._folder is not None else None
        if path is not None and path.exists():
            try:
                known = json.loads(path.read_text(encoding="utf-8"))
                if known["options"] == options:
                    return known["found"], known["machine"]
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise UsageError(f"{path} is no part of a report: remove it, or give --resume a new folder") from error
        found = measure()
        on = machine()
        if path is not None:
            unfinished = path.with_suffix(".tmp")
            unfinished.write_text(json.dumps({"options": options, "machine": on, "found": found}), encoding="utf-8")
            unfinished.replace(path)
        return found, on
