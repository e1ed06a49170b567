"""What the base itself goes on to write: greedy continuations of examples' contexts, for measuring and distilling.

    python model/train/rollouts.py --split heldout --n 48 --out .cache/train/heldout.jsonl

One JSON object per line: context (number of tokens before what was written), ids, language, kind. A run that was
stopped goes on. A check accepts what the base would write, so this text, and not people's, is what drafts are
measured on.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before torch: threads that wait must not spin

import torch
from examples import examples
from frozen import Base, load_base, run
from shards import open_shards

from mercury_kernels import unmask
from mercury_model.transformer import Rows

CACHE = Path(__file__).parents[2] / ".cache"
TOGETHER = 16
"""Sequences that are continued by one pass; more rows cost less each up to about this number."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """ids: a context of `context` tokens and what the base wrote behind it; ends before a special token."""

    context: int
    ids: tuple[int, ...]
    language: str = ""
    kind: str = ""


def continued(base: Base, contexts: Sequence[Sequence[int]], n: int) -> list[list[int]]:
    """Each context's greedy continuation of at most n tokens, up to a special token."""
    transformer = base.transformer
    device = base.device
    caches = [transformer.new_cache() for _ in contexts]
    for ids, cache in zip(contexts, caches, strict=True):
        run(transformer, torch.tensor(ids[:-1], dtype=torch.int64, device=device), cache)
    written: list[list[int]] = [[] for _ in contexts]
    last = [ids[-1] for ids in contexts]
    going = list(range(len(contexts)))
    for _ in range(n):
        rows = [Rows(torch.tensor([last[i]], device=device), caches[i], caches[i].length) for i in going]
        tokens = unmask(torch.cat(transformer.forward(rows)), transformer.weights.lm_head).token.tolist()
        for i, token in zip(going, tokens, strict=True):
            caches[i].length += 1
            last[i] = token
            if not base.tokens.is_special(token):
                written[i].append(token)
        going = [i for i, token in zip(going, tokens, strict=True) if not base.tokens.is_special(token)]
        if not going:
            break
    return written


def read_rollouts(path: Path) -> list[Rollout]:
    """Raises ValueError, with what to do, if the file is not there."""
    if not path.exists():
        raise ValueError(f"{path} is not there: write it with model/train/rollouts.py")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [Rollout(**{**row, "ids": tuple(row["ids"])}) for row in rows]


def main() -> int:
    parser = argparse.ArgumentParser(description="Write down greedy continuations of the base.")
    parser.add_argument("--corpus", type=Path, default=CACHE / "corpus")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--split", default="heldout")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--n", type=int, default=48)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--context", type=int, default=384)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    base = load_base(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    shards = open_shards(options.corpus)
    done = len(read_rollouts(options.out)) if options.out.exists() else 0
    while done < options.n:
        source = examples(
            shards, options.seed, done, tokens=base.tokens, split=options.split, max_context=options.context
        )
        batch = list(islice(source, min(TOGETHER, options.n - done)))
        contexts = [example.ids[: example.middle_start] for example in batch]
        written = continued(base, contexts, options.tokens)
        with options.out.open("a", encoding="utf-8") as file:
            for example, context, more in zip(batch, contexts, written, strict=True):
                row = Rollout(len(context), (*context, *more), example.language, example.kind)
                file.write(json.dumps(asdict(row)) + "\n")
        done += len(batch)
        print(f"{done}/{options.n}", flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ValueError as error:
        sys.exit(f"rollouts.py: {error}")
