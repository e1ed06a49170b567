"""Cases of docs/cases.md about addresses, TLS and files that several processes share."""

import ssl
from pathlib import Path

import httpx
import pytest
import truststore

from mercury_lsp import remote
from mercury_lsp.cli import serve
from mercury_lsp.remote import RemoteError, RemoteInfiller, endpoint_of
from mercury_model.draft import Request

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:7878", ("127.0.0.1", 7878)),
        ("[::1]:7878", ("::1", 7878)),
        ("localhost:7878", ("localhost", 7878)),
        (":7878", ("127.0.0.1", 7878)),
    ],
)
def test_O6_addresses_of_both_kinds_are_taken(text: str, address: tuple[str, int]) -> None:
    assert serve._address(text) == address  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
def test_O6_an_engine_on_the_same_machine_needs_no_consent_under_any_name(host: str) -> None:
    endpoint = endpoint_of(f"http://{host}:8089/v1/completions", (), {})
    assert endpoint.host.strip("[]").split(":8089")[0] == host.strip("[]")


def test_O6_the_address_of_the_engine_is_documented() -> None:
    assert "URL" in (DOCS / "settings.md").read_text(encoding="utf-8").split("`name`", 1)[1].split("\n", 1)[0]


def test_P1_the_certificates_of_the_system_are_used_and_a_failure_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "PAUSES", (0.0,))
    made: list[int] = []

    class Context(truststore.SSLContext):
        def __init__(self, protocol: int) -> None:
            made.append(protocol)
            super().__init__(protocol)

    monkeypatch.setattr(remote.truststore, "SSLContext", Context)

    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] unable to get local issuer", request=request)

    endpoint = endpoint_of("https://gpu.example/v1/completions", ("gpu.example",), {})
    asked = RemoteInfiller(endpoint, httpx.MockTransport(refuse))
    try:
        with pytest.raises(RemoteError, match=r"gpu\.example") as failure:
            list(asked(Request(prefix="x = ", suffix="")))
    finally:
        asked.close()
    assert made == [ssl.PROTOCOL_TLS_CLIENT]
    assert "certificate" in str(failure.value).lower()
    assert "\n" not in str(failure.value)
