"""Policy `check` writes what one-at-a-time decoding writes: on the real weights, in fewer passes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from mercury_model.denoiser import Choice
from mercury_model.draft import Draft, Request
from mercury_model.local import LocalInfiller
from mercury_model.prompt import prompt
from tests.real.conftest import Loader
from tests.real.prompts import requests

pytestmark = pytest.mark.real
INT8_SHARE = 0.98
"""Rounding may flip a near-tie between two tokens in one text of fifty."""
NEAR_TIE = 0.1
"""Lead of the best logit over the second, at most, where the texts may part."""


def last_draft(model: LocalInfiller, request: Request) -> Draft:
    """The request run to its end."""
    return list(model(request))[-1]


def parting(model: LocalInfiller, request: Request, greedy: Draft, check: Draft) -> tuple[int, float]:
    """(the first token at which two texts differ, lead of the best logit over the second there)."""
    mine, other = [[slot.text for slot in draft.slots] for draft in (greedy, check)]
    at = next((i for i, (a, b) in enumerate(zip(mine, other, strict=False)) if a != b), min(len(mine), len(other)))
    tokens, session = model.denoiser.tokens, model.denoiser.session("")
    ids = list(prompt(tokens, request).ids)
    for piece in mine[:at]:
        ids += tokens.encode(piece)
    for _ in session.prefill(ids[:-1]):
        pass
    found = session.check(ids[-1:], Choice())
    return at, math.log(found.confidence[0]) - math.log(max(found.confidence[0] - found.margin[0], 1e-12))


def compare(model: LocalInfiller, n: int) -> tuple[list[float], str]:
    """Runs n prompts under both policies: the leads where texts part, and the counts as a line of text."""
    leads: list[float] = []
    passes = {"greedy": 0.0, "check": 0.0}
    n_tokens = 0
    for name, request in requests(n, model, "greedy"):
        greedy, check = last_draft(model, request), last_draft(model, replace(request, policy="check"))
        passes["greedy"] += greedy.forwards
        passes["check"] += check.forwards
        n_tokens += greedy.n_tokens
        if (greedy.text, greedy.ended) != (check.text, check.ended):
            at, lead = parting(model, request, greedy, check)
            leads.append(lead)
            print(f"{name}: {greedy.text!r} and {check.text!r} part at token {at}, top-2 margin {lead:.4f}")
    counts = ", ".join(f"{policy} {count:.0f} forwards" for policy, count in passes.items())
    return leads, f"{n - len(leads)} of {n} texts equal, {n_tokens} tokens: {counts}"


def test_check_writes_the_text_of_greedy_decoding_in_fewer_passes(model: LocalInfiller) -> None:
    leads, line = compare(model, 6)
    print(line)
    assert not leads, line


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize(("dtype", "share"), [("float32", 1.0), ("int8", INT8_SHARE)])
def test_check_equals_greedy_on_fifty_prompts_in_three_languages(model_of: Loader, dtype: str, share: float) -> None:
    leads, line = compare(model_of(dtype), 50)
    print(f"{dtype}: {line}")
    assert 50 - len(leads) >= share * 50, line
    assert all(lead < NEAR_TIE for lead in leads), f"texts part where there is no near-tie: {leads}"
