"""What goes into the model and what comes out: Request and Draft.

Values only. This module knows nothing about tokens' ids, tensors, files or editors; it is the whole
vocabulary in which the server, the command line and the HTTP API speak to the denoiser.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

Effort = Literal["instant", "low", "medium", "high"]
SlotState = Literal["masked", "tentative", "settled"]
Ended = Literal["", "end", "rule", "length", "deadline"]

AUTO = "auto"
"""The policy that suits the model: ModelInfo.policy."""

MASK_GLYPH = "░"
"""How a masked slot is drawn where text is shown to people; never part of Draft.text."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """A piece of repository context: text of another place, shown to the model under its path."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Request:
    """One region to fill or rewrite.

    prefix, suffix: the text before and after the region, already cut to the windows that may be shown.
    document: whose KV cache to use; requests of the same document reuse it (an empty name: no reuse).
    original: the code that stands in the region now, when it is to be rewritten; the first canvas is then
        this code, and only the slots under `doubtful` (character spans of it) or, without any, the slots the
        model itself doubts, are masked.
    copies: n-grams copied from the prompt may stand in for a draft; the text is the same, with fewer passes.
    guess: text the middle probably starts with (copied n-grams, the rest of an earlier suggestion); it is
        checked, never trusted.
    end: text so far -> number of its characters to keep if the middle is complete there, else None.
    judge: finished text -> character spans it objects to; the slots under them are masked again.
    deadline: time.monotonic() seconds after which what is left is revealed in one last step.
    messages: a conversation, (role, text) each, that takes the place of prefix and suffix: the text is the next
        answer, or the rest of the last message where that is the assistant's own. Block denoisers only.
    """

    prefix: str
    suffix: str
    document: str = ""
    path: str = ""
    context: tuple[Snippet, ...] = ()
    original: str | None = None
    doubtful: tuple[tuple[int, int], ...] = ()
    instruction: str = ""
    guess: str = ""
    max_tokens: int = 64
    policy: str = AUTO
    effort: Effort = "medium"
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    candidates: int = 1
    copies: bool = True
    end: Callable[[str], int | None] | None = None
    judge: Callable[[str], Sequence[tuple[int, int]]] | None = None
    deadline: float | None = None
    messages: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Slot:
    """One position of the canvas as people may see it."""

    text: str
    state: SlotState
    confidence: float
    revised: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """The state of the middle after one forward pass; the last one has done=True.

    text: settled and tentative text in order, masked slots left out: what an editor may show now.
    settled: how many characters of `text`, from its start, will not change any more.
    confidence: geometric mean of the visible tokens' probabilities, 0 to 1.
    n_open: masked slots left. n_tokens: visible tokens.
    forwards: full-depth forward passes so far, prefill apart. prefilled: tokens run through prefill.
    copied: tokens that were copied from elsewhere and found right, instead of drafted.
    ended: why the middle ended, empty while it has not.
    """

    text: str
    slots: tuple[Slot, ...] = ()
    settled: int = 0
    confidence: float = 0.0
    n_open: int = 0
    n_tokens: int = 0
    forwards: float = 0.0
    prefilled: int = 0
    copied: int = 0
    done: bool = False
    ended: Ended = ""
    candidate: int = 0
    ms: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What is loaded. device: "cpu" or "cuda:0". kind: "block", "bidirectional" or "remote".

    policy: what a request gets that names none.
    """

    name: str
    device: str
    kind: str
    memory_bytes: int = 0
    context_tokens: int = 1024
    adapter: str = ""
    policy: str = "check"


class Infiller(Protocol):
    """The seam between everything above the model and the model.

    Calling it returns an iterator of Drafts: iterating is streaming, stopping is cancelling.
    Tests plug a scripted one in here.
    """

    @property
    def info(self) -> ModelInfo: ...

    def __call__(self, request: Request, /) -> Iterator[Draft]: ...

    def count_tokens(self, text: str, /) -> int:
        """Number of tokens of `text`: what budgets are counted in."""
        ...


@runtime_checkable
class Scorer(Protocol):
    """What an Infiller may be able to do besides: say how probable given texts are. Remote ones are not."""

    def log_likelihood(self, request: Request, texts: Sequence[str], /) -> list[float] | None:
        """Log probabilities (nats) of the texts at the request's place, from where they begin to differ.

        Only their differences mean anything. None where the loaded model has no causal view of a text.
        """
        ...
