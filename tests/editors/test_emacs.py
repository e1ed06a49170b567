"""Emacs with eglot and the configuration of editors/README.md: a completion, and a code action."""

import subprocess
from pathlib import Path

from conftest import available, scripted_server
from install import emacs

HERE = Path(__file__).parent


def test_eglot_completes_and_applies_a_quick_fix(tmp_path: Path) -> None:
    program = available(emacs)
    server = scripted_server(tmp_path)
    file = tmp_path / "example.py"
    file.write_text("# fix\ndef total(values)\n    return sum(values)\n")
    done = subprocess.run(
        [str(program), "--batch", "-l", str(HERE / "eglot.el"), str(server), str(file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert "candidates (" in done.stdout, done.stdout + done.stderr
    assert "def total(values):\n" in done.stdout, done.stdout + done.stderr
