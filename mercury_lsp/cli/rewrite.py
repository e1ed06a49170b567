"""Rewrite lines of a file and print a unified diff that `git apply` takes.

Lines count from 1. With --instruction the model is told what to do; without it it changes what it doubts. Nothing is
written to the file; with nothing to change nothing is printed, and the exit status is 0.
"""

import argparse
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

from mercury_lsp import loading
from mercury_lsp.actions import faults
from mercury_lsp.actions.repair import Work
from mercury_lsp.actions.rewriting import Wish, drive, edits
from mercury_lsp.actions.tasks import TASKS
from mercury_lsp.cli.complete import read_document
from mercury_lsp.cli.progress import progress
from mercury_lsp.diffs import Hunk, unified_diff
from mercury_lsp.errors import UsageError
from mercury_lsp.settings import Settings
from mercury_lsp.text import Document, Span
from mercury_model.draft import Draft, Infiller


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--lines", required=True, metavar="A-B", help="the first and last line, counted from 1")
    parser.add_argument("--instruction", default="", metavar="TEXT", help="what to do with them")
    parser.add_argument("--json", action="store_true", help="print one JSON object: diff, errors, ms ...")


def run(args: argparse.Namespace) -> int:
    document = read_document(args.file)
    wish = Wish(document, lines_span(document, args.lines, args.file), instruction=args.instruction.strip())
    return answer(args.file, document, TASKS["rewrite"].work(wish), as_json=args.json)


def lines_span(document: Document, lines: str, path: Path) -> Span:
    """A-B (or one line A), from 1, as a span. Raises UsageError for lines that are not in the file or empty."""
    if not (match := re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", lines)):
        raise UsageError(f"--lines takes A-B, for example 3-7, not {lines!r}")
    first, last = int(match[1]), int(match[2] or match[1])
    if not 1 <= first <= last <= document.n_lines:
        raise UsageError(f"{path} has the lines 1 to {document.n_lines}, not {first}-{last}")
    span = Span(document.line_span(first - 1).start, document.line_span(last - 1).end)
    if not span.of(document.text).strip():
        raise UsageError(f"there is nothing to rewrite in lines {first}-{last} of {path}")
    return span


class Lazy:
    """Loads the model when a task first asks it something: many do not."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self.infiller: Infiller | None = None
        self.load_ms = 0.0
        self.forwards = 0.0

    def __call__(self) -> Infiller:
        if self.infiller is None:
            started = time.monotonic()
            with progress(quiet=self.quiet) as report:
                self.infiller = loading.load_infiller(Settings(), report)
            self.load_ms = 1000 * (time.monotonic() - started)
        return self.infiller


def answer(path: Path, document: Document, work: Work, *, as_json: bool) -> int:
    """Does the work and prints its diff; the exit status."""
    started = time.monotonic()
    lazy = Lazy(quiet=as_json)

    def on_draft(draft: Draft) -> None:
        if draft.done:
            lazy.forwards += draft.forwards

    hunk = drive(work, lazy, on_draft)
    new_text = changed(document, hunk)
    diff = unified_diff(diff_path(path), document.text, new_text)
    if not diff:
        print("mercury-lsp: nothing to change", file=sys.stderr)
    ms = {"load": lazy.load_ms, "total": 1000 * (time.monotonic() - started)}
    if as_json:
        before, after = (faults.count(text, document.language) for text in (document.text, new_text))
        found: dict[str, Any] = {
            "file": str(path),
            "changed": bool(diff),
            "diff": diff,
            "language": document.language,
            "model": lazy.infiller.info.name if lazy.infiller is not None else None,
            "errors": {"before": before.total, "after": after.total} if before and after else None,
            "forwards": lazy.forwards,
            "ms": {name: round(value, 1) for name, value in ms.items()},
        }
        print(json.dumps(found, ensure_ascii=False))
    elif diff:
        sys.stdout.flush()
        sys.stdout.buffer.write(diff.encode())  # as it is: a `\r` before a `\n` must arrive
    return 0


def changed(document: Document, hunk: Hunk | None) -> str:
    """The whole text after a hunk, line ends as the document has them."""
    text = document.text
    for edit in reversed(edits(document, hunk)) if hunk is not None else ():
        text = text[: edit.span.start] + edit.new_text + text[edit.span.end :]
    return text


def diff_path(path: Path) -> str:
    """The path as `git apply` looks for it: from the current folder, else from the file's repository or folder."""
    whole = Path(os.path.abspath(path))  # noqa: PTH100 (resolve() would follow a link out of the repository)
    here = Path.cwd()
    if whole.is_relative_to(here):
        return whole.relative_to(here).as_posix()
    root = next((folder for folder in whole.parents if (folder / ".git").exists()), whole.parent)
    return whole.relative_to(root).as_posix()
