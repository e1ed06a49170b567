"""Train the end probe (mercury_model/probe.py) on middles of the corpus.

    python model/train/train_probe.py --collect train=1500 heldout=400 --out FILE

First collects what the probe sees at each token of the middles: one pass of the base per example, kept on disk, so a
run that was stopped goes on. A middle is tokenised together with its suffix, as the base would write it: its last
token may reach into the suffix. Then trains, which takes seconds, chooses the threshold on the first half of the
held-out middles and measures on the second.
"""

import argparse
import json
import os
import random
import sys
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before torch: threads that wait must not spin

import numpy as np
import torch
from examples import Vocabulary, examples
from frozen import Base, load_base, run
from safetensors.torch import save_file
from shards import Shards, open_shards
from torch import Tensor

from mercury_kernels import unmask
from mercury_model.probe import FORMAT, N_SIGNS, ending, score, signs
from mercury_model.tokens import Tokens

CACHE = Path(__file__).parents[2] / ".cache"
PART = 50
"""Examples per file of collected rows."""
RANK = 96
CUT_AT_MOST = 0.02


@dataclass(frozen=True, slots=True)
class Rows:
    """Every token of n middles: hidden [R, H], suffix [n, 2H], signs [R, 6], of [R] (which middle), last [R] bool."""

    hidden: Tensor
    suffix: Tensor
    signs: Tensor
    of: Tensor
    last: Tensor
    kinds: tuple[str, ...]


def written_with(middle: str, suffix: str, tokens: Vocabulary) -> list[int]:
    """The middle's tokens as they are when the suffix follows; the last one may hold the suffix's beginning."""
    ids = tokens.encode(middle + suffix[:60])
    n = 1
    while n < len(ids) and len(tokens.decode(ids[:n])) < len(middle):
        n += 1
    return ids[:n]


def collect(base: Base, shards: Shards, split: str, number: int, seed: int) -> dict[str, np.ndarray]:
    """Part `number` of a split: what costs a pass of the base, and the texts that all the rest is computed from.

    Contexts are of 64 to 320 tokens: longer ones cost more and say little more.
    """
    transformer, tokens = base.transformer, base.tokens
    rows: list[Tensor] = []
    columns: dict[str, list[int | float | str]] = {name: [] for name in ("ids", "token", "confidence", "of")}
    middles: dict[str, list[str]] = {"suffix": [], "kinds": []}
    for i in range(PART):
        place = number * PART + i
        size = round(random.Random(f"{seed} {place}").uniform(64, 320))
        example = next(examples(shards, seed, place, tokens=tokens, split=split, max_context=size))
        suffix = tokens.decode(example.ids[2 : example.ids.index(tokens.fim_middle)])
        middle = written_with(tokens.decode(example.middle), suffix, tokens)
        ids = torch.tensor([*example.ids[: example.middle_start], *middle], device=base.device)
        hidden = run(transformer, ids, transformer.new_cache())[example.middle_start :]
        proposal = unmask(hidden, transformer.weights.lm_head)
        rows.append(hidden.half().cpu())
        columns["ids"] += middle
        columns["token"] += proposal.token.tolist()
        columns["confidence"] += proposal.confidence.tolist()
        columns["of"] += [i] * len(middle)
        middles["suffix"].append(suffix[:200])
        middles["kinds"].append(example.kind)
    arrays = {name: np.array(values) for name, values in (columns | middles).items()}
    return {"hidden": torch.cat(rows).numpy(), **arrays}


def read(folder: Path, split: str, tokens: Tokens, embed: Tensor) -> Rows:
    """All that was collected of a split. Raises ValueError if nothing was."""
    found: dict[str, list[Tensor]] = {name: [] for name in ("hidden", "suffix", "signs", "of", "last")}
    kinds: list[str] = []
    for path in sorted(folder.glob(f"{split}-*.npz")):
        part = dict(np.load(path))
        of = torch.from_numpy(part["of"])
        for i, suffix in enumerate(part["suffix"].tolist()):
            mine = of == i
            hidden = torch.from_numpy(part["hidden"])[mine].float()
            about = ending(tokens, embed, suffix)
            written = [tokens.decode([token]) for token in part["ids"][mine.numpy()].tolist()]
            token, confidence = (torch.from_numpy(part[name])[mine] for name in ("token", "confidence"))
            found["hidden"].append(hidden)
            found["suffix"].append(about.vector[None])
            found["signs"].append(signs(hidden, embed, about, written, token, confidence, tokens.end))
            found["of"].append(torch.full((len(hidden),), len(kinds)))
            found["last"].append(torch.arange(len(hidden)) == len(hidden) - 1)
            kinds.append(str(part["kinds"][i]))
    if not kinds:
        raise ValueError(f"no rows of {split} in {folder}: collect some with --collect {split}=400")
    joined = {name: torch.cat(parts) for name, parts in found.items()}
    return Rows(joined["hidden"], joined["suffix"], joined["signs"], joined["of"], joined["last"], tuple(kinds))


def fit(rows: Rows, seed: int, epochs: int, decay: float = 0.1, lr: float = 5e-4) -> dict[str, Tensor]:
    """The probe's parameters, by binary cross-entropy over all rows, in batches of whole middles.

    Begins at the signs' own logistic regression, which alone finds two thirds of the ends.
    """
    torch.manual_seed(seed)
    h = rows.hidden.shape[1]
    shapes = {"of_hidden": (RANK, h), "of_suffix": (RANK, 2 * h), "of_signs": (RANK, N_SIGNS)}
    parts = {name: torch.randn(shape) * 0.5 * shape[1] ** -0.5 for name, shape in shapes.items()}
    # embeddings are small beside hidden states
    parts["of_suffix"] *= 20
    direct, bias = logistic(rows.signs, rows.last.float())
    parts |= {"bias": torch.zeros(RANK), "out": torch.zeros(RANK), "direct": direct, "out_bias": bias}
    for tensor in parts.values():
        tensor.requires_grad_(True)
    optimizer = torch.optim.AdamW(parts.values(), lr=lr, weight_decay=decay)
    n, size = len(rows.kinds), 32
    steps = epochs * -(-n // size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(epochs):
        for chosen in torch.randperm(n).split(size):
            mine = torch.isin(rows.of, chosen).nonzero()[:, 0]
            hidden = torch.nn.functional.dropout(rows.hidden[mine], 0.2)
            suffix = torch.nn.functional.dropout(rows.suffix[rows.of[mine]], 0.2)
            logits = score(parts, hidden, suffix, rows.signs[mine])
            loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, rows.last[mine].float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return {name: tensor.detach() for name, tensor in parts.items()}


def logistic(signs: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
    """Weights [6] and bias [] of the best line through the signs."""
    weights = torch.zeros(N_SIGNS + 1, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=200)

    def loss() -> float:
        optimizer.zero_grad()
        logits = signs @ weights[:-1] + weights[-1]
        value = torch.nn.functional.binary_cross_entropy_with_logits(logits, last) + 1e-4 * weights.square().sum()
        value.backward()
        return float(value.detach())

    optimizer.step(loss)
    return weights.detach()[:-1].clone(), weights.detach()[-1].clone()


@dataclass(frozen=True, slots=True)
class Found:
    """Shares of the middles: ends found where they are; right text cut off before."""

    found: float
    cut: float


def measure(parts: dict[str, Tensor], rows: Rows, middles: range, threshold: float) -> Found:
    """The text ends behind the first token whose probability reaches the threshold."""
    p = score(parts, rows.hidden, rows.suffix[rows.of], rows.signs).sigmoid()
    found = cut = 0
    for middle in middles:
        mine = rows.of == middle
        above = (p[mine] >= threshold).nonzero()[:, 0]
        first = int(above[0]) if len(above) else -1
        end = int(mine.sum()) - 1
        found += first == end
        cut += 0 <= first < end
    n = max(1, len(middles))
    return Found(found / n, cut / n)


def best_threshold(parts: dict[str, Tensor], rows: Rows, middles: range) -> float:
    """The lowest threshold that cuts right text in at most CUT_AT_MOST of these middles."""
    for percent in range(2, 100):
        if measure(parts, rows, middles, percent / 100).cut <= CUT_AT_MOST:
            return percent / 100
    return 0.99


def main() -> int:
    parser = argparse.ArgumentParser(description="Train the end probe.")
    parser.add_argument("--folder", type=Path, default=CACHE / "train" / "probe")
    parser.add_argument("--corpus", type=Path, default=CACHE / "corpus")
    parser.add_argument("--collect", nargs="*", default=[], metavar="SPLIT=N", help="middles to have, by split")
    parser.add_argument("--out", type=Path, help="the probe's file")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.folder.mkdir(parents=True, exist_ok=True)
    base = load_base(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    shards = open_shards(options.corpus) if options.collect else None
    for split, n in (wanted.split("=") for wanted in options.collect):
        for number in range(-(-int(n) // PART)):
            path = options.folder / f"{split}-{number:05d}.npz"
            if shards is not None and not path.exists():
                temporary = path.with_suffix(".part")
                with temporary.open("wb") as file:
                    np.savez(file, **collect(base, shards, split, number, options.seed))
                temporary.replace(path)
                print(path.name, flush=True)
    if options.out:
        embed = base.transformer.weights.embed.cpu()
        rows, held = (read(options.folder, split, base.tokens, embed) for split in ("train", "heldout"))
        parts = fit(rows, options.seed, options.epochs)
        half = len(held.kinds) // 2
        threshold = best_threshold(parts, held, range(half))
        result = measure(parts, held, range(half, len(held.kinds)), threshold)
        figures = {
            "middles": len(rows.kinds),
            "heldout": len(held.kinds) - half,
            "threshold": threshold,
            "found": round(result.found, 4),
            "cut": round(result.cut, 4),
        }
        notes = {"format": FORMAT, **{name: str(value) for name, value in figures.items()}}
        save_file({name: tensor.half() for name, tensor in parts.items()}, options.out, notes)
        print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ValueError as error:
        sys.exit(f"train_probe.py: {error}")
