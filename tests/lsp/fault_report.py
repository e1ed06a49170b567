"""Runs the quick fix on every fault of tests/data/faults with the embedded model and prints a Markdown table.

python -m tests.lsp.fault_report > docs/faults.md
"""

import sys
import time

from mercury_lsp.actions.rewriting import drive
from mercury_lsp.diffs import apply
from mercury_lsp.loading import load_infiller
from mercury_lsp.settings import Settings
from mercury_model.draft import Draft, Infiller, Request
from tests.lsp.faulty import FAULTS

HEAD = """\
# Quick fixes on planted faults

Twenty small files, each with one planted fault and the diagnostic that a usual linter or compiler publishes for it
(tests/data/faults). The quick fix of the diagnostic is asked for; "repaired" means that the result is the right text
(blank lines apart). Errors are those of tree-sitter and, for Python, of its own parser. "passes" are the model's
forward passes; 0 means that the grammar and the diagnostic's own words were enough. Made by
`python -m tests.lsp.fault_report`.

| fault | diagnostic | errors before | after | repaired | passes | seconds |
|---|---|---|---|---|---|---|"""


class Counted:
    """An Infiller that adds up its forward passes."""

    def __init__(self, infiller: Infiller) -> None:
        self.infiller = infiller
        self.forwards = 0.0
        self.info = infiller.info
        self.count_tokens = infiller.count_tokens

    def __call__(self, request: Request, /):  # type: ignore[no-untyped-def]
        last: Draft | None = None
        for last in self.infiller(request):
            yield last
        self.forwards += last.forwards if last is not None else 0


def main() -> int:
    infiller = Counted(load_infiller(Settings(), lambda message, fraction: None))
    print(HEAD)
    repaired = worse = 0
    for fault in FAULTS:
        infiller.forwards, started = 0.0, time.monotonic()
        hunk = drive(fault.work(), lambda: infiller)
        text = apply(fault.document.text, (hunk,)) if hunk is not None else fault.document.text
        seconds = time.monotonic() - started
        before, after, right = fault.errors(fault.document.text), fault.errors(text), fault.repaired(text)
        repaired, worse = repaired + right, worse + (after > before)
        said = " ".join(fault.complaint.message.split()).replace("|", "\\|")
        answer = "yes" if right else "no" if hunk is not None else "nothing offered"
        print(f"| {fault.name} | {said} | {before} | {after} | {answer} | {infiller.forwards:.0f} | {seconds:.1f} |")
        if not right:
            print(f"{fault.name}: {hunk.new_text if hunk is not None else None!r}", file=sys.stderr)
    print(f"\nRepaired: {repaired} of {len(FAULTS)}. More errors than before: {worse}. Model: {infiller.info.name}.")
    return int(worse > 0)


if __name__ == "__main__":
    sys.exit(main())
