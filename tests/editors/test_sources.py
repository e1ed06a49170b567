"""The editors' own sources: formatted, linted, typed, and in step with the server's settings."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT, available
from install import UnavailableError, luacheck, npm, stylua, vsix

NVIM = ROOT / "editors" / "nvim"
VSCODE = ROOT / "editors" / "vscode"


def run(*command: str | Path, cwd: Path) -> None:
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_lua_is_formatted() -> None:
    run(available(stylua), "--check", ".", cwd=NVIM)


def test_lua_is_linted() -> None:
    run(available(luacheck), "--quiet", ".", cwd=NVIM)


def test_typescript_is_strict_and_linted() -> None:
    available(vsix)
    try:
        npm("run", "check", cwd=VSCODE)
    except UnavailableError as error:
        pytest.fail(str(error))


def test_the_extension_finds_installs_and_starts_its_server() -> None:
    available(vsix)
    try:
        npm("test", cwd=VSCODE)
    except UnavailableError as error:
        pytest.fail(str(error))


def test_the_extension_is_small_and_uses_no_proposed_interface() -> None:
    with zipfile.ZipFile(available(vsix)) as packed:
        assert packed.getinfo("extension/dist/extension.js").file_size <= 1.5 * 1024 * 1024
        manifest = json.loads(packed.read("extension/package.json"))
    assert "enabledApiProposals" not in manifest


def test_the_settings_of_the_extension_are_those_of_the_server() -> None:
    run(sys.executable, VSCODE / "scripts" / "manifest.py", "--check", cwd=ROOT)
