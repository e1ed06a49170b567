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
from frozen import TOGETHER, Base, greedy, load_base
from shards import open_shards

CACHE = Path(__file__).parents[2] / ".cache"


@dataclass(frozen=True, slots=True)
class Rollout:
    """ids: a context of `context` tokens and what the base wrote behind it; ends before a special token."""

    context: int
    ids: tuple[int, ...]
    language: str = ""
    kind: str = ""


def continued(base: Base, contexts: Sequence[Sequence[int]], n: int) -> list[list[int]]:
    """Each context's greedy continuation of at most n tokens, up to a special token."""
    wrote = greedy(base, contexts, n)
    return [whole.ids[len(context) :] for context, whole in zip(contexts, wrote, strict=True)]


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
