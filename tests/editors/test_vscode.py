"""VS Code in Chromium with the packaged extension; what is checked stands in vscode.test.mjs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import IMAGES, ROOT, available, server_env
from install import chromium, code_server, node, node_env, tools, vsix

HERE = Path(__file__).parent


def test_vscode_with_the_packaged_extension() -> None:
    given = {
        "root": str(ROOT),
        "python": sys.executable,
        "vsix": str(available(vsix)),
        "entry": str(available(code_server)),
        "tools": str(available(tools)),
        "chromium": str(available(chromium)),
        "images": str(IMAGES) if "MERCURY_IMAGES" in os.environ else "",
        "env": server_env(),
    }
    done = subprocess.run(
        [str(available(node)), "--test", "--test-reporter=spec", str(HERE / "vscode.test.mjs")],
        env={**node_env(), "MERCURY_EDITOR_TEST": json.dumps(given)},
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
    )
    print(done.stdout[-8000:], done.stderr[-2000:])
    if done.returncode:
        pytest.fail("see the report above", pytrace=False)
