"""The prompt, suffix first: <|fim_prefix|><|fim_suffix|>{suffix}<|fim_middle|>{prefix}, then the block.

With the prefix last, typing only appends to the context: the KV cache stays exact and a keystroke costs the typed
tokens. Repository context stands before it, each piece behind <|file_sep|> and its path. Measured on 80 single-line
HumanEval-Infilling tasks with the embedded model, this order gives 77.5% pass@1 and prefix-suffix-middle 57.5%.

This module knows nothing about windows and budgets: what it is given it shows.
"""

from __future__ import annotations

from dataclasses import dataclass

from mercury_model.draft import Request
from mercury_model.tokens import Tokens


@dataclass(frozen=True, slots=True)
class Prompt:
    """ids: everything before the block, never empty. healed: text taken back from the prefix's end; what is
    generated must begin with it.
    """

    ids: list[int]
    healed: str


def prompt(tokens: Tokens, request: Request) -> Prompt:
    ids: list[int] = []
    for snippet in request.context:
        ids += [tokens.file_sep, *tokens.encode(f"{snippet.path}\n{snippet.text}")]
    if ids and request.path:
        ids += [tokens.file_sep, *tokens.encode(f"{request.path}\n")]
    ids += [tokens.fim_prefix, tokens.fim_suffix, *tokens.encode(request.suffix), tokens.fim_middle]
    prefix_ids = tokens.encode(request.prefix)
    healed = tokens.healing(prefix_ids, request.prefix)
    if healed:
        prefix_ids = tokens.encode(request.prefix[: -len(healed)])
    return Prompt(ids + prefix_ids, healed)
