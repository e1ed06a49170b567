"""Emacs with eglot and the configuration of editors/README.md: a completion, and a code action."""

import subprocess
import sys
from pathlib import Path

from conftest import ROOT, available, server_env
from install import emacs

HERE = Path(__file__).parent


def test_eglot_completes_and_applies_a_quick_fix(tmp_path: Path) -> None:
    program = available(emacs)
    server = tmp_path / "mercury-lsp"
    environment = " ".join(f"{name}='{value}'" for name, value in server_env().items())
    server.write_text(
        f"#!/bin/sh\ncd {ROOT} && exec env {environment} {sys.executable} -m tests.editors.scripted_server\n"
    )
    server.chmod(0o755)
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
