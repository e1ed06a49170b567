"""Reads tests/data/faults: a file with one fault, what a linter says about it, and the right text."""

import json
from dataclasses import dataclass
from pathlib import Path

from mercury_lsp.actions import faults
from mercury_lsp.actions.remedies import Complaint
from mercury_lsp.actions.repair import Work
from mercury_lsp.actions.rewriting import Wish
from mercury_lsp.actions.tasks import TASKS
from mercury_lsp.text import Document, Span, language_of

DATA = Path(__file__).parents[1] / "data" / "faults"


@dataclass(frozen=True)
class Fault:
    """right: the texts that count as repaired; white space at line ends and blank lines do not count."""

    name: str
    document: Document
    complaint: Complaint
    right: tuple[str, ...]

    def work(self) -> Work:
        """The quick fix for the diagnostic."""
        return TASKS["mend"].work(Wish(self.document, self.complaint.span, complaint=self.complaint))

    def errors(self, text: str) -> int:
        """Syntax errors by tree-sitter and, for Python, by its own parser."""
        found = faults.count(text, self.document.language)
        assert found is not None
        return found.total

    def repaired(self, text: str) -> bool:
        return normal(text) in {normal(right) for right in self.right}


def normal(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())


def read(folder: Path) -> Fault:
    path = next(folder.glob("fault.*"))
    document = Document(path.as_uri(), 1, language_of(path.name) or "", path.read_text())
    (diagnostic,) = json.loads((folder / "diagnostics.json").read_text())
    ends = [
        document.line_span(diagnostic["range"][end]["line"]).start + diagnostic["range"][end]["character"]
        for end in ("start", "end")
    ]  # the files are ASCII: a unit is a character
    complaint = Complaint(Span(*ends), diagnostic["message"], diagnostic["code"], diagnostic["source"])
    return Fault(folder.name, document, complaint, tuple(p.read_text() for p in sorted(folder.glob("right*"))))


FAULTS = [read(folder) for folder in sorted(DATA.iterdir())]
