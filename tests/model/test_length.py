"""Length control on a scripted checkpoint whose right answer has a known length."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercury_model.canvas import Canvas
from mercury_model.draft import Draft, Request
from mercury_model.length import first_step_confidence, search_length
from mercury_model.policy import POLICIES, Proposals
from mercury_model.span_infill import infill_span
from tests.model.fakes import DELETE, FIRST, MASK, ScriptedSpan

STARTS = (4, 8, 16, 32, 64)
ABLE = [p.name for p in POLICIES.values() if p.causal == "write"]
PREFIX, SUFFIX = "def f():\n    ", "\nx = f()\n"


def pieces(n: int) -> list[str]:
    return [f"<{i}>" for i in range(n)]


def run(model: ScriptedSpan, policy: str, effort: str = "medium", most: int = 64) -> list[Draft]:
    request = Request(PREFIX, SUFFIX, policy=policy, effort=effort, max_tokens=most)  # type: ignore[arg-type]
    return list(infill_span(model, request))


def check(model: ScriptedSpan, drafts: list[Draft], n: int) -> None:
    last = drafts[-1]
    assert last.done and last.n_open == 0
    assert last.text == "".join(pieces(n))
    assert all(len(c) <= 64 for c in model.canvases)
    # the suffix is whole, at every pass the same
    assert model.opened == [([3, *model.tokens.encode(PREFIX)], [*model.tokens.encode(SUFFIX), DELETE])]
    shown = ""
    for draft in drafts:
        assert draft.text[: len(shown)] == shown, "settled text changed"
        shown = draft.text[: draft.settled]


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("policy", ABLE)
def test_expand_and_delete_with_parallel_reveal_find_every_length(start: int, policy: str) -> None:
    for n in range(1, 65):
        model = ScriptedSpan(pieces(n), start=start, resizing=True, seed=n)
        drafts = run(model, policy)
        check(model, drafts, n)
        # far fewer passes than one slot at a time, which takes max(start, n) + 2 expansions' worth
        assert drafts[-1].forwards <= 16 + 2 * 64
    model = ScriptedSpan(pieces(64), start=4, resizing=True, seed=1)
    assert run(model, "factor")[-1].forwards < 64


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("policy", ["maskgit_plus", "threshold", "entropy_bound"])
def test_the_length_search_finds_every_length(start: int, policy: str) -> None:
    for n in range(1, 65):
        model = ScriptedSpan(pieces(n), start=start, resizing=False, seed=n)
        drafts = run(model, policy)
        check(model, drafts, n)
        probes = sum(all(t == MASK for t in c) for c in model.canvases)
        assert probes <= 24


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 300), st.floats(0.01, 3))
def test_the_search_finds_any_single_peak_with_few_probes(peak: int, start: int, most: int, slope: float) -> None:
    asked: list[int] = []

    def score(n: int) -> float:
        asked.append(n)
        return -slope * abs(n - peak) if n < peak else -abs(n - peak)

    found = list(search_length(score, start, most, 40))
    assert found[-1] == min(peak, most)
    assert len(asked) == len(set(asked)) == len(found) <= 2 * most.bit_length() + 9


@given(st.lists(st.floats(0, 1), min_size=1, max_size=70), st.integers(0, 30))
def test_the_search_is_bounded_and_returns_the_best_it_saw(scores: list[float], probes: int) -> None:
    asked: dict[int, float] = {}

    def score(n: int) -> float:
        return asked.setdefault(n, scores[n - 1])

    found = list(search_length(score, 16, len(scores), probes))
    assert len(found) == len(asked) <= probes
    if found:
        assert asked[found[-1]] == max(asked.values())


def test_a_small_budget_is_kept_and_the_rest_is_text() -> None:
    for most in (1, 2, 5, 9):
        model = ScriptedSpan(pieces(30), start=4, resizing=True)
        last = run(model, "threshold", most=most)[-1]
        assert last.done and last.ended == "length"
        assert max(len(c) for c in model.canvases) <= most
        assert last.n_tokens == most


def test_deleting_every_slot_gives_an_empty_middle() -> None:
    for policy in ABLE:
        model = ScriptedSpan([], start=16, resizing=True)
        last = run(model, policy)[-1]
        assert (last.text, last.n_tokens, last.ended, last.done) == ("", 0, "end", True)


def test_an_instant_request_does_not_search() -> None:
    model = ScriptedSpan(pieces(40), start=16, resizing=False)
    drafts = run(model, "maskgit_plus", effort="instant")
    assert drafts[-1].forwards == 4
    assert {len(c) for c in model.canvases} == {16}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["keep", "grow", "shrink", "shown", "fixed"]), max_size=40))
def test_resizing_several_slots_moves_no_other(kinds: list[str]) -> None:
    n = len(kinds)
    open_slot = [kind in ("keep", "grow", "shrink") for kind in kinds]
    canvas = Canvas(
        tuple(MASK if o else 100 + i for i, o in enumerate(open_slot)),
        tuple("masked" if o else "tentative" for o in open_slot),
        tuple(i / 100 for i in range(n)),
        (False,) * n,
        tuple(kind == "fixed" for kind in kinds),
    )
    growing = {i for i, kind in enumerate(kinds) if kind == "grow"}
    shrinking = {i for i, kind in enumerate(kinds) if kind == "shrink"}
    after = canvas.resized(growing, shrinking, MASK)
    assert len(after) == n + len(growing) - len(shrinking)
    assert [t for t in after.tokens if t != MASK] == [t for t in canvas.tokens if t != MASK]
    where = [i for i, kind in enumerate(kinds) for _ in range({"grow": 2, "shrink": 0}.get(kind, 1))]
    assert list(after.confidence) == [i / 100 for i in where]
    assert list(after.fixed) == [kinds[i] == "fixed" for i in where]


def test_a_proposed_end_does_not_speak_for_a_length() -> None:
    proposals = Proposals([FIRST, DELETE, DELETE, FIRST], [0.8, 1.0, 1.0, 0.4], [0.0] * 4, [0.0] * 4)
    assert first_step_confidence(proposals, lambda token: token < FIRST) == pytest.approx(0.3)
