"""Policies: which slots are visible after a step.

A policy is a function from the canvas, the proposals for its slots and the step to one bool per slot. It says
what is visible afterwards, not what to reveal: revealing, hiding again (remasking) and changing a shown token
(editing) are then one thing. This module knows nothing about logits, caches, prompts or text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from mercury_model.canvas import Canvas
from mercury_model.errors import RequestError

THRESHOLD = 0.9
"""Fast-dLLM's confidence threshold (Wu et al. 2025, arXiv 2505.22618)."""
DOUBT = 0.5
"""A shown token is masked again when another token is at least this probable in its place."""


@dataclass(frozen=True, slots=True)
class Step:
    """index: passes done in this block. last: nothing may stay masked after it."""

    index: int
    last: bool


@dataclass(frozen=True, slots=True)
class Proposals:
    """One entry per slot of the canvas: the most probable (or sampled) token, and how sure the model is."""

    token: list[int]
    confidence: list[float]
    entropy: list[float]
    margin: list[float]


Visible = Callable[[Canvas, Proposals, Step], list[bool]]


def by_threshold(canvas: Canvas, proposals: Proposals, step: Step) -> list[bool]:
    """Show what is surer than THRESHOLD, always at least the surest; hide what became doubtful.

    Source: Fast-dLLM's confidence-aware decoding; hiding again as in ReMDM (Wang et al. 2025, arXiv 2503.00307).
    """
    if step.last:
        return [True] * len(canvas)
    visible: list[bool] = []
    for i, state in enumerate(canvas.states):
        if state == "masked":
            visible.append(proposals.confidence[i] >= THRESHOLD)
        else:
            changed = proposals.token[i] != canvas.tokens[i]
            # a slot is hidden again only once, so the number of steps is bounded
            visible.append(not changed or canvas.revised[i] or proposals.confidence[i] < DOUBT)
    if not any(show and canvas.states[i] == "masked" for i, show in enumerate(visible)):
        masked = [i for i, state in enumerate(canvas.states) if state == "masked"]
        if masked:
            visible[max(masked, key=lambda i: proposals.confidence[i])] = True
    return visible


def at_once(canvas: Canvas, proposals: Proposals, step: Step) -> list[bool]:
    """Show everything: a draft that a causal check will judge."""
    del proposals, step
    return [True] * len(canvas)


@dataclass(frozen=True, slots=True)
class Policy:
    """visible: the rule, None when nothing is drafted (one token at a time).

    causal: what the causal pass over a finished block does. "check" keeps the longest run that the model itself
    would have written, plus one token; "write" keeps all and only fills the KV cache.
    """

    name: str
    visible: Visible | None
    causal: Literal["check", "write"]
    about: str


POLICIES = {
    policy.name: policy
    for policy in (
        Policy("check", at_once, "check", "draft in parallel, keep what one-at-a-time decoding would have written"),
        Policy("threshold", by_threshold, "write", "pure diffusion: confident slots shown, doubtful ones masked again"),
        Policy("greedy", None, "check", "one token at a time, the yardstick"),
    )
}


def policy_named(name: str) -> Policy:
    """RequestError lists the names there are."""
    if name not in POLICIES:
        raise RequestError(f"unknown policy {name!r}: choose one of {', '.join(POLICIES)}")
    return POLICIES[name]
