"""How far drafts agree with what is to be accepted: accuracy of the k-th slot, tokens accepted a round.

    python model/train/evaluate_slots.py --rollouts .cache/train/heldout.jsonl --adapter FILE --plain --plot slots.svg

Rounds as in decoding, along the base's own continuations of held-out contexts: draft behind the last known token,
accept the equal beginning and one token more, go on behind it. Prints one JSON object per method, and draws the slots
with --plot. The seconds are those of the drafts; a round costs a causal check besides.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before torch: threads that wait must not spin

import torch
from frozen import Base, load_base, run
from rollouts import Rollout, read_rollouts
from torch import Tensor

from mercury_kernels import unmask
from mercury_lsp.evaluation.charts import curve
from mercury_model.adapter import MASK_ID, load_adapter
from mercury_model.drafter import load_drafter
from mercury_model.transformer import KVCache, Rows, Transformer

SLOTS = 7

Drafts = Callable[[KVCache, int, Tensor], Sequence[int]]
"""The base's cache up to the last known token, that token, the hidden state that predicted it -> a token per slot."""


@dataclass(slots=True)
class Tally:
    """right[k] of n rounds had the (k + 1)-th slot right, 0 where nothing was drafted.

    accepted: tokens in all, the check's own among them.
    """

    right: list[int] = field(default_factory=lambda: [0] * SLOTS)
    n: int = 0
    accepted: int = 0
    seconds: float = 0.0

    @property
    def slots(self) -> list[float]:
        """Per cent right, by slot."""
        return [round(100 * right / max(1, self.n), 1) for right in self.right]

    def report(self) -> dict[str, object]:
        n = max(1, self.n)
        return {
            "rounds": self.n,
            "slots": self.slots,
            "accepted_per_round": round(self.accepted / n, 3),
            "ms_per_draft": round(1000 * self.seconds / n, 2),
        }


@torch.inference_mode()
def rounds(base: Base, drafts: Drafts, sequences: Sequence[Rollout]) -> Tally:
    """Sequences are followed to where a whole block no longer fits."""
    tally = Tally()
    for sequence in sequences:
        cache = base.transformer.new_cache()
        ids = torch.tensor(sequence.ids, dtype=torch.int64, device=base.device)
        hidden = run(base.transformer, ids, cache)
        cache.reserve(len(ids) + SLOTS + 1)
        at = sequence.context - 1
        while at + SLOTS < len(ids):
            behind = slice(at, at + SLOTS + 1)
            kept = cache.keys[:, :, behind].clone(), cache.values[:, :, behind].clone()
            cache.length = at
            began = time.perf_counter()
            tokens = drafts(cache, sequence.ids[at], hidden[at - 1])
            tally.seconds += time.perf_counter() - began
            cache.keys[:, :, behind], cache.values[:, :, behind] = kept
            equal = [token == sequence.ids[at + 1 + k] for k, token in enumerate(tokens)]
            n = (*equal, False).index(False) + 1
            tally.right = [right + same for right, same in zip_longest(tally.right, equal, fillvalue=False)]
            tally.n += 1
            tally.accepted += n
            at += n
    return tally


def full_depth(transformer: Transformer) -> Drafts:
    """One bidirectional pass of all layers over the last known token and masks, with the adapter if there is one."""

    def drafts(cache: KVCache, last: int, before: Tensor) -> Sequence[int]:
        del before
        ids = torch.tensor([last, *[MASK_ID] * SLOTS], device=transformer.device)
        hidden = transformer.forward([Rows(ids, cache, cache.length, bidirectional=True, adapted=True)])[0]
        return unmask(hidden[:SLOTS], transformer.weights.lm_head).token.tolist()

    return drafts


def light(path: Path, transformer: Transformer) -> Drafts:
    drafter = load_drafter(path, transformer)
    return lambda cache, last, before: drafter.draft(cache, last, before).token


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure drafts slot by slot.")
    parser.add_argument("--rollouts", type=Path, required=True)
    parser.add_argument("--limit", type=int, help="sequences")
    parser.add_argument("--plain", action="store_true", help="the base with a mask that was never trained")
    parser.add_argument("--adapter", type=Path, action="append", default=[])
    parser.add_argument("--drafter", type=Path, action="append", default=[])
    parser.add_argument("--plot", type=Path, help="an SVG of the slots' accuracy")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    base = load_base(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    sequences = read_rollouts(options.rollouts)[: options.limit]
    weights, config = base.transformer.weights, base.config
    methods: dict[str, Drafts] = {}
    if options.plain:
        methods["untrained mask"] = full_depth(base.transformer)
    for path in options.adapter:
        adapter = load_adapter(path, config.n_layers, config.hidden, base.transformer.dtype, base.device)
        methods[f"adapter {path.stem}"] = full_depth(Transformer(config, weights, adapter))
    for path in options.drafter:
        methods[f"drafter {path.stem}"] = light(path, base.transformer)
    found: dict[str, Tally] = {}
    for name, drafts in methods.items():
        found[name] = rounds(base, drafts, sequences)
        print(json.dumps({"method": name, **found[name].report()}), flush=True)
    if options.plot:
        series = {name: list(enumerate(tally.slots, start=1)) for name, tally in found.items()}
        options.plot.write_text(curve(series, "masked slot", "right, %", marks=True), encoding="utf-8")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ValueError as error:
        sys.exit(f"evaluate_slots.py: {error}")
