"""A scripted Infiller: tests everything above the model without weights.

It knows nothing about tokens: a "token" is a word or a single other character.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from mercury_model.draft import Draft, ModelInfo, Request, Slot


class FakeInfiller:
    """Answers each request with the text that `script` returns, revealed `per_step` tokens a pass.

    A form feed in the script separates candidates; a request that does not ask for several gets the first.
    likelihood: what `log_likelihood` says of a request and a text; without one every text is as probable as another.
    delay: seconds each pass takes. runs, passes: how many requests began, how many passes ran.
    """

    def __init__(self, script: Callable[[Request], str] | str = "", *, delay: float = 0.0, per_step: int = 4) -> None:
        self.script = script
        self.likelihood: Callable[[Request, str], float] = lambda _, text: 0.0
        self.delay = delay
        self.per_step = per_step
        self.requests: list[Request] = []
        self.passes = 0
        self.lock = threading.Lock()

    @property
    def info(self) -> ModelInfo:
        return ModelInfo(name="fake", device="cpu", kind="block")

    @property
    def runs(self) -> int:
        return len(self.requests)

    def count_tokens(self, text: str, /) -> int:
        return len(re.findall(r"\w+|\W", text))

    def log_likelihood(self, request: Request, texts: Sequence[str], /) -> list[float]:
        with self.lock:
            self.passes += len(texts)
        return [self.likelihood(request, text) for text in texts]

    def __call__(self, request: Request, /) -> Iterator[Draft]:
        self.requests.append(request)
        answer = self.script(request) if callable(self.script) else self.script
        for candidate, text in enumerate(answer.split("\f")[: request.candidates]):
            yield from self._passes(request, text, candidate)

    def _passes(self, request: Request, answer: str, candidate: int) -> Iterator[Draft]:
        tokens = re.findall(r"\w+|\W", answer)
        shown = 0
        while True:
            if self.delay:
                time.sleep(self.delay)
            with self.lock:
                self.passes += 1
            shown = min(len(tokens), shown + self.per_step)
            text = "".join(tokens[:shown])
            ended = "end" if shown == len(tokens) else ""
            if request.end is not None and (keep := request.end(text)) is not None:
                text, ended = text[:keep], "rule"
            slots = tuple(Slot(t, "settled", 1.0) for t in tokens[:shown]) + tuple(
                Slot("", "masked", 0.0) for _ in tokens[shown:]
            )
            yield Draft(
                text=text,
                slots=slots,
                settled=len(text),
                confidence=1.0,
                n_open=len(tokens) - shown,
                n_tokens=shown,
                forwards=float(-(-shown // self.per_step)),
                candidate=candidate,
                done=bool(ended),
                ended=ended,
            )
            if ended:
                return
