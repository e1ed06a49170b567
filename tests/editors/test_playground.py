"""The playground page in Chromium: over a scripted model, and over the embedded one."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from conftest import IMAGES, available
from install import chromium, node, tools

from mercury_lsp.api.app import Options
from mercury_model import load
from mercury_model.draft import Infiller, Request
from tests.api.serving import serving
from tests.fakes import FakeInfiller

HERE = Path(__file__).parent


def run(model: Infiller, sample: int, *, masks: bool, pictures: bool = False) -> None:
    """sample: which of the page's is run. masks: slots stay masked long enough to be seen."""
    given = {
        "chromium": str(available(chromium)),
        "tools": str(available(tools)),
        "images": str(IMAGES) if pictures and "MERCURY_IMAGES" in os.environ else "",
        "sample": sample,
        "masks": masks,
    }
    program = available(node)
    with serving(model, Options(name=model.info.name)) as (url, pool):
        pool.start()
        env = {**os.environ, "MERCURY_EDITOR_TEST": json.dumps(given | {"url": url})}
        done = subprocess.run([program, "--test", HERE / "playground.mjs"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_shows_a_run_of_a_scripted_model() -> None:
    def script(request: Request) -> str:
        return "for word in words:\n    print(word)\n" * 6

    run(FakeInfiller(script, delay=0.1, per_step=8), 0, masks=True)


@pytest.mark.real
def test_the_page_shows_a_run_of_the_embedded_model(weights: None) -> None:
    # `check` has a proposal for every slot of a block after one pass
    run(load(device="cpu"), 0, masks=False, pictures=True)
