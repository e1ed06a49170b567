"""Policies: which slots are visible after a step.

A policy is a function from the canvas, the proposals for its slots and the step to one bool per slot. It says
what is visible afterwards, not what to reveal: revealing, hiding again (remasking) and changing a shown token
(editing) are then one thing. This module knows nothing about logits, caches, prompts or text.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from mercury_model.canvas import Canvas
from mercury_model.errors import RequestError

THRESHOLD = 0.9
"""Fast-dLLM's confidence threshold (Wu et al. 2025, arXiv 2505.22618)."""
DOUBT = 0.5
"""A shown token is masked again when another token is at least this probable in its place."""
FACTOR = 1.0
"""Bound of the factor rule; the larger, the more slots at once."""
ENTROPY_BOUND = 0.1
"""Nats; bounds the mutual information that revealing slots at once ignores."""
EDIT_ABOVE = 0.9
"""LLaDA2.1's editing threshold: a shown token gives way to another one that is at least this probable."""
EDIT_REVEAL = 0.95
"""LLaDA2.1's threshold for showing a masked slot, higher than THRESHOLD as its report has it."""
EDIT_PASSES = 4
"""Passes that may still edit when no slot is masked any more."""


@dataclass(frozen=True, slots=True)
class Step:
    """index: passes done in this block, of `limit`. last: nothing may stay masked after it."""

    index: int
    last: bool
    limit: int = 1


@dataclass(frozen=True, slots=True)
class Proposals:
    """One entry per slot of the canvas: the most probable (or sampled) token, and how sure the model is.

    ends: of a causal pass that was watched, how probable it is that the middle ends with each row's own token.
    """

    token: list[int]
    confidence: list[float]
    entropy: list[float]
    margin: list[float]
    ends: list[float] = field(default_factory=list[float])


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
            doubtful = changed and not canvas.revised[i] and proposals.confidence[i] >= DOUBT
            visible.append(canvas.fixed[i] or not doubtful)
    if not any(show and canvas.states[i] == "masked" for i, show in enumerate(visible)):
        masked = masked_slots(canvas)
        if masked:
            visible[max(masked, key=lambda i: proposals.confidence[i])] = True
    return visible


def at_once(canvas: Canvas, proposals: Proposals, step: Step) -> list[bool]:
    """Show everything: a draft that a causal check will judge."""
    del proposals, step
    return [True] * len(canvas)


def by_probability(canvas: Canvas, proposals: Proposals, step: Step) -> list[bool]:
    """An equal share of the slots per step, the most probable first.

    Source: MaskGIT (Chang et al. 2022, arXiv 2202.04200) with the linear schedule of LLaDA (Nie et al. 2025, arXiv
    2502.09992); `maskgit_plus` in Dream (Ye et al. 2025, arXiv 2508.15487).
    """
    return _quota(canvas, proposals.confidence, step)


def by_margin(canvas: Canvas, proposals: Proposals, step: Step) -> list[bool]:
    """An equal share per step, by the lead of the best token over the second.

    Source: top probability margin (Kim et al. 2025, arXiv 2502.06768); `topk_margin` in Dream.
    """
    return _quota(canvas, proposals.margin, step)


def by_entropy(canvas: Canvas, proposals: Proposals, step: Step) -> list[bool]:
    """An equal share per step, the least uncertain distributions first. Source: `entropy` in Dream."""
    return _quota(canvas, [-h for h in proposals.entropy], step)


def by_factor(canvas: Canvas, proposals: Proposals, step: Step) -> list[bool]:
    """The largest number n of surest slots with (n + 1)(1 - c_n) < FACTOR, c_n the least sure of them; at least one.

    Source: Fast-dLLM (arXiv 2505.22618), from its bound (n + 1) * error <= 1 under which choosing n tokens at
    once equals choosing them one by one.
    """
    order = _best_first(canvas, proposals.confidence)
    n = 1
    for count, i in enumerate(order, 1):
        if (count + 1) * (1 - proposals.confidence[i]) < FACTOR:
            n = count
    return _with(canvas, order if step.last else order[:n])


def by_entropy_bound(canvas: Canvas, proposals: Proposals, step: Step) -> list[bool]:
    """The least uncertain slots as long as their entropies, without the largest, sum to at most ENTROPY_BOUND.

    Source: EB-Sampler (Ben-Hamu et al. 2025, arXiv 2505.24857).
    """
    order = _best_first(canvas, [-h for h in proposals.entropy])
    total, n = 0.0, 0
    for i in order:
        if total > ENTROPY_BOUND:
            break
        n += 1
        total += proposals.entropy[i]
    return _with(canvas, order if step.last else order[:n])


def by_planning(canvas: Canvas, proposals: Proposals, step: Step) -> list[bool]:
    """The surest slots of all, shown or masked, their number growing linearly; the rest is masked (again).

    Source: P2, path planning (Peng et al. 2025, arXiv 2502.03540); remasking on a schedule as in ReMDM (Wang et al.
    2025, arXiv 2503.00307). One slot more than before is visible after every step at least.
    """
    free = [i for i, fixed in enumerate(canvas.fixed) if not fixed]
    shown = sum(canvas.states[i] != "masked" for i in free)
    n = max(math.ceil(len(free) * (step.index + 1) / step.limit), shown + 1)
    kept = sorted(free, key=lambda i: -proposals.confidence[i])[: len(free) if step.last else n]
    visible = list(canvas.fixed)
    for i in kept:
        visible[i] = True
    return visible


def by_editing(canvas: Canvas, proposals: Proposals, step: Step) -> list[bool]:
    """Show what is surer than EDIT_REVEAL, at least the surest; what is shown stays shown and may be edited.

    Source: LLaDA2.1 (Bie et al. 2026): masked to token, and token to token above EDIT_ABOVE (see Policy.edit_above).
    """
    order = _best_first(canvas, proposals.confidence)
    n = sum(proposals.confidence[i] >= EDIT_REVEAL for i in order)
    return _with(canvas, order if step.last else order[: max(n, 1)])


def masked_slots(canvas: Canvas) -> list[int]:
    return [i for i, state in enumerate(canvas.states) if state == "masked"]


def _quota(canvas: Canvas, score: list[float], step: Step) -> list[bool]:
    order = _best_first(canvas, score)
    share = math.ceil(len(order) / max(step.limit - step.index, 1))
    return _with(canvas, order if step.last else order[:share])


def _best_first(canvas: Canvas, score: list[float]) -> list[int]:
    """Masked slots by falling score, of equals the leftmost first."""
    return sorted(masked_slots(canvas), key=lambda i: -score[i])


def _with(canvas: Canvas, revealed: list[int]) -> list[bool]:
    visible = [state != "masked" for state in canvas.states]
    for i in revealed:
        visible[i] = True
    return visible


@dataclass(frozen=True, slots=True)
class Policy:
    """visible: the rule, None when nothing is drafted (one token at a time).

    causal: what the causal pass over a finished block does. "check" keeps the longest run that the model itself
    would have written, plus one token; "write" keeps all and only fills the KV cache.
    edit_above: a shown slot takes another token in place when that one is at least this probable; inf: never.
    polish: passes that may still edit after no slot is masked; they end when nothing changes.
    revises: a slot that is shown may change or be masked again.
    """

    name: str
    visible: Visible | None
    causal: Literal["check", "write"]
    about: str
    edit_above: float = math.inf
    polish: int = 0
    revises: bool = False


_ROWS = (
    Policy("check", at_once, "check", "draft in parallel, keep what one-at-a-time decoding would have written", 0.0),
    Policy(
        "threshold",
        by_threshold,
        "write",
        "pure diffusion: confident slots shown, doubtful ones masked again",
        edit_above=0.0,
        revises=True,
    ),
    Policy("greedy", None, "check", "one token at a time, the yardstick"),
    Policy("maskgit_plus", by_probability, "write", "an equal share per step, most probable first"),
    Policy("topk_margin", by_margin, "write", "an equal share per step, clearest lead first"),
    Policy("entropy", by_entropy, "write", "an equal share per step, least uncertain first"),
    Policy("factor", by_factor, "write", "as many slots at once as the factor bound allows"),
    Policy("entropy_bound", by_entropy_bound, "write", "as many slots at once as a bound on their entropy allows"),
    Policy("remask", by_planning, "write", "a growing number of the surest slots, others masked again", revises=True),
    Policy(
        "edit",
        by_editing,
        "write",
        "confident slots shown, shown tokens replaced by surer ones",
        edit_above=EDIT_ABOVE,
        polish=EDIT_PASSES,
        revises=True,
    ),
)
POLICIES = {policy.name: policy for policy in _ROWS}


def policy_named(name: str) -> Policy:
    """RequestError lists the names there are."""
    if name not in POLICIES:
        raise RequestError(f"unknown policy {name!r}: choose one of {', '.join(POLICIES)}")
    return POLICIES[name]


def policy_without_check(name: str, kind: str) -> Policy:
    """RequestError for a policy that needs a causal pass, which a checkpoint of this kind does not have."""
    policy = policy_named(name)
    if policy.causal == "check":
        able = ", ".join(p.name for p in POLICIES.values() if p.causal != "check")
        raise RequestError(f"policy {name!r} needs a causal checkpoint, this one is {kind}: choose {able}")
    return policy
