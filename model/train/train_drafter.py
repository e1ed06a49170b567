"""Train the light drafter (mercury_model/drafter.py) to say what the base itself would say.

    python model/train/train_drafter.py --run .cache/train/drafter [--steps N] [--decay N]

Per micro-step: one example of the corpus, one pass of the base over it, blocks at many of its places, one pass of
the drafter over all blocks. A slot's answer is the base's own choice (own_targets), the loss falls along the block,
for a slot counts only where all slots before it are right. Run again with the same --run to go on.
"""

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before torch: threads that wait must not spin

import numpy as np
import torch
from blocks import anchors, own_targets
from drafter_net import DrafterNet, export, thin_copy
from frozen import TOGETHER, Context, Replay, Shortlist, contexts_from, load_base, shortlist_from
from loop import Measured, Plan, Run, compute_dtype, mixed_precision
from shards import open_shards
from torch import Tensor

from mercury_kernels import IGNORED
from mercury_model import store
from mercury_model.checkpoint import read_checkpoint

CACHE = Path(__file__).parents[2] / ".cache"
READS = (8, 13, 18, 22)
UNITS = 1280
SLOTS = 5
RANK = 256
GAMMA = 4.0
"""Loss weight of slot k: exp(-(k - 1) / GAMMA), as in DFlash: an early miss makes the later slots worthless."""


def drafter_loss(
    net: DrafterNet, context: Context, places: Tensor, shortlist: Shortlist, embed: Tensor, rng: np.random.Generator
) -> Measured:
    """Cross-entropy of the base's own choices; half of the rows with the link, half without it.

    embed [V, H]. Without the link a row's candidates must be good, with it the choice between them.
    """
    device = places.device
    with mixed_precision(device):
        hidden = net(context, places, embed)
        target = own_targets(context, places, net.n_slots)
        which, slot = (target != IGNORED).nonzero(as_tuple=True)
        target = target[which, slot]
        rows = hidden[which, slot]
        before = embed[context.ids[places[which] + slot]].to(rows)
        with_link = torch.from_numpy(rng.random(len(rows)) < 0.5).to(device)
        rows = torch.where(with_link[:, None], net.linked(rows, before), rows)
        logits = torch.nn.functional.linear(rows, shortlist.weight.to(compute_dtype(device)))
    weight = torch.exp(-slot / GAMMA)
    each = torch.nn.functional.cross_entropy(logits.float(), target, reduction="none")
    loss = (each * weight).sum() / weight.sum()
    right = logits.argmax(-1) == target
    measured: dict[str, float] = {"slots": len(target), "blocks": len(places)}
    for k in range(net.n_slots):
        for name, rows_of in (("linked", with_link), ("alone", ~with_link)):
            mine = (slot == k) & rows_of
            measured[f"{name}_{k + 1}"] = int(mine.sum())
            measured[f"right_{name}_{k + 1}"] = int((right & mine).sum())
    return loss, measured


def main() -> int:
    parser = argparse.ArgumentParser(description="Train the light drafter.")
    parser.add_argument("--run", type=Path, default=CACHE / "train" / "drafter")
    parser.add_argument("--corpus", type=Path, default=CACHE / "corpus")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--decay", type=int, default=0, help="of these, steps over which the rate falls")
    parser.add_argument("--lr", type=float, default=4e-4)
    parser.add_argument("--anchors", type=int, default=192, help="blocks per sequence")
    parser.add_argument("--accumulate", type=int, default=1, help="sequences per optimiser step")
    parser.add_argument("--times", type=int, default=3, help="micro-steps that each pass of the base serves")
    parser.add_argument("--context", type=int, default=384, help="tokens before the middle at most")
    parser.add_argument("--written", type=int, default=96, help="tokens that the base writes behind it at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--export", type=Path, help="write the drafter's file from the run's state, and train nothing")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = torch.device(options.device)

    shards = open_shards(options.corpus)
    base = load_base(device)
    shortlist = shortlist_from(options.run, shards, base)
    torch.manual_seed(options.seed)
    net = DrafterNet(base.config, READS, UNITS, SLOTS, RANK)
    plan = Plan(options.steps, options.lr, decay=options.decay, accumulate=options.accumulate)
    net.to(device)
    notes = {"reads": list(READS), "units": UNITS, "slots": SLOTS, "rank": RANK, "seed": options.seed}
    run = Run(net, plan, options.run, notes)
    resumed = run.resume()
    if options.export:
        if not resumed:
            raise ValueError(f"nothing to export in {options.run}")
        run.use_mean()
        export(net, shortlist.ids, options.export, {"name": f"drafter-{run.step}", "steps": str(run.step)})
        return 0
    if not resumed:
        dense = store.ensure(store.DEFAULT, "bf16" if device.type == "cuda" else "float32")
        _, weights = read_checkpoint(dense.weights, device)
        thin_copy(net, weights)
        run.start_mean()
    embed = base.transformer.weights.embed

    read = contexts_from(
        shards,
        base,
        shortlist,
        READS,
        seed=options.seed,
        max_context=options.context,
        written=options.written,
    )
    contexts = Replay(read, options.seed, times=options.times, together=TOGETHER)

    def micro_step(number: int) -> Measured:
        rng = np.random.default_rng((options.seed, number))
        context = contexts(number)
        places = anchors(context, options.anchors, net.n_slots, rng)
        return drafter_loss(net, context, places, shortlist, embed, rng)

    run.fit(micro_step)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ValueError as error:
        sys.exit(f"train_drafter.py: {error}")
