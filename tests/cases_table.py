"""Writes docs/cases.md, which test holds which of the acceptance cases: `python -m tests.cases_table`.

A test says by its name what it is for (`test_A1_D2_...`), a file of data too (`A1_....case`), and so do the tests of
editors in JavaScript (`test("... (G1)"`). With `--check` it only says whether the page is current. It knows nothing
about whether the tests pass.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "cases.md"

CASES: dict[str, str] = {
    "A1": "a closer or quote right of the cursor is covered, not doubled",
    "A2": "a closer or quote that is needed is not cut off",
    "A3": "something is offered inside an empty pair",
    "A4": "what follows the cursor is not repeated",
    "A5": "the rest of the line survives",
    "A6": "a partial accept repeats nothing that was typed",
    "A7": "an outer, unfinished block is not balanced by deleting code",
    "B1": "no special token, mask, fence or chat marker reaches the buffer",
    "B2": "an answer without an edit changes nothing",
    "B3": "copies of the surrounding text are dropped",
    "B4": "what was rejected is not offered again at the same spot",
    "C1": "indentation as the editor, .editorconfig or the file has it",
    "C2": "no stray space before a line",
    "C3": "lines keep their indentation relative to each other",
    "C4": "a next edit does not shift when indentation changed meanwhile",
    "C5": "Tab indents where nothing is shown or in leading white space",
    "C6": "Tab in a snippet goes to the next stop",
    "D1": "`\\n` on the wire, a CRLF file stays CRLF",
    "D2": "form feed, VT and U+2028 shift no position",
    "D3": "an empty file and one without a last newline",
    "E1": "offsets are right in utf-8, utf-16 and utf-32",
    "E2": "no range past the end of a line or buffer",
    "E3": "lone surrogates and broken UTF-8 break nothing",
    "E4": "quiet while an input method composes",
    "F1": "ghost text continues the selected entry of a menu or is not there",
    "F2": "ghost text goes with insert mode, the buffer and Esc",
    "F3": "typing what is suggested keeps it on the screen",
    "F4": "a next edit is drawn at its line and covers no code",
    "F5": "one Esc dismisses, and insert mode can be left",
    "F6": "pause, snooze and disable hold at once and everywhere",
    "G1": "one accept is one step of undo",
    "G2": "the dot repeats what was accepted",
    "G3": "words and lines can be accepted one by one",
    "G4": "several cursors: nothing is suggested",
    "G5": "what was undone is not suggested at once",
    "G6": "an edit that fails loses no text",
    "H1": "typing and accepting fast leaves exactly the text",
    "H2": "an answer for older text is moved along or dropped",
    "H3": "odd versions and changes before didOpen are tolerated",
    "H4": "one run per document; a burst of keys is few runs",
    "H5": "a cancelled request frees the model within a step",
    "I1": "large files: a window, and a limit with its reason",
    "I2": "a slow model blocks no other answer",
    "I3": "code actions at every move of the cursor are cheap",
    "I4": "idle is 0% CPU, and the model is unloaded",
    "I5": "memory stays over thousands of requests",
    "I6": "several windows can share one engine",
    "I7": "an endless text does not reach the client",
    "I8": "initialize is answered while the model loads",
    "J1": "the server leaves with its client",
    "J2": "bad settings degrade, they do not crash",
    "J3": "errors are told once",
    "J4": "a wrong setting is named",
    "J5": "a stray print cannot break the protocol",
    "K1": "watches are bounded and leave generated folders out",
    "K2": "a full watch table is one warning with the remedy",
    "K3": "polling where the system reports nothing",
    "L1": "secrets are in no prompt, ring, index or diff",
    "L2": "the user's globs add to the built-in ones",
    "L3": "an example file can be allowed again",
    "L4": "logs hold no source text",
    "L5": "ignore files hold in each root, and for indirect ways",
    "M1": "comments, strings and prose can be switched off",
    "M2": "next edits by keyboard alone, with a mark in the gutter",
    "M3": "the light bulb is lit for a reason only",
    "N1": "cells: earlier ones are context, edits stay inside",
    "N2": "notebooks are advertised where they work",
    "O1": "untitled buffers are served from memory",
    "O2": "other schemes are left alone",
    "O3": "buffers that were open before, or come again",
    "O4": "renames, and a missing didClose",
    "O5": "several roots: each with its settings and rules",
    "O6": "the engine's address is a setting, IPv6 or not",
    "P1": "system certificates and proxies; a clear message",
    "P2": "with weights on disk nothing is fetched",
    "P3": "a download shows its size and progress and goes on where it stopped",
}

EDITORS: dict[str, str] = {
    "C5": "the key map is the editor's",
    "C6": "snippets are the editor's",
    "E4": "no client tells a server about composing; an editor asks when it is over",
    "F2": "when ghost text is drawn is the editor's decision",
    "F4": "where an edit is drawn is the editor's decision",
    "F5": "the key map is the editor's",
    "G1": "undo is the editor's",
    "G2": "repeating is the editor's",
    "G3": "the server gives the whole, the editor takes parts",
    "G4": "a request has one cursor",
    "H1": "the buffer is the editor's",
    "M2": "keys and gutter are the editor's",
}
"""What only an editor's plugin can satisfy, and why. tests/editors has a test where it can be tested."""

_PYTHON = re.compile(r"(?m)^\s*(?:async )?def test_((?:[A-P]\d_)+)(\w+)\(")
_SCRIPT = re.compile(r'(?m)^test\("([^"]*?) \(([A-P]\d(?:, [A-P]\d)*)\)"')
_DATA = re.compile(r"(?:[A-P]\d_)+")


def named() -> dict[str, list[str]]:
    """Case -> the tests that name it, as `path: name`, data as the number of files."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        name = path.relative_to(ROOT).as_posix()
        for ids, rest in dict.fromkeys(_PYTHON.findall(path.read_text(encoding="utf-8"))):
            for case in ids.strip("_").split("_"):
                found[case].append(f"`{name}::test_{ids}{rest}`")
    for path in sorted((ROOT / "tests" / "editors").glob("*.mjs")):
        for title, ids in _SCRIPT.findall(path.read_text(encoding="utf-8")):
            for case in ids.split(", "):
                found[case].append(f"`{path.relative_to(ROOT).as_posix()}`: {title}")
    counts: dict[str, int] = defaultdict(int)
    for path in (ROOT / "tests" / "data").glob("*/*.case"):
        ids = _DATA.match(path.name)
        for case in ids.group().strip("_").split("_") if ids else ():
            counts[case] += 1
    for case, count in sorted(counts.items()):
        found[case].append(f"`tests/data/*/{case}_*.case`: {count} file{'s' * (count > 1)}")
    return found


def page() -> str:
    """The text of docs/cases.md."""
    found = named()
    lines = [
        "# Cases",
        "",
        "<!-- written by `python -m tests.cases_table`; name a test after its case instead -->",
        "",
        "What users of completion tools complained about, and the tests that hold it here. A case marked *editor* can "
        "only be",
        "satisfied by an editor's plugin; its tests run with `make test-editors`.",
        "",
        "| case | what holds | tests |",
        "|---|---|---|",
    ]
    for case, text in CASES.items():
        mark = f" *editor: {EDITORS[case]}*" if case in EDITORS else ""
        lines.append(f"| {case} | {text}{mark} | {'<br>'.join(found.get(case, ['none']))} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    if "--check" in sys.argv[1:]:
        current = PAGE.exists() and PAGE.read_text(encoding="utf-8") == page()
        print("current" if current else "not current: run python -m tests.cases_table")
        return 0 if current else 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
