"""The end probe: does the middle end behind this token?

A small head on the base's final hidden states of the causal check, which are computed anyway. It sees besides how
the suffix begins, and how much of the base's own probability for the next token lies on tokens with which the
suffix could begin: a model that was never taught to stop goes on with the suffix where the middle ends.

The end often lies inside a token: `)` and the suffix's line feed are one token where the model writes them. So the
question is whether the end is reached with this token, and overlap() says what of it belongs to the suffix.

This module knows nothing about syntax, policies or training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from mercury_model.errors import CheckpointError
from mercury_model.policy import Proposals
from mercury_model.tokens import Tokens

FORMAT = "mercury-probe-1"
SUFFIX_TOKENS = 8
SUFFIX_CHARS = 24
N_SIGNS = 6
"""Numbers per row beside the vectors; see signs()."""


@dataclass(frozen=True, slots=True)
class Ending:
    """What the probe knows of a suffix. text: its beginning.

    vector [2H]: its first token's embedding, and the mean of its first ones. openings: by the number of characters
    that are written already, the tokens with which what is left can begin; filled as they are asked for.
    """

    text: str
    vector: Tensor
    tokens: Tokens
    openings: dict[int, Tensor]

    def left(self, written: int) -> Tensor:
        """i64 [n], never empty."""
        if written not in self.openings:
            found = openings(self.tokens, self.text[written:])
            self.openings[written] = torch.tensor(found, device=self.vector.device)
        return self.openings[written]


def ending(tokens: Tokens, embed: Tensor, suffix: str) -> Ending:
    """embed [V, H]. An empty suffix begins with the end token."""
    text = suffix[: 4 * SUFFIX_CHARS]
    ids = tokens.encode(text)[:SUFFIX_TOKENS] or [tokens.end]
    rows = embed[torch.tensor(ids, device=embed.device)].float()
    return Ending(text, torch.cat([rows[0], rows.mean(0)]), tokens, {})


def openings(tokens: Tokens, text: str) -> list[int]:
    """The tokens whose text is a beginning of `text`, the end token for an empty one; ascending."""
    if not text:
        return [tokens.end]
    found = {tokens.encode(text[: 4 * SUFFIX_CHARS])[0]}
    for n in range(1, min(SUFFIX_CHARS, len(text)) + 1):
        whole = tokens.encode(text[:n])
        if len(whole) == 1:
            found.add(whole[0])
    return sorted(found)


def overlap(text: str, suffix: str) -> int:
    """How many characters at the end of `text` are the suffix's beginning already."""
    return next((n for n in range(min(len(text), len(suffix)), 0, -1) if text.endswith(suffix[:n])), 0)


def signs(
    hidden: Tensor,
    embed: Tensor,
    about: Ending,
    written: Sequence[str],
    token: Tensor,
    confidence: Tensor,
    end: int,
) -> Tensor:
    """[R, 6]: log of the probability that what is left of the suffix opens next, of the end token, of the row's next
    token; whether that is one that opens it; whether and how far the row's own token reaches into the suffix.

    hidden [R, H]; written: the text of each row's own token; token [R] and confidence [R] are what the check proposed
    behind it: together with its logit they give the softmax's denominator, so the vocabulary is not gone through again.
    """
    hidden = hidden.float()
    log_p = confidence.float().clamp_min(1e-9).log()
    total = (hidden * embed[token].float()).sum(-1) - log_p
    stop = hidden @ embed[end].float() - total
    into = [overlap(text, about.text) for text in written]
    left = [about.left(n) for n in into]
    opening = torch.stack([(row @ embed[ids].float().T).logsumexp(-1) for row, ids in zip(hidden, left, strict=True)])
    opens = torch.stack([(one == ids).any() for one, ids in zip(token, left, strict=True)]).float()
    reached = torch.tensor(into, device=hidden.device, dtype=torch.float32)
    # logarithms of probabilities in units of 5 nats, so that all signs are of the same size
    rows = [(opening - total).clamp(-20, 0) / 5, stop.clamp(-20, 0) / 5, log_p / 5, opens]
    return torch.stack([*rows, (reached > 0).float(), reached.log1p()], -1)


class Probe:
    """of_hidden [r, H], of_suffix [r, 2H], of_signs [r, 6], bias [r], out [r], direct [6], out_bias [].

    end: the end token.
    """

    def __init__(self, parts: dict[str, Tensor], embed: Tensor, end: int, threshold: float) -> None:
        self.parts = {name: tensor.to(embed.device, torch.float32) for name, tensor in parts.items()}
        self.embed = embed
        self.end = end
        self.threshold = threshold

    @staticmethod
    def load(path: Path, embed: Tensor, end: int) -> Probe:
        """embed [V, H]: the base's. CheckpointError says what does not fit."""
        try:
            with safe_open(path, framework="pt") as file:
                meta = file.metadata() or {}
                parts: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if meta.get("format") != FORMAT or parts["of_hidden"].shape[1] != embed.shape[1]:
                raise CheckpointError(f"{path.name}: probe and base do not match; reinstall mercury-lsp")
            return Probe(parts, embed, end, float(meta["threshold"]))
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            raise CheckpointError(f"{path.name}: the end probe cannot be read ({error}); reinstall") from None

    @torch.inference_mode()
    def ends(
        self,
        hidden: Tensor,
        about: Ending,
        written: Sequence[str],
        token: Sequence[int],
        confidence: Sequence[float],
    ) -> list[float]:
        """For each row [R, H] of a causal check: the probability that the middle ends with the row's token.

        written: the text of each row's token. token, confidence: what the check proposed behind it. A probability of
        at least `threshold` means: end here, without the characters that overlap() counts.
        """
        device = hidden.device
        following = torch.tensor(token, device=device), torch.tensor(confidence, device=device)
        extra = signs(hidden, self.embed, about, written, *following, self.end)
        return score(self.parts, hidden, about.vector[None], extra).sigmoid().tolist()


class Watching:
    """The probe over one middle, whose suffix is known."""

    def __init__(self, probe: Probe, tokens: Tokens, suffix: str) -> None:
        self._probe, self._tokens = probe, tokens
        self._about = ending(tokens, probe.embed, suffix)

    def over(self, ids: Sequence[int]) -> Callable[[Tensor, Proposals], list[float]]:
        """What a causal pass over `ids` is watched with: see denoiser.Watch."""
        written = [self._tokens.decode([token]) for token in ids]
        return lambda hidden, found: self._probe.ends(hidden, self._about, written, found.token, found.confidence)

    def final(self, ends: Sequence[float], first: int) -> int | None:
        """The first row, from `first` on, with whose token the middle ends; None if it goes on."""
        return next((i for i in range(first, len(ends)) if ends[i] >= self._probe.threshold), None)

    def kept(self, text: str, token: int) -> str:
        """`text`, whose last token is `token`, without what of that token is the suffix's beginning already."""
        return text[: len(text) - overlap(self._tokens.decode([token]), self._about.text)]


def score(parts: dict[str, Tensor], hidden: Tensor, suffix: Tensor, extra: Tensor) -> Tensor:
    """The head itself: hidden [R, H], suffix [1 or R, 2H], extra [R, 6] -> logits [R]."""
    x = hidden.float() @ parts["of_hidden"].T + suffix @ parts["of_suffix"].T + extra @ parts["of_signs"].T
    return torch.nn.functional.silu(x + parts["bias"]) @ parts["out"] + extra @ parts["direct"] + parts["out_bias"]
