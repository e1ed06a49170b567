"""The troubleshooting page knows every line that doctor may print. It knows nothing about what they say."""

import ast
import re
from pathlib import Path

from mercury_lsp.cli import doctor

PAGE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"


def names() -> set[str]:
    """The first argument of every Finding in doctor's source."""
    calls = (node for node in ast.walk(ast.parse(Path(doctor.__file__).read_text())) if isinstance(node, ast.Call))
    findings = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Finding"]
    first = [call.args[0] for call in findings]
    assert findings and all(isinstance(name, ast.Constant) for name in first)
    return {str(name.value) for name in first if isinstance(name, ast.Constant)}


def test_every_finding_of_doctor_has_its_paragraph_and_no_other_has() -> None:
    assert set(re.findall(r"^### (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)) == names()
