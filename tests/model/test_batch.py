"""Runs that share passes get what they get alone; they may join, leave and differ in everything."""

from dataclasses import replace
from pathlib import Path

import pytest

from mercury_model.batch import Batch
from mercury_model.denoiser import BlockDenoiser
from mercury_model.draft import Draft, Request
from mercury_model.filling import Run, fill
from mercury_model.infill import infill
from mercury_model.prompt import prompt
from tests.model.tiny import denoiser as tiny_denoiser

REQUESTS = [
    Request("def f(x):\n    return", "\n", policy="check", max_tokens=12),
    Request("a" * 300, "b" * 20, policy="greedy", max_tokens=5),
    Request("x = [", "]\n", policy="threshold", max_tokens=16),
    Request("", "", policy="check", max_tokens=20),
    Request("for i in", ":\n", policy="check", temperature=1.0, seed=3, max_tokens=9),
]


@pytest.fixture(scope="module")
def denoiser(tmp_path_factory: pytest.TempPathFactory) -> BlockDenoiser:
    return tiny_denoiser(tmp_path_factory.mktemp("tokens"))


def run_of(denoiser: BlockDenoiser, request: Request) -> Run:
    return Run(denoiser, request, denoiser.session(""), prompt(denoiser.tokens, request))


def alone(denoiser: BlockDenoiser) -> list[str]:
    return [list(infill(denoiser, request))[-1].text for request in REQUESTS]


def together(batch: Batch) -> dict[int, Draft]:
    last: dict[int, Draft] = {}
    while batch:
        for key, draft in batch.step():
            assert isinstance(key, int)
            last[key] = draft
    return last


def test_a_batch_writes_what_each_run_writes_alone(denoiser: BlockDenoiser) -> None:
    batch = Batch(denoiser.transformer)
    for k, request in enumerate(REQUESTS):
        batch.add(k, fill(run_of(denoiser, request)))
    last = together(batch)
    assert [last[k].text for k in range(len(REQUESTS))] == alone(denoiser)
    assert all(draft.done for draft in last.values())


def test_runs_join_and_leave_between_steps(denoiser: BlockDenoiser) -> None:
    expected = alone(denoiser)
    batch = Batch(denoiser.transformer)
    batch.add(0, fill(run_of(denoiser, REQUESTS[0])))
    batch.add(3, fill(run_of(denoiser, REQUESTS[3])))
    batch.step()
    batch.step()
    batch.remove(3)
    batch.remove("nobody")
    batch.add(1, fill(run_of(denoiser, REQUESTS[1])))
    last = together(batch)
    assert {k: draft.text for k, draft in last.items()} == {0: expected[0], 1: expected[1]}


def test_candidates_differ_and_the_models_own_text_is_the_first(denoiser: BlockDenoiser) -> None:
    request = Request("def f(x):\n    return", "\n", max_tokens=10, candidates=4)
    drafts = list(infill(denoiser, request))
    texts = [draft.text for draft in drafts if draft.done]
    assert len(texts) == len(set(texts)) == 4
    own = list(infill(denoiser, Request("def f(x):\n    return", "\n", max_tokens=10)))[-1].text
    assert texts[0] == own
    confidences = [draft.confidence for draft in drafts if draft.done][1:]
    assert confidences == sorted(confidences, reverse=True)
    assert {draft.candidate for draft in drafts} == {0, 1, 2, 3}


def test_of_equal_texts_the_first_keeps_its_place(denoiser: BlockDenoiser) -> None:
    """The rule cuts every candidate that differs behind the first word back to the own text."""
    request = Request(
        "def f(x):\n    return", "\n", max_tokens=10, candidates=5, end=lambda text: 2 if len(text) > 2 else None
    )
    texts = [draft.text for draft in infill(denoiser, request) if draft.done]
    own = list(infill(denoiser, replace(request, candidates=1)))[-1].text
    assert texts[0] == own
    assert len(texts) == len(set(texts)) < 5


def test_high_effort_draws_several_and_shows_the_best(denoiser: BlockDenoiser) -> None:
    request = Request("def f(x):\n    return", "\n", max_tokens=10, effort="high")
    drafts = list(infill(denoiser, request))
    assert [draft.done for draft in drafts].count(True) == 1
    assert drafts[-1].done
    own = list(infill(denoiser, replace(request, effort="medium")))[-1].text
    assert drafts[-1].text == own
    hating = replace(request, judge=lambda text: [(0, 1)] if text == own else [])
    assert list(infill(denoiser, hating))[-1].text != own


def test_a_judge_sends_back_what_it_objects_to(denoiser: BlockDenoiser) -> None:
    plain = list(infill(denoiser, Request("ab", "cd", max_tokens=12)))[-1].text
    hated = plain[4]

    def judge(text: str) -> list[tuple[int, int]]:
        return [(4, 5)] if text[4:5] == hated else []

    judged = list(infill(denoiser, Request("ab", "cd", max_tokens=12, judge=judge, effort="low")))
    assert [draft.done for draft in judged].count(True) == 1
    assert judged[-1].text[:4] == plain[:4]
    assert not judge(judged[-1].text)


def test_a_judge_without_objections_costs_nothing(denoiser: BlockDenoiser) -> None:
    plain = list(infill(denoiser, Request("ab", "cd", max_tokens=12)))[-1]
    judged = list(infill(denoiser, Request("ab", "cd", max_tokens=12, judge=lambda text: [])))[-1]
    assert (judged.text, judged.forwards) == (plain.text, plain.forwards)


def test_a_judge_that_is_never_content_stops_in_time_and_keeps_the_first_text(denoiser: BlockDenoiser) -> None:
    plain = list(infill(denoiser, Request("ab", "cd", max_tokens=12)))[-1].text
    judged = list(infill(denoiser, Request("ab", "cd", max_tokens=12, judge=lambda text: [(0, len(text))])))[-1]
    assert judged.text == plain


def test_rewriting_touches_only_what_is_doubtful(denoiser: BlockDenoiser, tmp_path: Path) -> None:
    original = "alpha = beta + gamma\ndelta = beta\n"
    at = original.index("gamma")
    drafts = list(infill(denoiser, Request("x\n", "y\n", original=original, doubtful=((at, at + 5),))))
    text = drafts[-1].text
    assert text.startswith(original[:at]) and text.endswith(original[at + 5 :])
    for draft in drafts:
        assert draft.text.startswith(original[: min(draft.settled, at)])
    assert [draft.done for draft in drafts].count(True) == 1


def test_rewriting_nothing_gives_the_original(denoiser: BlockDenoiser) -> None:
    assert list(infill(denoiser, Request("x", "y", original="")))[-1].text == ""
