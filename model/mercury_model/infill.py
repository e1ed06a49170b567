"""infill: the whole public face of the model.

Iterating over the drafts is streaming, stopping is cancelling. No callbacks into the caller but the request's own
pure functions, no threads, no asyncio. This module knows nothing about tensors, documents or editors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mercury_model.candidates import infill_candidates
from mercury_model.denoiser import BlockDenoiser
from mercury_model.draft import AUTO, Draft, Request
from mercury_model.effort import DIALS
from mercury_model.errors import RequestError
from mercury_model.filling import Run, drive
from mercury_model.policy import policy_without_check
from mercury_model.prompt import prompt
from mercury_model.rewriting import rewrite
from mercury_model.rounds import fill_judged
from mercury_model.span_infill import infill_span
from mercury_model.span_run import SpanModel


def default_policy(denoiser: BlockDenoiser | SpanModel) -> str:
    """What a request gets that names no policy."""
    return "check" if isinstance(denoiser, BlockDenoiser) and denoiser.causal else "threshold"


def infill(denoiser: BlockDenoiser | SpanModel, request: Request) -> Iterator[Draft]:
    """Fill the middle between request.prefix and request.suffix; one Draft per pass, the last has done=True.

    RequestError for an unknown policy. "auto" is "check" for a causal denoiser, "threshold" for the others. With
    "check" and temperature 0 the text is the text of one-at-a-time greedy decoding of the same weights.
    """
    request = replace(request, policy=default_policy(denoiser)) if request.policy == AUTO else request
    if not isinstance(denoiser, BlockDenoiser):
        if request.messages:
            raise RequestError("this model fills middles and does not converse: choose one of the block kind")
        yield from infill_span(denoiser, request)
        return
    if not denoiser.causal:
        policy_without_check(request.policy, "block-causal")
    if request.original is not None:
        yield from rewrite(denoiser, request)
        return
    if max(request.candidates, DIALS[request.effort].candidates) > 1:
        yield from infill_candidates(denoiser, request)
        return
    run = Run(denoiser, request, denoiser.session(request.document), prompt(denoiser.tokens, request))
    yield from drive(run, fill_judged(run))
