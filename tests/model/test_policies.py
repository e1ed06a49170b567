"""Every policy under random proposals: fills every hole in its steps, keeps fixed slots, repeats itself."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercury_model.canvas import Canvas
from mercury_model.draft import Request
from mercury_model.errors import RequestError
from mercury_model.policy import (
    EDIT_ABOVE,
    ENTROPY_BOUND,
    FACTOR,
    POLICIES,
    Policy,
    Proposals,
    Step,
    masked_slots,
    policy_named,
)
from mercury_model.refine import hold, refine
from mercury_model.span_infill import infill_span
from tests.model.fakes import MASK, ScriptedSpan, scripted

DRAFTING = [p for p in POLICIES.values() if p.visible is not None]
UNCHECKED = [p for p in DRAFTING if p.causal == "write"]
SLOTS = st.lists(st.sampled_from(["masked", "masked", "tentative", "fixed"]), max_size=40)


def by_name(policy: Policy) -> str:
    return policy.name


def canvas_of(kinds: list[str]) -> Canvas:
    return Canvas(
        tuple(MASK if kind == "masked" else 100 + i for i, kind in enumerate(kinds)),
        tuple({"fixed": "settled"}.get(kind, kind) for kind in kinds),  # type: ignore[arg-type]
        tuple(0.0 if kind == "masked" else 0.8 for kind in kinds),
        (False,) * len(kinds),
        tuple(kind == "fixed" for kind in kinds),
    )


def denoise(policy: Policy, canvas: Canvas, limit: int, seed: int) -> list[Canvas]:
    calls = itertools.count()

    def propose(canvas: Canvas, may_grow: bool) -> Proposals:
        assert not may_grow
        return scripted(len(canvas), seed * 1000 + next(calls))

    return list(refine(canvas, propose, policy, limit, MASK))


@pytest.mark.parametrize("policy", DRAFTING, ids=by_name)
@settings(max_examples=150, deadline=None)
@given(kinds=SLOTS, limit=st.integers(1, 20), seed=st.integers(0, 999))
def test_every_policy_fills_every_hole_within_its_bound_and_keeps_what_is_fixed(
    policy: Policy, kinds: list[str], limit: int, seed: int
) -> None:
    first = canvas_of(kinds)
    steps = denoise(policy, first, limit, seed)
    assert len(steps) <= limit + policy.polish
    assert steps == denoise(policy, first, limit, seed)
    for step in steps:
        assert len(step) == len(first)
        for i, kind in enumerate(kinds):
            if kind == "fixed":
                assert (step.tokens[i], step.states[i]) == (100 + i, "settled")
    last = steps[-1] if steps else first
    assert last.n_open == 0 and MASK not in last.tokens
    if not policy.revises and policy.causal == "write":
        for before, after in itertools.pairwise([first, *steps]):
            for i in range(len(first)):
                if before.states[i] != "masked":
                    assert (after.tokens[i], after.states[i]) == (before.tokens[i], before.states[i])
            assert after.n_open < before.n_open, "a step that shows nothing"


@pytest.mark.parametrize("policy", UNCHECKED, ids=by_name)
def test_stopping_the_iteration_stops_at_once(policy: Policy) -> None:
    for n in range(1, 6):
        model = ScriptedSpan([f"<{i}>" for i in range(30)], start=16, resizing=True, seed=n)
        drafts = infill_span(model, Request("", "", policy=policy.name))
        taken = list(itertools.islice(drafts, n))
        drafts.close()
        assert len(model.canvases) == n == taken[-1].forwards


@pytest.mark.parametrize("policy", DRAFTING, ids=by_name)
def test_hurry_shows_all_that_is_left_in_one_pass(policy: Policy) -> None:
    passes = itertools.count()
    steps = list(
        refine(
            Canvas.masked(30, MASK),
            lambda canvas, may_grow: scripted(len(canvas), next(passes)),
            policy,
            30,
            MASK,
            hurry=lambda: next(passes) > 3,
        )
    )
    assert steps[-1].n_open == 0
    assert len(steps) <= 4


@pytest.mark.parametrize("name", ["check", "greedy"])
def test_a_bidirectional_checkpoint_refuses_causal_policies_with_the_choices(name: str) -> None:
    model = ScriptedSpan(["x"], start=4, resizing=True)
    with pytest.raises(RequestError, match="choose threshold, maskgit_plus"):
        next(infill_span(model, Request("", "", policy=name)))
    with pytest.raises(RequestError, match="unknown policy"):
        policy_named("nope")


# --- each rule by its own numbers -----------------------------------------------------------------------------


def shown_by(
    name: str, confidence: list[float], entropy: list[float] | None = None, step: Step | None = None
) -> set[int]:
    n = len(confidence)
    rule = POLICIES[name].visible
    assert rule is not None
    entropy = entropy or [1 - c for c in confidence]
    proposals = Proposals(list(range(10, 10 + n)), confidence, entropy, [c * c for c in confidence])
    visible = rule(Canvas.masked(n, MASK), proposals, step or Step(0, False, 4))
    return {i for i, show in enumerate(visible) if show}


def test_the_quota_is_linear() -> None:
    canvas = Canvas.masked(10, MASK)
    steps = []
    for policy in ("maskgit_plus", "topk_margin", "entropy"):
        steps = denoise(POLICIES[policy], canvas, 4, seed=1)
        assert [s.n_open for s in steps] == [7, 4, 2, 0]


def test_scores_choose_the_surest_by_their_own_measure() -> None:
    n = Step(0, False, 5)
    assert shown_by("maskgit_plus", [0.1, 0.9, 0.5, 0.2, 0.3], step=n) == {1}
    assert shown_by("entropy", [0.1, 0.9, 0.5, 0.2, 0.3], [0.2, 0.5, 0.1, 0.9, 0.9], step=n) == {2}
    rule = POLICIES["topk_margin"].visible
    assert rule is not None
    margins = Proposals([10] * 3, [0.9, 0.8, 0.7], [0.1] * 3, [0.1, 0.2, 0.3])
    assert rule(Canvas.masked(3, MASK), margins, Step(0, False, 3)) == [False, False, True]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_factor_takes_the_largest_number_its_bound_allows(confidence: list[float]) -> None:
    order = sorted(confidence, reverse=True)
    fitting = [n for n in range(1, len(order) + 1) if (n + 1) * (1 - order[n - 1]) < FACTOR]
    assert len(shown_by("factor", confidence)) == max(fitting, default=1)


@given(st.lists(st.floats(0, 0.2), min_size=1, max_size=20))
def test_entropy_bound_takes_the_largest_number_its_bound_allows(entropy: list[float]) -> None:
    order = sorted(entropy)
    fitting = [n for n in range(1, len(order) + 1) if math.fsum(order[: n - 1]) <= ENTROPY_BOUND - 1e-9]
    shown = len(shown_by("entropy_bound", [0.5] * len(entropy), entropy))
    assert max(fitting, default=1) <= shown
    assert sum(order[: shown - 1]) <= ENTROPY_BOUND + 1e-9


def test_remasking_hides_a_shown_slot_that_others_overtook() -> None:
    canvas = Canvas((50, MASK, MASK, MASK), ("tentative", *("masked",) * 3), (0.4, 0, 0, 0), (False,) * 4, (False,) * 4)
    proposals = hold(canvas, Proposals([60, 61, 62, 63], [0.9, 0.95, 0.9, 0.1], [0.0] * 4, [0.0] * 4), math.inf)
    assert proposals.token[0] == 50 and proposals.confidence[0] == pytest.approx(0.1)
    rule = POLICIES["remask"].visible
    assert rule is not None
    assert rule(canvas, proposals, Step(1, False, 4)) == [False, True, True, False]


def test_editing_changes_a_shown_token_only_for_a_surer_one() -> None:
    canvas = Canvas((50, 51), ("tentative",) * 2, (0.96, 0.96), (False,) * 2, (False,) * 2)

    def propose(canvas: Canvas, may_grow: bool) -> Proposals:
        return Proposals([60, 61], [EDIT_ABOVE + 0.01, EDIT_ABOVE - 0.01], [0.0] * 2, [0.0] * 2)

    steps = list(refine(canvas, propose, POLICIES["edit"], 4, MASK))
    assert [s.tokens for s in steps] == [(60, 51), (60, 51)]
    assert steps[-1].revised == (True, False)
    assert masked_slots(steps[-1]) == []
