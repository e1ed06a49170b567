"""The language server as a process, its model elsewhere: over our own API, and refused without consent."""

import sys

import pytest

from mercury_lsp.api.app import Options
from tests.api.serving import serving
from tests.fakes import FakeInfiller
from tests.lsp import editor
from tests.lsp.editor import editing


@pytest.fixture(autouse=True)
def real_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(editor, "SERVER", [sys.executable, "-m", "mercury_lsp", "serve", "--stdio"])


async def test_the_language_server_completes_with_a_model_behind_our_api() -> None:
    fake = FakeInfiller("1 + 2")
    with serving(fake, Options(name="fake")) as (url, _):
        options = {"model": {"name": f"{url}/v1/fim/completions"}}
        async with editing(options=options) as client:
            client.open("x = ‸\ny = 3\n")
            (item,) = await client.ask()
            assert item.insert_text == "1 + 2"
            await client.status(kind="Normal", busy=False, model="mercury")
    assert fake.requests[0].prefix.endswith("x = ")


async def test_without_consent_nothing_is_sent_and_the_status_says_what_to_set() -> None:
    async with editing(options={"model": {"name": "https://gpu.invalid/v1/completions"}}) as client:
        client.open("x = ‸\n")
        assert not await client.ask()
        status = await client.status(kind="Error")
        assert 'remote.consent to ["gpu.invalid"]' in status.message
