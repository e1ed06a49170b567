"""What is done about an editor that cannot be installed, or not in the time there is."""

import os
import time
from pathlib import Path

import install
import pytest


def test_without_time_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(install, "DEADLINE", time.monotonic())
    with pytest.raises(install.UnavailableError, match="MERCURY_EDITORS_SECONDS"):
        install.run("touch", tmp_path / "fetched", fetches=True)
    assert not (tmp_path / "fetched").exists()
    install.run("touch", tmp_path / "made")
    assert (tmp_path / "made").exists()


def is_alive(pid: int) -> bool:
    """Whether a process is more than an entry that its parent has not looked at yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_what_takes_too_long_is_ended_with_all_that_it_has_started(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    script = f"sleep 600 & echo $! >{tmp_path}/child; echo >{tmp_path}/pipe; wait"
    with pytest.raises(install.UnavailableError, match="longer than"):
        install.run("sh", "-c", f"({script}) & cat {tmp_path}/pipe; wait", seconds=5)
    child = int((tmp_path / "child").read_text())
    end = time.monotonic() + 60
    while is_alive(child):  # a signal takes its time
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_failure_is_told_by_its_last_line() -> None:
    with pytest.raises(install.UnavailableError, match="no such editor"):
        install.run("sh", "-c", "echo first >&2; echo no such editor >&2; exit 3")
