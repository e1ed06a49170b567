"""Who may ask: keys, hosts, origins, sizes; what `mercury-lsp api` refuses to open; the lists and the counters."""

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mercury_lsp.api.app import Options
from mercury_lsp.cli import api, main
from mercury_lsp.errors import FailureError, UsageError
from tests.api.serving import client_of
from tests.fakes import FakeInfiller

BODY = {"model": "mercury", "prompt": "x"}
URL = "/v1/fim/completions"


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        ("Bearer one", 200), ("bearer two", 200), ("Bearer three", 401), ("Bearer ", 401), ("one", 401), (None, 401),
        ("Basic one", 401), ("Bearer on", 401),
    ],
)  # fmt: skip
async def test_a_key_is_needed_where_there_are_keys(authorization: str | None, status: int) -> None:
    headers = {"authorization": authorization} if authorization is not None else {}
    async with client_of(FakeInfiller("x"), Options(name="fake", keys=("one", "two"))) as client:
        response = await client.post(URL, json=BODY, headers=headers)
        models = await client.get("/v1/models", headers=headers)
        metrics = await client.get("/metrics", headers=headers)
        page = await client.get("/")
        health = await client.get("/health")
    assert response.status_code == models.status_code == metrics.status_code == status
    assert page.status_code == health.status_code == 200
    if status == 401:
        error = response.json()["error"]
        assert (error["type"], error["code"]) == ("authentication_error", "invalid_api_key")


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1:8089", 200), ("localhost", 200), ("[::1]:8089", 200), ("evil.example:8089", 403), ("", 403)],
)
async def test_a_loopback_server_answers_under_loopback_names_only(host: str, status: int) -> None:
    async with client_of(FakeInfiller("x"), Options(name="fake", hosts=api.LOOPBACK)) as client:
        assert (await client.post(URL, json=BODY, headers={"host": host})).status_code == status


async def test_other_web_origins_are_refused_unless_they_were_allowed() -> None:
    here, there = {"origin": "http://127.0.0.1:1"}, {"origin": "https://app.example"}
    async with client_of(FakeInfiller("x")) as client:
        assert (await client.post(URL, json=BODY, headers=here)).status_code == 200
        refused = await client.post(URL, json=BODY, headers=there)
        assert refused.status_code == 403
        assert "access-control-allow-origin" not in refused.headers
        assert (await client.post(URL, json=BODY, headers={"origin": "null"})).status_code == 403
    async with client_of(FakeInfiller("x"), Options(name="fake", origins=("https://app.example",))) as client:
        allowed = await client.post(URL, json=BODY, headers=there)
        asked = {**there, "access-control-request-method": "POST", "access-control-request-headers": "authorization"}
        preflight = await client.options(URL, headers=asked)
    assert allowed.status_code == preflight.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == "https://app.example"


async def test_a_body_that_is_too_large_is_refused_with_or_without_a_length() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(10):
            yield b" " * 1000

    async with client_of(FakeInfiller("x"), Options(name="fake", max_body=5000)) as client:
        known = await client.post(URL, content=b" " * 6000, headers={"content-type": "application/json"})
        counted = await client.post(URL, content=chunks(), headers={"content-type": "application/json"})
    assert known.status_code == counted.status_code == 413
    assert counted.json()["error"]["code"] == "request_too_large"


async def test_too_many_requests_are_a_429_that_says_when_to_come_back() -> None:
    async with client_of(FakeInfiller("x"), n_waiting=0) as client:
        response = await client.post(URL, json=BODY)
    assert response.status_code == 429
    assert response.json()["error"]["code"] == "rate_limit_reached"
    assert response.headers["retry-after"] == "1"


@pytest.mark.parametrize("path", ["/v1/nothing", "/nothing.html", "/../app.py", "/%2e%2e/app.py"])
async def test_what_is_not_there_is_a_404_in_the_envelope(path: str) -> None:
    async with client_of(FakeInfiller("x")) as client:
        response = await client.get(path)
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "not_found"


async def test_the_lists_name_the_model_and_its_aliases_per_endpoint() -> None:
    async with client_of(FakeInfiller("x")) as client:
        names = {}
        for path in ("/v1/models", "/v1/chat/completions/models", "/v1/fim/completions/models"):
            body = (await client.get(path)).json()
            assert body["object"] == "list"
            names[path] = [model["id"] for model in body["data"]]
        edits = (await client.get("/v1/edit/completions/models")).json()["data"]
    assert all("fake" in listed for listed in names.values())
    assert "mercury-2" in names["/v1/chat/completions/models"]
    assert "mercury-2" not in names["/v1/fim/completions/models"]
    assert "edit.completions" in next(m for m in edits if m["id"] == "mercury-edit-2")["supported_endpoints"]


async def test_the_counters_count_what_was_answered_and_what_was_refused() -> None:
    async with client_of(FakeInfiller("one two")) as client:
        await client.post(URL, json=BODY)
        await client.post(URL, json={**BODY, "stream": True})
        await client.post(URL, json={**BODY, "model": "gpt"})
        await client.post(URL, json={"model": "mercury"})
        text = (await client.get("/metrics")).text
    assert 'mercury_requests_total{endpoint="fim",status="200"} 2.0' in text
    assert 'mercury_requests_total{endpoint="fim",status="404"} 1.0' in text
    assert 'mercury_requests_total{endpoint="fim",status="400"} 1.0' in text
    assert 'mercury_tokens_total{kind="completion"} 6.0' in text
    assert 'mercury_first_text_seconds_count{endpoint="fim"} 2.0' in text
    assert "mercury_model_ready 1.0" in text


async def test_health_says_what_is_loaded_and_the_page_brings_everything_it_needs() -> None:
    async with client_of(FakeInfiller("x")) as client:
        await client.post(URL, json=BODY)
        health = (await client.get("/health")).json()
        page = await client.get("/")
    assert (health["state"], health["model"], health["running"]) == ("ready", "fake", 0)
    assert page.headers["content-security-policy"].startswith("default-src 'self'")
    assert "http://" not in page.text
    assert "https://" not in page.text


# --- the command -----------------------------------------------------------------------------------------------------


def test_an_address_that_others_reach_needs_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["api", "--host", "0.0.0.0", "--port", "0"]) == 2
    assert "--keys" in capsys.readouterr().err


def test_keys_come_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(api.KEYS, "a, b,")
    assert api.read_keys(None) == ("a", "b")
    file = tmp_path / "keys"
    file.write_text("# ours\n k1 \n\nk2\nk1\n")
    assert api.read_keys(file) == ("k1", "k2")
    file.write_text("# none\n")
    for path in (file, tmp_path / "missing"):
        with pytest.raises(UsageError):
            api.read_keys(path)


def test_a_taken_port_is_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(FailureError, match="another --port"):
        api.listen("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(UsageError):
        api.listen("127.0.0.1", 99_999)
