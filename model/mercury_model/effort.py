"""Effort: one dial, from which passes, blocks, judge rounds and candidates follow.

This module knows nothing about how they are spent.
"""

from dataclasses import dataclass

from mercury_model.draft import Effort


@dataclass(frozen=True, slots=True)
class Dial:
    """drafts: passes over a block before a causal check. steps: at most so many passes over a block that no check
    follows; the last one shows everything. copies: n-grams copied from the prompt may stand in for a draft.
    rounds: times a judge may send the text back. candidates: texts drawn and ranked by likelihood.
    span_steps: passes over a canvas between prefix and suffix that show text; those that change its length come on
    top. probes: passes of the length search before it; about 15 find the peak of up to 64 slots.
    """

    drafts: int
    steps: int
    copies: bool
    rounds: int
    candidates: int
    span_steps: int
    probes: int


DIALS: dict[Effort, Dial] = {
    "instant": Dial(drafts=1, steps=2, copies=True, rounds=0, candidates=1, span_steps=4, probes=0),
    "low": Dial(drafts=1, steps=4, copies=True, rounds=1, candidates=1, span_steps=8, probes=8),
    "medium": Dial(drafts=1, steps=8, copies=True, rounds=2, candidates=1, span_steps=16, probes=24),
    "high": Dial(drafts=2, steps=16, copies=True, rounds=4, candidates=3, span_steps=64, probes=24),
}
