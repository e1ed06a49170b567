"""Blocks at many places of one sequence: what stands in their rows, what they should say, what they may see.

A block starts at an anchor, the last known token; its slots are the positions after it. Row j of a block predicts
slot j + 1 (the logit shift of causal checkpoints). All blocks of a sequence share the context that the base has
read; each sees what lies before its own anchor, and itself. This module knows nothing about weights.
"""

import numpy as np
import torch
from frozen import Context
from torch import Tensor

from mercury_kernels import IGNORED


def anchors(context: Context, n: int, n_slots: int, rng: np.random.Generator) -> Tensor:
    """Up to n positions from context.first on, ascending, i64 [A].

    Where the text goes on as the base would go on, a block is worth more: a slot behind a surprise has no answer
    that the block could know. So all places in what the base wrote itself come first; of the others, half are drawn
    among those where at least two tokens are the base's own, half among all.
    """
    length = context.ids.shape[0]
    every = np.arange(context.first, max(context.first + 1, length - n_slots))
    follows = follows_base(context).cpu().numpy()
    good = every[(follows[every] & follows[np.minimum(every + 1, length - 1)])]
    own = every[every >= length - context.written - 1] if context.written else every[:0]
    chosen = set(rng.permutation(own)[:n].tolist())
    good = good[~np.isin(good, own)]
    chosen |= set(rng.permutation(good)[: (n - len(chosen)) // 2].tolist())
    rest = rng.permutation(every).tolist()
    for place in rest:
        if len(chosen) >= n:
            break
        chosen.add(place)
    return torch.tensor(sorted(chosen), dtype=torch.int64, device=context.ids.device)


def follows_base(context: Context) -> Tensor:
    """bool [L]: the token after this one is the base's own choice; False for the last."""
    same = torch.zeros_like(context.columns, dtype=torch.bool)
    same[:-1] = context.columns[1:] == context.own[:-1]
    return same


def own_targets(context: Context, places: Tensor, n_slots: int) -> Tensor:
    """What the base would accept: columns i64 [A, S], IGNORED where it cannot be said.

    Slot k is what the base puts after the k - 1 tokens before it, as long as those are the base's own too:
    otherwise the check would have ended the block there.
    """
    length = context.ids.shape[0]
    offsets = places[:, None] + torch.arange(n_slots, device=places.device)
    inside = offsets < length
    offsets = offsets.clamp(max=length - 1)
    follows = follows_base(context)[offsets]
    reached = torch.cat([torch.ones_like(follows[:, :1]), follows[:, :-1].cumprod(1).bool()], 1)
    return torch.where(inside & reached, context.own[offsets], IGNORED)


def anchored_attention(q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, hidden: Tensor) -> Tensor:
    """q [A, R, Hq, D], k and v [A, R, Hkv, D] of the blocks, keys and values [Hkv, L, D] of the context.

    hidden [A, L] bool: the context's rows that a block may not see. Every row sees its whole block. -> [A, R, Hq * D]
    """
    n, rows, n_heads, d = q.shape
    n_kv, length = keys.shape[0], keys.shape[1]
    # query heads that share a KV head become rows of one product
    q = q.view(n, rows, n_kv, -1, d).permute(2, 0, 1, 3, 4).reshape(n_kv, n, -1, d) * d**-0.5
    keys, values = keys.to(q.dtype), values.to(q.dtype)
    before = (q.reshape(n_kv, -1, d) @ keys.transpose(1, 2)).view(n_kv, n, -1, length)
    inside = q @ k.permute(2, 0, 3, 1)
    before = before.masked_fill(hidden[None, :, None], float("-inf"))
    weights = torch.cat([before, inside], -1).float().softmax(-1).to(q.dtype)
    far, near = weights.split([length, rows], -1)
    out = (far.reshape(n_kv, -1, length) @ values).view(n_kv, n, -1, d) + near @ v.permute(2, 0, 1, 3)
    return out.view(n_kv, n, rows, -1, d).permute(1, 2, 0, 3, 4).reshape(n, rows, n_heads * d)
