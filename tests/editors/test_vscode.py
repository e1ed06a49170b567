"""VS Code in Chromium with the packaged extension; what is checked stands in the files vscode*.test.mjs, of which each
starts a VS Code of its own. The proposed API is closed, as in the VS Code that people have.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import IMAGES, ROOT, available, server_env
from install import chromium, code_server, node, node_env, tools, vsix

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def given() -> str:
    """What the tests are told, as JSON; the extension is packaged for it once."""
    return json.dumps(
        {
            "root": str(ROOT),
            "python": sys.executable,
            "vsix": str(available(vsix)),
            "entry": str(available(code_server)),
            "tools": str(available(tools)),
            "chromium": str(available(chromium)),
            "images": str(IMAGES) if "MERCURY_IMAGES" in os.environ else "",
            "env": server_env(),
        }
    )


def run(name: str, given: str) -> None:
    done = subprocess.run(
        [str(available(node)), "--test", "--test-reporter=spec", str(HERE / name)],
        env={**node_env(), "MERCURY_EDITOR_TEST": given},
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
    )
    print(done.stdout[-8000:], done.stderr[-2000:])
    if done.returncode:
        pytest.fail("see the report above", pytrace=False)


@pytest.mark.parametrize("name", ["vscode", "vscode_next_edit", "vscode_start"])
def test_vscode_with_the_packaged_extension(name: str, given: str) -> None:
    run(f"{name}.test.mjs", given)


@pytest.mark.real
def test_vscode_with_the_embedded_model(given: str, weights: None) -> None:
    run("vscode_real.test.mjs", given)
