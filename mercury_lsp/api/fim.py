"""Fill-in-the-middle and plain completion: prompt and suffix become prefix and suffix of a Request.

This module knows nothing about HTTP, streaming or who runs when.
"""

from functools import partial

from mercury_lsp import syntax
from mercury_lsp.actions.rewriting import repeats
from mercury_lsp.api.answering import Json, Question, Stopping
from mercury_lsp.api.sampling import sampled
from mercury_lsp.api.shapes import FIM_STOP, FimRequest
from mercury_lsp.languages import language_of
from mercury_model.draft import Request, Snippet

DEFAULT_TOKENS = 512
NO_SUFFIX = "<|endoftext|>"
"""What Continue sends in place of an empty suffix."""
JUDGED = 200_000
"""Characters: a longer text gets no syntax verdict."""


def question(body: FimRequest, *, plain: bool = False) -> Question:
    """plain: /v1/completions, where a request without a suffix has no stop sequences of its own. Raises ApiError."""
    prefix = body.prompt if isinstance(body.prompt, str) else body.prompt[0]
    suffix = "" if body.suffix is None or body.suffix.strip() == NO_SUFFIX else body.suffix
    rewriting = body.original is not None
    chosen = sampled(body, "text", () if rewriting or (plain and not suffix) else FIM_STOP)
    context = tuple(Snippet(piece.path, piece.text) for piece in body.context or ())
    # a rewrite has its own ends
    end = None if rewriting else Stopping(chosen.stop, (partial(repeats, suffix),))
    request = Request(
        prefix=prefix,
        suffix=suffix,
        path=body.path or "",
        context=context,
        original=body.original,
        instruction=body.instruction or "",
        max_tokens=body.max_tokens or DEFAULT_TOKENS,
        policy=chosen.policy,
        effort=chosen.effort,
        temperature=chosen.temperature,
        top_p=chosen.top_p,
        top_k=chosen.top_k,
        seed=chosen.seed,
        end=end,
    )
    language = language_of(body.language or body.path or "")
    return Question(
        kind="text",
        model=body.model,
        request=request,
        shown="".join([*(f"{s.path}\n{s.text}" for s in context), suffix, prefix, body.original or ""]),
        stop=() if rewriting else chosen.stop,
        whole=rewriting,
        extra=partial(verdict, prefix, body.original or "", suffix, language) if language else None,
        warning=chosen.warning,
        stream=bool(body.stream),
        diffusing=bool(body.diffusing and body.stream),
        canvas=bool(body.canvas),
        include_usage=bool(body.stream_options and body.stream_options.include_usage),
    )


def verdict(prefix: str, original: str, suffix: str, language: str, text: str) -> Json:
    """Syntax errors before and after; `valid` says whether the code parses no worse, null where nobody can tell."""
    if len(prefix) + len(suffix) + len(text) + len(original) > JUDGED:
        return {"valid": None}
    before = syntax.n_errors(prefix + original + suffix, language)
    after = syntax.n_errors(prefix + text + suffix, language)
    valid = None if before is None or after is None else after <= before
    return {"valid": valid, "errors_before": before, "errors_after": after}
