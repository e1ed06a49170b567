"""What the audit of the pinned releases says of what pip-audit found."""

from typing import Any

import pytest

from tools.audit import main, verdict

GOOD: dict[str, Any] = {"name": "good", "version": "1.0", "vulns": []}
SKIPPED: dict[str, Any] = {"name": "absent", "skip_reason": "not found on the index"}
BAD: dict[str, Any] = {"name": "bad", "version": "2.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.1"]}]}

TABLE: list[tuple[list[dict[str, Any]], int, str]] = [
    ([GOOD], 0, "1 releases looked up, 0 with a known fault"),
    ([GOOD, SKIPPED], 0, "not looked up: absent"),
    ([GOOD, BAD], 1, "bad 2.0: PYSEC-1 (mended in 2.1)"),
    ([SKIPPED, BAD], 1, "bad 2.0: PYSEC-1 (mended in 2.1)"),
    ([SKIPPED], 2, "nothing was audited"),
    ([], 2, "nothing was audited"),
]


@pytest.mark.parametrize(("found", "status", "says"), TABLE)
def test_faults_fail_and_silence_is_not_taken_for_health(found: list[dict[str, Any]], status: int, says: str) -> None:
    ended, lines = verdict(found)
    assert ended == status
    assert any(line.startswith(says) for line in lines)


def test_without_an_answer_nothing_was_audited(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("true", "constraints.txt") == 2
    assert "nothing was audited" in capsys.readouterr().out
