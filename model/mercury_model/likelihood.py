"""How probable the base finds given texts between a prefix and a suffix: what chooses among edits somebody else made.

One causal pass a text of up to 256 tokens, behind what all of them begin with. This module writes nothing and knows
nothing about where the texts come from.
"""

from __future__ import annotations

from collections.abc import Sequence

from mercury_model.denoiser import BlockDenoiser, perform
from mercury_model.draft import Request
from mercury_model.prompt import prompt


def log_likelihood(denoiser: BlockDenoiser, request: Request, texts: Sequence[str]) -> list[float]:
    """Of each text, the log probability (nats) of what it does not share with all the others from its beginning on.

    All are read behind the prompt of `request`, so that their differences are comparable: what is to be weighed
    belongs into every text, also the code behind an edit. An empty list for no texts.
    """
    shown = prompt(denoiser.tokens, request)
    encoded = [denoiser.tokens.encode(shown.healed + text) for text in texts]
    if not encoded:
        return []
    common = _n_common(encoded)
    context = [*shown.ids, *encoded[0][:common]]
    session = denoiser.session(request.document)
    for ask in session.prefill(context[:-1]):
        perform(denoiser.transformer, [ask])
    return [
        sum(session.score([context[-1], *ids[common:-1]], ids[common:]).log_p) if len(ids) > common else 0.0
        for ids in encoded
    ]


def _n_common(encoded: Sequence[Sequence[int]]) -> int:
    """How many ids all begin with."""
    shortest = min(map(len, encoded))
    return next((i for i in range(shortest) if len({ids[i] for ids in encoded}) > 1), shortest)
