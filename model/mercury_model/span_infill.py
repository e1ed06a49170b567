"""infill for the bidirectional kind: the canvas stands between prefix and suffix and is denoised in place.

How many slots it has is the checkpoint's own decision where it has expand and delete tokens, otherwise that of a
search over a few lengths. This module knows nothing about tensors, caches, documents or editors.
"""

from __future__ import annotations

from collections.abc import Iterator

from mercury_model.canvas import Canvas
from mercury_model.draft import Draft, Request
from mercury_model.length import search_length
from mercury_model.policy import DOUBT, Policy, policy_without_check
from mercury_model.refine import Resizing, refine
from mercury_model.span_rounds import candidates, judged
from mercury_model.span_run import SpanModel, SpanRun, draft_of

_HASH_COMMENTS = (".py", ".pyi", ".sh", ".bash", ".rb", ".yaml", ".yml", ".toml")


def infill_span(model: SpanModel, request: Request) -> Iterator[Draft]:
    """Fill the middle between request.prefix and request.suffix; one Draft per pass, the last has done=True.

    RequestError for an unknown policy, or one that needs a causal check. The suffix is never changed nor cut.
    """
    policy = policy_without_check(request.policy, "bidirectional")
    run = _open(model, request, policy)
    canvas = Canvas.masked(min(max(model.start_slots, 1), run.most), model.mask_id)
    if request.original:
        canvas = _rewrite(run, request.original)
        run.most += len(canvas)
        yield draft_of(run, canvas)
    elif model.expand_id is None:
        for n in search_length(run.score, len(canvas), run.most, run.dial.probes):
            canvas = Canvas.masked(n, model.mask_id)
            yield draft_of(run, canvas)
            if run.hurry():
                break
    resizing = Resizing(model.expand_id, model.delete_id, run.most)
    several = max(request.candidates, run.dial.candidates) > 1
    early = not policy.revises and not several and request.judge is None
    for step in refine(
        canvas, run.propose, policy, run.dial.span_steps, model.mask_id, resizing=resizing, hurry=run.hurry
    ):
        canvas = step
        if early and run.cut(canvas) is not None:
            break
        if canvas.n_open:
            yield draft_of(run, canvas)
    if not run.late:
        canvas = yield from judged(run, canvas)
    if several and not run.late:
        yield from candidates(run, canvas)
    else:
        yield run.finish(canvas)


def _open(model: SpanModel, request: Request, policy: Policy) -> SpanRun:
    tokens = model.tokens
    healed = tokens.healing(tokens.encode(request.prefix), request.prefix)
    first = tuple(tokens.starting_with(healed)) if healed and not request.original else ()
    prefix = request.prefix[: -len(healed)] if first else request.prefix
    shown = [*model.bos]
    for snippet in request.context:
        mark = "#" if snippet.path.endswith(_HASH_COMMENTS) else "//"
        shown += tokens.encode(f"{mark} {snippet.path}\n{snippet.text}\n\n")
    session = model.session(request.document)
    session.open([*shown, *tokens.encode(prefix)], [*tokens.encode(request.suffix), *model.eos])
    return SpanRun(model, request, policy, session, healed if first else "", first)


def _rewrite(run: SpanRun, original: str) -> Canvas:
    """The user's own code with only the doubtful slots masked; the others are fixed and cost no step."""
    tokens, mask_id = run.model.tokens, run.model.mask_id
    ids = tokens.encode(original)
    if run.request.doubtful:
        ends = [len(tokens.decode(ids[: i + 1])) for i in range(len(ids))]
        starts = [0, *ends[:-1]]
        doubtful = [
            any(s < stop and start < e for start, stop in run.request.doubtful)
            for s, e in zip(starts, ends, strict=True)
        ]
    else:
        n = len(ids)
        sure: tuple[float, ...] = (1.0,) * n
        shown = Canvas(tuple(ids), ("tentative",) * n, sure, (False,) * n, (False,) * n)
        found = run.propose(shown, False)
        doubtful = [t != own and c >= DOUBT for t, own, c in zip(found.token, ids, found.confidence, strict=True)]
    return Canvas(
        tuple(mask_id if d else t for t, d in zip(ids, doubtful, strict=True)),
        tuple("masked" if d else "settled" for d in doubtful),
        tuple(0.0 if d else 1.0 for d in doubtful),
        (False,) * len(ids),
        tuple(not d for d in doubtful),
    )
