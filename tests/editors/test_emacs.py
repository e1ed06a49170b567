"""Emacs with eglot and with lsp-mode, in the configuration of editors/README.md: a completion, and a code action."""

import subprocess
from pathlib import Path

import pytest
from conftest import available, scripted_server
from install import emacs

HERE = Path(__file__).parent


@pytest.mark.parametrize("client", ["eglot", "lsp-mode"])
def test_emacs_completes_and_applies_a_quick_fix(client: str, tmp_path: Path) -> None:
    program = available(lambda: emacs(client))
    server = scripted_server(tmp_path)
    file = tmp_path / "example.py"
    file.write_text("# fix\ndef total(values)\n    return sum(values)\n")
    done = subprocess.run(
        [str(program), "--batch", "-l", str(HERE / f"{client}.el"), str(server), str(file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert "candidates (" in done.stdout, done.stdout + done.stderr
    assert "def total(values):\n" in done.stdout, done.stdout + done.stderr
