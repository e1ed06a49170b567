"""Complete a file at a position and print the text.

Lines and columns count from 1, columns in characters. Nothing is written to the file. --json prints one object;
--watch draws the canvas while it fills and then the completed lines of the file.
"""

import argparse
import json
import re
import sys
import time
import typing
from pathlib import Path
from typing import Any

from mercury_lsp import loading
from mercury_lsp.cli.progress import progress
from mercury_lsp.edit import Edit, completion_edit
from mercury_lsp.errors import UsageError
from mercury_lsp.region import Budget, EditRegion, completion_region, request_for
from mercury_lsp.settings import Settings
from mercury_lsp.text import Document, language_of
from mercury_model.draft import AUTO, Draft, Effort, Infiller, Request
from mercury_model.policy import policy_named


def add_arguments(parser: argparse.ArgumentParser) -> None:
    inline = Settings().inline
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--at", required=True, metavar="LINE:COL", help="where to complete, counted from 1")
    parser.add_argument("--json", action="store_true", help="print one JSON object: text, range, forwards, ms ...")
    parser.add_argument("--watch", action="store_true", help="draw the canvas step by step")
    parser.add_argument("--policy", default=inline.policy, help="how slots become visible (default: %(default)s)")
    parser.add_argument("--effort", choices=typing.get_args(Effort), default=inline.effort, help="default: %(default)s")
    parser.add_argument(
        "--max-tokens", type=positive, default=inline.max_tokens, metavar="N", help="default: %(default)s"
    )


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def run(args: argparse.Namespace) -> int:
    started = time.monotonic()
    document = read_document(args.file)
    cursor = offset_at(document, args.at, args.file)
    if args.policy != AUTO:
        policy_named(args.policy)  # a wrong name is told before the model is loaded
    settings = Settings()
    with progress(quiet=args.json and not args.watch) as report:
        infiller = loading.load_infiller(settings, report)
    loaded = time.monotonic()
    region, request = prepare(document, cursor, infiller, settings, args)
    drafts: list[Draft] = []
    edit = None
    if region is not None and request is not None:
        edit = draw(region, infiller, request, args, drafts)
    if edit is None:
        print("mercury-lsp: nothing to offer at this position", file=sys.stderr)
    elif not args.json and not args.watch:
        sys.stdout.write(edit.new_text if edit.new_text.endswith("\n") else edit.new_text + "\n")
    if args.json:
        ms = drafts[-1].ms if drafts else {}
        times = {
            "load": (loaded - started) * 1000,
            "prefill": ms.get("prefill", 0.0),
            "decode": ms.get("decode", 0.0),
            "total": (time.monotonic() - started) * 1000,
        }
        print(json.dumps(answer(document, cursor, edit, drafts, infiller, args, times), ensure_ascii=False))
    return 0


def read_document(path: Path) -> Document:
    """Raises UsageError if there is no such text."""
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start}): convert it first") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    return Document(path.absolute().as_uri(), None, language_of(str(path)) or "", text)


def offset_at(document: Document, at: str, path: Path) -> int:
    """LINE:COL, both from 1, as an offset. Raises UsageError for a place that is not in the file."""
    if not (match := re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})", at)):
        raise UsageError(f"--at takes LINE:COL, for example 12:5, not {at!r}")
    line, column = int(match[1]), int(match[2])
    if not 1 <= line <= document.n_lines:
        raise UsageError(f"{path} has the lines 1 to {document.n_lines}, not {line}")
    span = document.line_span(line - 1)
    if not 1 <= column <= len(span) + 1:
        raise UsageError(f"line {line} of {path} has the columns 1 to {len(span) + 1}, not {column}")
    return span.start + column - 1


def prepare(
    document: Document, cursor: int, infiller: Infiller, settings: Settings, args: argparse.Namespace
) -> tuple[EditRegion | None, Request | None]:
    """The region at the cursor and what the model is asked: (None, None) where nothing should be offered."""
    tokens = settings.context.tokens or infiller.info.context_tokens
    suffix = int(tokens * settings.context.suffix_share)
    region = completion_region(document, cursor, Budget(tokens - suffix, suffix), infiller.count_tokens)
    if region is None:
        return None, None
    return region, request_for(region, policy=args.policy, effort=args.effort, max_tokens=args.max_tokens)


def draw(
    region: EditRegion, infiller: Infiller, request: Request, args: argparse.Namespace, drafts: list[Draft]
) -> Edit | None:
    """Run the model; `drafts` receives every pass. The edit of the last draft, None if it cannot be used."""
    if not args.watch:
        drafts.extend(infiller(request))
        return usable(region, drafts)
    from rich.console import Console  # late: only people who watch wait for rich

    from mercury_lsp.cli import canvas_view

    console = Console(stderr=args.json, highlight=False)
    with canvas_view.watching(region, console) as show:
        for draft in infiller(request):
            drafts.append(draft)
            show(draft)
    edit = usable(region, drafts)
    if edit is not None and console.is_terminal:
        console.print(canvas_view.result(region, edit, drafts[-1], console.width))
    elif edit is not None:
        for line in (*canvas_view.completed(region, edit), canvas_view.footer(drafts[-1])):
            console.out(line, highlight=False)
    return edit


def usable(region: EditRegion, drafts: list[Draft]) -> Edit | None:
    if not drafts:
        return None
    return completion_edit(region, drafts[-1].text, confidence=drafts[-1].confidence)


def answer(
    document: Document,
    cursor: int,
    edit: Edit | None,
    drafts: list[Draft],
    infiller: Infiller,
    args: argparse.Namespace,
    ms: dict[str, float],
) -> dict[str, Any]:
    """The JSON object. range is what `text` replaces; without an edit it is empty and `valid` is null."""
    start, end = (edit.span.start, edit.span.end) if edit else (cursor, cursor)
    last = drafts[-1] if drafts else Draft("")
    return {
        "text": edit.new_text if edit else "",
        "range": {"start": position(document, start), "end": position(document, end)},
        "language": document.language,
        "model": infiller.info.name,
        "policy": args.policy if args.policy != AUTO else infiller.info.policy,
        "effort": args.effort,
        "valid": edit.valid if edit else None,
        "confidence": last.confidence,
        "tokens": last.n_tokens,
        "forwards": last.forwards,
        "steps": [draft.text for draft in drafts],
        "ms": {name: round(value, 1) for name, value in ms.items()},
    }


def position(document: Document, offset: int) -> dict[str, int]:
    line = document.line_of(offset)
    return {"line": line + 1, "column": offset - document.line_span(line).start + 1}
