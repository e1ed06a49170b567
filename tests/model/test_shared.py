"""Requests that share passes: what each gets is what it gets alone, and one that fails takes nobody with it."""

from collections.abc import Hashable
from pathlib import Path

import pytest

from mercury_model.denoiser import BlockDenoiser
from mercury_model.draft import Draft, Request
from mercury_model.errors import RequestError
from mercury_model.infill import infill
from mercury_model.shared import Event, SharedPasses
from tests.model.tiny import denoiser


@pytest.fixture
def model(tmp_path: Path) -> BlockDenoiser:
    return denoiser(tmp_path)


def ask(i: int, **fields: object) -> Request:
    return Request(f"def f{i}(", f") # {i}\n" * i, document=f"lane {i}", max_tokens=12 + i, **fields)  # type: ignore[arg-type]


def run(passes: SharedPasses, n: int) -> dict[Hashable, list[Event]]:
    """Steps until n runs have ended."""
    events: dict[Hashable, list[Event]] = {}
    while sum(not isinstance(last[-1], Draft) for last in events.values()) < n:
        for key, event in passes.step():
            events.setdefault(key, []).append(event)
    return events


def texts(events: list[Event]) -> list[str]:
    assert events[-1] is None
    return [event.text for event in events if isinstance(event, Draft)]


def test_results_are_those_of_a_single_run(model: BlockDenoiser) -> None:
    requests = {
        0: ask(0), 1: ask(1, policy="threshold"), 2: ask(2, effort="high"), 3: ask(3, original="abc"),
        4: ask(4, temperature=0.8, seed=7),
    }  # fmt: skip
    alone = {key: [draft.text for draft in infill(model, request)][-1] for key, request in requests.items()}
    passes = SharedPasses(model)
    for key, request in requests.items():
        passes.add(key, request)
    together = run(passes, len(requests))
    assert {key: texts(events)[-1] for key, events in together.items()} == alone


def test_a_run_may_join_and_leave_between_steps(model: BlockDenoiser) -> None:
    alone = [draft.text for draft in infill(model, ask(2))][-1]
    passes = SharedPasses(model)
    passes.add("leaves", ask(1))
    passes.step()
    passes.add("joins", ask(2))
    passes.step()
    passes.remove("leaves")
    passes.remove("leaves")
    events = run(passes, 1)
    assert set(events) == {"joins"}
    assert texts(events["joins"])[-1] == alone


def test_one_that_fails_takes_nobody_with_it(model: BlockDenoiser) -> None:
    def broken(text: str) -> int | None:
        raise ValueError(len(text))

    passes = SharedPasses(model)
    passes.add("good", ask(1))
    passes.add("bad", ask(2, end=broken))
    with pytest.raises(RequestError):
        passes.add("unknown", ask(3, policy="none such"))
    events = run(passes, 2)
    assert isinstance(events["bad"][-1], ValueError)
    assert texts(events["good"])[-1] == [draft.text for draft in infill(model, ask(1))][-1]
