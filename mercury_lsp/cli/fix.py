"""Repair the syntax errors of a file and print a unified diff that `git apply` takes.

Most repairs are found by the grammar; the model is loaded only where several are equally likely or none is found.
Nothing is written to the file; with nothing to repair nothing is printed, and the exit status is 0.
"""

import argparse
from pathlib import Path

from mercury_lsp.actions import faults
from mercury_lsp.actions.rewriting import Wish
from mercury_lsp.actions.tasks import TASKS
from mercury_lsp.cli.complete import read_document
from mercury_lsp.cli.rewrite import answer
from mercury_lsp.errors import UsageError
from mercury_lsp.languages import GRAMMARS
from mercury_lsp.text import Span


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--json", action="store_true", help="print one JSON object: diff, errors, ms ...")


def run(args: argparse.Namespace) -> int:
    document = read_document(args.file)
    if faults.count(document.text, document.language) is None:
        raise UsageError(f"the language of {args.file} is not known by its name: {', '.join(GRAMMARS)} can be repaired")
    return answer(args.file, document, TASKS["repair_all"].work(Wish(document, Span(0, 0))), as_json=args.json)
