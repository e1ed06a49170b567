"""Train the gated mask adapter (mercury_model/adapter.py): full-depth denoising of masked blocks.

    python model/train/train_adapter.py --run .cache/train/adapter --begin model/mercury_model/adapter.safetensors

Each sequence is a context and what the base itself writes behind it, since that is the text which a check accepts.
Blocks of several lengths at many places of it; in most every slot is masked, in others a random share, and in some
nothing is masked but the code is corrupted and to be put right. Run again with the same --run to go on.
"""

import argparse
import os
import random
import sys
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before torch: threads that wait must not spin

import numpy as np
import torch
from adapter_net import AdapterNet, begin_from, export
from blocks import anchors, own_targets
from examples import corrupt
from frozen import TOGETHER, Context, Replay, Shortlist, contexts_from, load_base, shortlist_from
from loop import Measured, Plan, Run, compute_dtype, mixed_precision
from shards import open_shards
from torch import Tensor

from mercury_kernels import IGNORED
from mercury_kernels.linear import Dense
from mercury_model import store
from mercury_model.adapter import MASK_ID
from mercury_model.checkpoint import read_checkpoint
from mercury_model.transformer import Layer, Weights

CACHE = Path(__file__).parents[2] / ".cache"
RANK = 32
SLOTS = 7
GAMMA = 4.0
REVISED = 0.1
"""Share of the blocks in which code is to be put right."""
BLANK = 0.7
"""Share of the others in which every slot is masked, as in a draft that is to be checked."""
LENGTHS = {3: 0.4, 5: 0.3, SLOTS: 0.3}
"""Slots of a block, and how often: a mask sees those behind it, so a draft of few slots is another thing to learn."""


def canvases(
    context: Context, places: Tensor, rng: np.random.Generator, n_slots: int = SLOTS
) -> tuple[Tensor, Tensor, Tensor]:
    """What stands in the blocks: ids [A, S + 1], masked [A, S + 1] bool, and which slots are asked for, [A, S] bool."""
    offsets = places[:, None] + torch.arange(n_slots + 1, device=places.device)
    ids = context.ids[offsets.clamp(max=len(context.ids) - 1)]
    n = len(places)
    share = np.where(rng.random(n) < BLANK, 1.0, rng.uniform(0.1, 1.0, n))
    revised = rng.random(n) < REVISED
    masked = (rng.random((n, n_slots)) < share[:, None]) & ~revised[:, None]
    pool = context.ids.tolist()
    for block in np.flatnonzero(revised):
        wrong = corrupt(ids[block, 1:].tolist(), random.Random(int(rng.integers(1 << 30))), pool, MASK_ID)
        ids[block, 1:] = torch.tensor(wrong, device=ids.device)
    shown = torch.from_numpy(np.concatenate([np.zeros((n, 1), bool), masked], 1)).to(places.device)
    shown |= ids == MASK_ID
    asked = shown[:, 1:] | torch.from_numpy(revised[:, None]).to(places.device)
    return ids, shown, asked


def answers(context: Context, places: Tensor, masked: Tensor) -> Tensor:
    """Columns i64 [A, S]: where all is masked, what the base would accept; elsewhere what stands in the text."""
    n_slots = masked.shape[1] - 1
    offsets = places[:, None] + torch.arange(1, n_slots + 1, device=places.device)
    inside = offsets < len(context.ids)
    text = torch.where(inside, context.columns[offsets.clamp(max=len(context.ids) - 1)], IGNORED)
    own = own_targets(context, places, n_slots)
    blank = masked[:, 1:].all(1, keepdim=True)
    target = torch.where(blank & (own != IGNORED), own, text)
    return torch.where(target < 0, IGNORED, target)


def adapter_loss(
    net: AdapterNet,
    context: Context,
    places: Tensor,
    weights: Weights,
    shortlist: Shortlist,
    rng: np.random.Generator,
    n_slots: int = SLOTS,
) -> Measured:
    """Cross-entropy of the slots that are asked for; of blank blocks early slots count more."""
    ids, masked, asked = canvases(context, places, rng, n_slots)
    target = torch.where(asked, answers(context, places, masked), IGNORED)
    blank = masked[:, 1:].all(1)
    which, slot = (target != IGNORED).nonzero(as_tuple=True)
    target = target[which, slot]
    with mixed_precision(places.device):
        rows = net(context, places, ids, masked, weights)[which, slot]
        logits = torch.nn.functional.linear(rows, shortlist.weight.to(compute_dtype(places.device)))
    weight = torch.where(blank[which], torch.exp(-slot / GAMMA), 1.0)
    each = torch.nn.functional.cross_entropy(logits.float(), target, reduction="none")
    right = logits.argmax(-1) == target
    measured: dict[str, float] = {"slots": len(target), "blocks": len(places)}
    for k in range(SLOTS):
        mine = blank[which] & (slot == k)
        measured[f"blank_{k + 1}"] = int(mine.sum())
        measured[f"right_blank_{k + 1}"] = int((right & mine).sum())
    measured["partly"] = int((~blank[which]).sum())
    measured["right_partly"] = int((right & ~blank[which]).sum())
    return (each * weight).sum() / weight.sum(), measured


def in_compute_dtype(weights: Weights, dtype: torch.dtype) -> Weights:
    """Frozen matrices in the dtype of their products, converted once and not at every step."""

    def cast(weight: object) -> Dense:
        assert isinstance(weight, Dense)
        return Dense(weight.weight.to(dtype), None if weight.bias is None else weight.bias.to(dtype))

    layers = tuple(
        Layer(n.attn_norm, cast(n.qkv), cast(n.o), n.mlp_norm, cast(n.gate_up), cast(n.down)) for n in weights.layers
    )
    return Weights(weights.embed, layers, weights.norm, weights.lm_head)


def main() -> int:
    parser = argparse.ArgumentParser(description="Train the mask adapter.")
    parser.add_argument("--run", type=Path, default=CACHE / "train" / "adapter")
    parser.add_argument("--begin", type=Path, help="an adapter's file to begin from")
    parser.add_argument("--corpus", type=Path, default=CACHE / "corpus")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--decay", type=int, default=0, help="of these, steps over which the rate falls")
    parser.add_argument("--lr", type=float, default=4e-4)
    parser.add_argument("--anchors", type=int, default=96, help="blocks per sequence, of the longest; more of others")
    parser.add_argument("--accumulate", type=int, default=2, help="sequences per optimiser step")
    parser.add_argument("--times", type=int, default=2, help="micro-steps that each pass of the base serves")
    parser.add_argument("--context", type=int, default=384, help="tokens before the middle at most")
    parser.add_argument("--written", type=int, default=96, help="tokens that the base writes behind it at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--export", type=Path, help="write the adapter's file from the run's state, and train nothing")
    parser.add_argument("--name", help="what the exported adapter is called")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = torch.device(options.device)

    base = load_base(device)
    torch.manual_seed(options.seed)
    net = AdapterNet(base.config, RANK).to(device)
    plan = Plan(options.steps, options.lr, decay=options.decay, accumulate=options.accumulate)
    run = Run(net, plan, options.run, {"rank": RANK, "slots": SLOTS, "seed": options.seed})
    resumed = run.resume()
    if options.export:
        if not resumed:
            raise ValueError(f"nothing to export in {options.run}")
        run.use_mean()
        source = store.published(store.DEFAULT).sha256
        name = options.name or f"mask-adapter-{run.step}"
        notes = {"name": name, "block": str(SLOTS + 1), "rank": str(RANK), "base_sha256": source}
        export(net, options.export, notes)
        return 0
    if not resumed and options.begin:
        begin_from(net, options.begin)
        run.start_mean()
    shards = open_shards(options.corpus)
    shortlist = shortlist_from(options.run, shards, base)
    dense = store.ensure(store.DEFAULT, "bf16" if device.type == "cuda" else "float32")
    weights = in_compute_dtype(read_checkpoint(dense.weights, device)[1], compute_dtype(device))

    read = contexts_from(
        shards,
        base,
        shortlist,
        range(base.config.n_layers),
        seed=options.seed,
        max_context=options.context,
        written=options.written,
    )
    # all layers' keys and values of a context take some 20 MB
    contexts = Replay(read, options.seed, group=3 * TOGETHER, times=options.times, together=TOGETHER)

    def micro_step(number: int) -> Measured:
        rng = np.random.default_rng((options.seed, number))
        n_slots = int(rng.choice(list(LENGTHS), p=list(LENGTHS.values())))
        context = contexts(number)
        places = anchors(context, options.anchors * (SLOTS + 1) // (n_slots + 1), n_slots, rng)
        return adapter_loss(net, context, places, weights, shortlist, rng, n_slots)

    run.fit(micro_step)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ValueError as error:
        sys.exit(f"train_adapter.py: {error}")
