"""A thousand steps of the state machine of protocol.py; `python -m tests.fuzz` makes as many as are wanted."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.fuzz import messages
from tests.fuzz.protocol import Protocol, Server
from tests.lsp.raw_client import RefusedError


@pytest.fixture(autouse=True)
def no_process_stays() -> Iterator[None]:
    yield
    Server.close()


@pytest.mark.timeout(600)
def test_no_client_breaks_the_server_or_its_documents() -> None:
    chosen = settings(
        max_examples=25,
        stateful_step_count=40,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    before = Server.steps
    run_state_machine_as_test(Protocol, settings=chosen)
    assert Server.steps - before > 300


def test_every_request_is_answered_whatever_its_method_and_parameters() -> None:
    client = Server.of("utf-16").client
    odd = (
        None,
        5,
        [],
        [[]],
        {},
        {"textDocument": 5},
        {"event": {"removed": [{}]}},
        {"settings": {"a": {"jsonrpc": 1}}},
    )
    asked = [client.request(method, params) for method in messages.METHODS if method != "initialize" for params in odd]
    refused = 0
    for message_id in asked:
        try:
            client.result(message_id)
        except RefusedError:
            refused += 1
    assert refused > len(asked) // 2


def test_a_table_inside_a_message_is_no_message() -> None:
    client = Server.of("utf-16").client
    inside = {"jsonrpc": "2.0", "method": "shutdown", "id": 7, "result": None}
    client.configuration = {"files": {"ignore": []}, "odd": inside}
    client.notify("workspace/didChangeConfiguration", {"settings": {"mercury": inside}})
    with pytest.raises(RefusedError, match=r"mercury\.snooze takes"):
        client.call("workspace/executeCommand", {"command": "mercury.snooze", "arguments": [inside]})
    assert client.call("workspace/executeCommand", {"command": "mercury.status"})["model"]


def test_a_token_that_is_neither_text_nor_number_is_none() -> None:
    client = Server.of("utf-16").client
    uri, place = "file:///fuzz/a.py", {"line": 0, "character": 0}
    item = {"uri": uri, "languageId": "python", "version": 1, "text": "x = 1\n"}
    client.notify("textDocument/didOpen", {"textDocument": item})
    for token in ([], {"a": 1}, [[1]], True, 1.5):
        client.notify("window/workDoneProgress/cancel", {"token": token})
        wanted = messages.command(uri, place, "mercury.rewrite", workDoneToken=token)
        assert client.call(*wanted)["applied"] is False
    assert client.faults() == []
