"""Reads the .case files of tests/data: a buffer with a cursor mark, what a model wrote, the buffer after accept.

    style: tabs 4            optional: how the client wants new lines indented
    escapes: yes             optional: backslash escapes in the sections are resolved
    === before
    print(‸)
    === model
    a, b)
    === expect               or, where nothing is to be offered: === nothing
    print(a, b)

A section is its lines joined, without the newline before the next header.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from mercury_lsp.edit import Edit, completion_edit
from mercury_lsp.region import Budget, completion_region
from mercury_lsp.text import Document, IndentStyle

DATA = Path(__file__).parents[1] / "data"
MARK = "‸"


@dataclass(frozen=True)
class Case:
    """One data file. expect: the buffer after accepting, None where nothing is offered."""

    name: str
    language: str
    before: str
    model: str
    expect: str | None
    style: IndentStyle | None


def count_words(text: str) -> int:
    return len(re.findall(r"\w+|\W", text))


def read(path: Path) -> Case:
    head, *parts = re.split(r"(?m)^=== (\w+)\n", path.read_bytes().decode("utf-8"))
    options = dict(line.split(": ", 1) for line in head.splitlines())
    sections = {name: text.removesuffix("\n") for name, text in zip(parts[::2], parts[1::2], strict=True)}
    if options.get("escapes") == "yes":
        sections = {
            name: re.sub(r"\\(u[0-9a-f]{4}|U[0-9a-f]{8}|x[0-9a-f]{2}|[rf\\])", _unescape, text)
            for name, text in sections.items()
        }
    style = options.get("style", "").split()
    return Case(
        f"{path.parent.name}/{path.stem}",
        path.parent.name,
        sections["before"],
        sections["model"],
        sections.get("expect"),
        IndentStyle(style[0] == "tabs", int(style[1])) if style else None,
    )


def _unescape(match: re.Match[str]) -> str:
    return match.group().encode("ascii").decode("unicode_escape")


def cases(prefix: str) -> list[Case]:
    """All cases whose file name begins with `prefix`, such as A1_."""
    return [read(path) for path in sorted(DATA.glob(f"*/{prefix}*.case"))]


def offered(case: Case) -> tuple[Document, Edit | None]:
    """(the document, the edit that the case's model text leads to)."""
    document = Document("file:///case", 1, case.language, case.before.replace(MARK, ""))
    region = completion_region(document, case.before.index(MARK), Budget(800, 200), count_words)
    if region is None:
        return document, None
    return document, completion_edit(region, case.model, style=case.style)
