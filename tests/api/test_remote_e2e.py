"""The language server as a process, its model elsewhere: our own API, recorded Mercury, refused without consent."""

import sys
from typing import Any

import pytest
from lsprotocol import types

from mercury_lsp.api.app import Options
from mercury_lsp.api.edit import read_place
from mercury_lsp.evaluation.recorded_peer import FENCE
from mercury_lsp.languages import language_of
from mercury_model.draft import Request
from tests.api.serving import serving, serving_app
from tests.api.test_edit import recorded
from tests.api.test_remote import replay
from tests.fakes import FakeInfiller
from tests.lsp import editor
from tests.lsp.editor import editing
from tests.lsp.test_code_action_e2e import after
from tests.lsp.test_commands_e2e import applying, running, wire


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


async def test_the_language_server_rewrites_with_a_model_behind_our_api() -> None:
    def script(request: Request) -> str:
        return (request.original or "").replace("alpha", "beta")

    with serving(FakeInfiller(script), Options(name="fake")) as (url, _):
        async with applying(options={"model": {"name": f"{url}/v1/fim/completions"}}) as (client, asked, _):
            client.open("x = 1\nalpha = x‸\ny = 3\n")
            place = types.Range(types.Position(1, 0), types.Position(2, 0))
            answer = await running(client, "mercury.rewrite", uri=client.uri, range=wire(place))
            assert answer.applied is True
    assert after(client, asked[-1].edit) == "x = 1\nbeta = x\ny = 3\n"


async def test_the_language_server_rewrites_as_recorded_mercury_answered() -> None:
    places = [(read_place(prompt_of(exchange)), exchange) for exchange in recorded()]
    # whole files; where a region begins with blanks the server asks for what stands behind them
    whole = [e for place, e in places if not (place.before or place.after or place.region[0].isspace())]
    exchanges = {read_place(prompt_of(e)).region: e for e in reversed(whole)}
    assert len(exchanges) >= 10
    with serving_app(replay()) as url:
        options = {"model": {"name": "mercury:mercury-edit"}, "remote": {"consent": ["127.0.0.1"]}}
        variables = {"INCEPTION_API_KEY": "k", "INCEPTION_BASE_URL": url}
        async with applying(options=options, **variables) as (client, asked, _):
            for i, (region, exchange) in enumerate(exchanges.items()):
                path = read_place(prompt_of(exchange)).path
                client.open(region + "‸", uri=f"file:///project/{i}/{path}", language=language_of(path) or "")
                place = types.Range(types.Position(0, 0), client.position(len(region)))
                answer = await running(client, "mercury.rewrite", uri=client.uri, range=wire(place))
                fenced = FENCE.match(exchange[2]["choices"][0]["message"]["content"])
                assert fenced is not None
                wanted = fenced[1].strip("\n")
                assert answer.applied is (wanted != region.strip("\n")), path
                if answer.applied:
                    assert after(client, asked[-1].edit).strip("\n") == wanted


def prompt_of(exchange: tuple[str, dict[str, Any], dict[str, Any]]) -> str:
    return exchange[1]["messages"][0]["content"]
