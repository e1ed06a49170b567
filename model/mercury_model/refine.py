"""The refine loop, the same for both kinds of denoiser: propose, decide, show, until no slot is masked.

Where the checkpoint has expand and delete tokens (DreamOn, Wu et al. 2026, arXiv 2602.01326) the loop also changes
the canvas' length, several slots in one step and together with parallel reveal; DreamOn itself does one slot per step.
This module knows nothing about logits, caches, prompts or text.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace

from mercury_model.canvas import Canvas
from mercury_model.policy import Policy, Proposals, Step, masked_slots

RESIZE_ABOVE = 0.7
"""An expansion or deletion this probable is done even where the policy would wait: it fixes no text, and a wrong one
is undone by its opposite."""

Propose = Callable[[Canvas, bool], Proposals]
"""(canvas, may it grow) -> proposals for its slots; one forward pass."""


@dataclass(frozen=True, slots=True)
class Resizing:
    """expand: the token that makes one masked slot two. delete: the token that removes one; None: there is none.

    The canvas never has more than max_slots slots, nor are there more expansions than that in all.
    """

    expand: int | None
    delete: int | None
    max_slots: int


@dataclass(frozen=True, slots=True)
class Want:
    """A pass is wanted: proposals for the canvas' slots. may_grow: expansions are answers too."""

    canvas: Canvas
    may_grow: bool


def _never() -> bool:
    return False


def refine(
    canvas: Canvas,
    propose: Propose,
    policy: Policy,
    limit: int,
    mask_id: int,
    *,
    resizing: Resizing | None = None,
    hurry: Callable[[], bool] = _never,
) -> Iterator[Canvas]:
    """Like refining, with a function that runs the passes; yields the canvas after each."""
    steps = refining(canvas, policy, limit, mask_id, resizing=resizing, hurry=hurry)
    for item in steps:
        while isinstance(item, Want):
            item = steps.send(propose(item.canvas, item.may_grow))
        yield item


def refining(
    canvas: Canvas,
    policy: Policy,
    limit: int,
    mask_id: int,
    *,
    resizing: Resizing | None = None,
    hurry: Callable[[], bool] = _never,
) -> Generator[Canvas | Want, Proposals, None]:
    """Yields a Want before each pass, to be answered by send(proposals), and the canvas after it.

    At most `limit` passes, plus policy.polish, plus those that change the length. hurry: asked before a pass; when
    true, that pass shows all that is left. Every slot is visible in the last canvas.
    """
    rule = policy.visible
    assert rule is not None, "nothing is drafted under this policy"
    resizing = resizing or Resizing(None, None, len(canvas))
    index = polished = grown = 0
    while canvas.n_open or polished < policy.polish:
        polished += not canvas.n_open
        hurried = hurry()
        room = 0 if hurried else min(resizing.max_slots - len(canvas), resizing.max_slots - grown)
        sizes = (resizing.expand, resizing.delete)
        proposals = hold(canvas, (yield Want(canvas, room > 0)), policy.edit_above, sizes)
        wants = {i for i in masked_slots(canvas) if proposals.token[i] in sizes}
        last = hurried or index >= limit - 1
        # the text waits for the length: nothing is forced while slots still ask for more or less room
        due = last and not hurried and bool(wants)
        visible = [s != "masked" for s in canvas.states] if due else rule(canvas, proposals, Step(index, last, limit))
        acting = {i for i in wants if due or visible[i] or proposals.confidence[i] >= RESIZE_ABOVE}
        growing = sorted(
            (i for i in acting if proposals.token[i] == resizing.expand), key=lambda i: -proposals.confidence[i]
        )[: max(room, 0)]
        shrinking = {i for i in acting if proposals.token[i] == resizing.delete}
        for i in wants:
            visible[i] = False
        before = canvas
        canvas = canvas.after(proposals.token, proposals.confidence, visible, mask_id)
        if growing or shrinking:
            canvas = canvas.resized(set(growing), shrinking, mask_id)
            grown += len(growing)
        else:
            index += 1
        yield canvas
        if hurried or (not before.n_open and canvas.tokens == before.tokens):
            return


def hold(canvas: Canvas, proposals: Proposals, edit_above: float, sizes: tuple[int | None, ...] = ()) -> Proposals:
    """Shown slots keep their token unless another one is at least `edit_above` probable; fixed ones keep it always.

    `sizes`: tokens that are no text, which a shown slot never takes.
    A kept token's confidence is what the other one leaves for it, at most what it was shown with.
    """
    token, confidence = list(proposals.token), list(proposals.confidence)
    for i, state in enumerate(canvas.states):
        if state == "masked" or token[i] == canvas.tokens[i]:
            continue
        if canvas.fixed[i] or confidence[i] < edit_above or token[i] in sizes:
            token[i], confidence[i] = canvas.tokens[i], min(canvas.confidence[i], 1 - confidence[i])
    return replace(proposals, token=token, confidence=confidence)
