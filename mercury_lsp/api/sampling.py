"""From the sampling fields of a request to those of a Request: ranges, defaults, stop sequences, warnings.

A temperature outside the range of an endpoint is not an error: the default is used and the answer says so, as
published. 0 is allowed everywhere: it takes the most probable tokens, so answers repeat. This module knows nothing
about prompts.
"""

from dataclasses import dataclass

from mercury_lsp.api.shapes import Sampling
from mercury_model.draft import AUTO, Effort


@dataclass(frozen=True, slots=True)
class Range:
    low: float
    high: float
    default: float


TEMPERATURES = {"chat": Range(0.5, 1.0, 0.75), "text": Range(0.0, 1.0, 0.0), "edit": Range(0.0, 2.0, 0.0)}
"""Endpoint kind -> range. The default of "edit" is published as 0.2; edits are wanted the same each time."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """temperature, top_p, top_k, seed, policy and effort of a Request; warning: what was not taken."""

    temperature: float
    top_p: float
    top_k: int
    seed: int
    policy: str
    effort: Effort
    stop: tuple[str, ...]
    warning: str | None


def sampled(body: Sampling, kind: str, stop: tuple[str, ...] = ()) -> Sampled:
    """stop: what ends the text where the request names nothing."""
    allowed = TEMPERATURES[kind]
    temperature, warning = allowed.default, None
    if body.temperature is not None:
        # "not in between" refuses nan as well
        if body.temperature == 0 or allowed.low <= body.temperature <= allowed.high:
            temperature = body.temperature
        else:
            warning = (
                f"temperature must be from {allowed.low} to {allowed.high}, or 0: {allowed.default} was used instead"
            )
    if body.stop is not None:
        stop = (body.stop,) if isinstance(body.stop, str) else tuple(body.stop)
    return Sampled(
        temperature=temperature,
        top_p=body.top_p or 1.0,
        top_k=max(0, body.top_k or 0),
        # torch takes seeds of 64 bits, and the run multiplies
        seed=(body.seed or 0) % (1 << 31),
        policy=body.policy or AUTO,
        effort=body.reasoning_effort or "medium",
        stop=tuple(s for s in stop if s),
        warning=warning,
    )
