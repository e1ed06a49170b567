"""Runs under an interpreter that has llama-cpp-python: loads a GGUF file, answers one JSON object a line with another.

    python -P llama_cpp_child.py FILE.gguf THREADS CONTEXT

Nothing of this project is imported, for that interpreter need not have it. The prompt is the one that llama-server
makes of what llama.vim sends it without other files: prefix, suffix, middle; the lines before the cursor's line and
the cursor's line up to the cursor are tokenized apart. It knows nothing about when a middle ends, but for special
tokens: whoever asks decides by not asking for the `next` token.
"""

import codecs
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

MARKS = ("<|repo_name|>", "<|file_sep|>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
REPOSITORY, FILE = "myproject\n", "filename\n"
"""llama-server does not know the names and always writes these."""

Answer = dict[str, Any]


class Peer:
    """The loaded model, its cache, and the middle that is being written."""

    def __init__(self, path: str, threads: int, n_ctx: int) -> None:
        module: Any = importlib.import_module("llama_cpp")
        self.version = str(module.__version__)
        began = time.perf_counter()
        self._llm: Any = module.Llama(
            model_path=path, n_ctx=n_ctx, n_batch=512, n_threads=threads, n_threads_batch=threads, verbose=False
        )
        self.load = time.perf_counter() - began
        self._marks = [self._mark(name) for name in MARKS]
        self._document = ""
        self._cached: list[int] = []
        self._tokens: Iterator[int] = iter(())
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def count(self, text: str) -> Answer:
        return {"n": len(self._ids(text))}

    def begin(self, document: str, before: str, line: str, suffix: str) -> Answer:
        """Reads the prompt, gives the first token. document: whose cache goes on; without a name there is none.

        prefilled: tokens of the prompt that were read besides the last; all in one go, which chooses the first token.
        """
        repository, file, fim_prefix, fim_suffix, fim_middle = self._marks
        ids = [repository, *self._ids(REPOSITORY), file, *self._ids(FILE)]
        ids += [fim_prefix, *self._ids(before), *self._ids(line), fim_suffix, *self._ids(suffix), fim_middle]
        if not document or document != self._document:
            self._llm.reset()
            self._cached = []
        self._document = document
        common = 0
        for have, want in zip(self._cached, ids, strict=False):
            if have != want:
                break
            common += 1
        self._cached = list(ids)
        self._decoder.reset()
        self._tokens = self._llm.generate(ids, temp=0.0, top_k=1, top_p=1.0, min_p=0.0, repeat_penalty=1.0)
        return {"prefilled": max(0, len(ids) - common - 1), **self.next()}

    def next(self) -> Answer:
        token = int(next(self._tokens))
        piece: bytes = self._llm.detokenize([token])
        self._cached.append(token)
        return {"text": self._decoder.decode(piece), "end": not piece}  # special tokens have no text

    def passes(self, text: str) -> Answer:
        """Seconds and speeds of its passes over `text`, which must have 460 tokens or more."""
        ids = self._ids(text)
        llm = self._llm
        self._document = ""

        def timed(part: Sequence[int]) -> float:
            began = time.perf_counter()
            llm.eval(part)
            return time.perf_counter() - began

        def read(n: int) -> float:
            llm.reset()
            return timed(ids[:n])

        found: Answer = {"load, s": round(self.load, 1)}
        found["prefill, tokens/s"] = round(min(512, len(ids)) / statistics.median([read(512) for _ in range(3)]))
        read(384)
        single = [timed(ids[384 + n : 385 + n]) for n in range(32)]
        found["decoding one at a time, tokens/s"] = round(1 / statistics.median(single))
        for n in (8, 16, 32):
            times = [timed(ids[416 : 416 + n]) for _ in range(5)]
            found[f"batch of {n}, ms"] = round(1000 * statistics.median(times))
        return found

    def _ids(self, text: str) -> list[int]:
        return list(self._llm.tokenize(text.encode("utf-8", "replace"), add_bos=False, special=False)) if text else []

    def _mark(self, name: str) -> int:
        ids = self._llm.tokenize(name.encode(), add_bos=False, special=True)
        if len(ids) != 1:
            raise ValueError(f"the model has no token {name}, so it fills no middles")
        return int(ids[0])


def main(path: str, threads: str, n_ctx: str) -> None:
    peer = Peer(path, int(threads), int(n_ctx))
    answer(version=peer.version, load=peer.load)
    operations: dict[str, Callable[..., Answer]] = {
        "count": peer.count,
        "begin": peer.begin,
        "next": peer.next,
        "passes": peer.passes,
    }
    for line in sys.stdin:
        order = json.loads(line)
        answer(**operations[order.pop("op")](**order))


def answer(**found: Any) -> None:
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
