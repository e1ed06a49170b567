"""The step as one graph: a draft, a check, or a draft together with its check, in buffers that never move.

A pass over a few rows of a small model is hundreds of kernels of some microseconds each; launched one by one, it is the
host that one waits for. So shapes are bucketed (rows, cache length), all buffers are allocated once, and on a GPU each
shape is captured as a CUDA graph when it is first needed. The host waits once a step, to read the proposals; the
accepted length follows from them. A draft that will be checked as it is ("round") goes to its check on the device.

Rows that pad a bucket stand behind the real ones, which do not see them, and a row's arithmetic does not depend on its
neighbours (mercury_kernels): the answers are those of the ordinary path. The same step runs on the CPU, uncaptured.

One KV cache at a time lies in the step's buffer; another one is moved in when its turn comes (12 KB a token for the
embedded model, against weights of 1 GB that every pass reads). This module knows nothing about policies, sessions or
text. It serves greedy choices of causal checkpoints without mixtures; everything else takes the ordinary path.
"""

from __future__ import annotations

import logging
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from mercury_kernels import CACHE_STEP, Proposal, attention_bias, block_attention, unmask
from mercury_model.policy import Proposals
from mercury_model.transformer import KVCache, Transformer

ROWS = (1, 8, 16, 32)
"""A drafted block of 7 slots or its check is 8 rows, one of 8 slots 9, a guess 16."""
SHORTEST = 1024
MAX_GRAPHS = 24
"""Captured shapes that are kept; each holds a few megabytes of scratch in a pool that all share."""

Kind = Literal["draft", "check", "round"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Shape:
    """rows and length: of the bucket. length: cache rows that attention walks over."""

    kind: Kind
    rows: int
    length: int


class Steps:
    """Steps of one sequence at a time over the cache rows 0..capacity-1. Not for several threads at once."""

    def __init__(self, transformer: Transformer, capacity: int) -> None:
        config, device = transformer.config, transformer.device
        on_gpu = device.type == "cuda"
        self._base = transformer
        self._drafting = transformer.drafting
        self._lengths = _lengths(capacity)
        shape = (config.n_layers, config.n_kv_heads, self._lengths[-1], config.head_dim)
        self._keys = torch.zeros(shape, dtype=transformer.dtype, device=device)
        self._values = torch.zeros(shape, dtype=transformer.dtype, device=device)
        self._guest: weakref.ref[KVCache] | None = None
        self._table = transformer.turns(self._lengths[-1])
        self._counting = torch.arange(ROWS[-1], device=device)
        # start, number of rows, ids and whatever ids stood behind them before; filled on the host, copied in one go
        self._said = torch.zeros(2 + ROWS[-1], dtype=torch.int64, pin_memory=on_gpu)
        self._inputs = torch.zeros(2 + ROWS[-1], dtype=torch.int64, device=device)
        # of the draft, then of the check: token, confidence, entropy, margin; float64 holds all of them exactly
        self._answers = torch.zeros(2, 4, ROWS[-1], dtype=torch.float64, device=device)
        self.hidden = torch.zeros(ROWS[-1], config.hidden, dtype=transformer.dtype, device=device)
        """[rows, H]: the last check's hidden states, until the next step."""
        self._captures = on_gpu
        self._graphs: OrderedDict[Shape, torch.cuda.CUDAGraph] = OrderedDict()
        self._pool = torch.cuda.graph_pool_handle() if on_gpu else None

    @torch.inference_mode()
    def run(self, kind: Kind, cache: KVCache, start: int, ids: Sequence[int]) -> list[Proposals] | None:
        """Run `ids`, the last known token and what follows it, behind the cache's first `start` rows.

        "draft": the adapter's proposals for the slots ids[1:]. "check": what the base itself would write after each of
        ids. "round": both, the check being of the drafted tokens. Keys and values of the last pass lie behind `start`.
        None if there is no bucket as large.
        """
        n = len(ids)
        shape = self._bucket(kind, start, n)
        if shape is None:
            return None
        self._move_in(cache)
        cache.reserve(start + shape.rows)
        self._said[: n + 2] = torch.tensor([start, n, *ids])
        self._inputs.copy_(self._said, non_blocking=True)
        self._play(shape)
        drafted, own = self._answers[:, :, :n].tolist()
        found = [] if kind == "check" else [_proposals([column[: n - 1] for column in drafted])]
        return found if kind == "draft" else [*found, _proposals(own)]

    def _bucket(self, kind: Kind, start: int, n: int) -> Shape | None:
        rows = next((r for r in ROWS if n <= r), None)
        length = next((c for c in self._lengths if rows is not None and start + rows <= c), None)
        return None if rows is None or length is None else Shape(kind, rows, length)

    def _move_in(self, cache: KVCache) -> None:
        if cache.keys is self._keys:
            return
        guest = None if self._guest is None else self._guest()
        if guest is not None and guest.keys is self._keys:
            guest.move_out()
        cache.move_into(self._keys, self._values)
        self._guest = weakref.ref(cache)

    def _play(self, shape: Shape) -> None:
        if self._captures and shape not in self._graphs:
            try:
                self._graphs[shape] = self._captured(shape)
            except RuntimeError as error:
                why = (str(error).splitlines() or [type(error).__name__])[0]
                _log.warning("no CUDA graph of %s (%s): from now on steps run kernel by kernel", shape, why)
                self._captures = False
                self._graphs.clear()
            if len(self._graphs) > MAX_GRAPHS:
                self._graphs.popitem(last=False)
        if not self._captures:
            self._step(shape)
            return
        self._graphs.move_to_end(shape)
        self._graphs[shape].replay()

    def _captured(self, shape: Shape) -> torch.cuda.CUDAGraph:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # kernels are compiled, and libraries take their workspace, outside the capture
            self._step(shape)
            self._step(shape)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=stream, capture_error_mode="thread_local"):
            self._step(shape)
        return graph

    def _step(self, shape: Shape) -> None:
        """From inputs to answers. Reads and writes fixed buffers, so it may run again and again."""
        start, n, ids = self._inputs[0], self._inputs[1], self._inputs[2 : 2 + shape.rows]
        at = start + self._counting[: shape.rows]
        if shape.kind != "check":
            hidden = self._pass(self._drafting, ids, at, (start + n).repeat(shape.rows), shape.length, adapted=True)
            drafted = unmask(hidden, self._drafting.weights.lm_head)
            self._answer(0, drafted)
            ids = torch.cat((ids[:1], drafted.token[:-1]))
        if shape.kind != "draft":
            hidden = self._pass(self._base, ids, at, at + 1, shape.length, adapted=False)
            self.hidden[: shape.rows] = hidden
            self._answer(1, unmask(hidden, self._base.weights.lm_head))

    def _pass(
        self, model: Transformer, ids: Tensor, at: Tensor, visible: Tensor, length: int, *, adapted: bool
    ) -> Tensor:
        """ids, at (their cache rows), visible [rows] -> hidden states [rows, H]."""
        n_heads = model.config.n_heads
        bias = attention_bias(visible, n_heads // model.config.n_kv_heads, length)

        def attend(index: int, qk: Tensor, v: Tensor) -> Tensor:
            keys, values = self._keys[index], self._values[index]
            keys.index_copy_(1, at, qk[:, n_heads:].transpose(0, 1))
            values.index_copy_(1, at, v.transpose(0, 1))
            return block_attention(qk[:, :n_heads], keys, values, bias)

        mine = slice(0, len(ids)) if adapted else None
        return model.layers(model.embed(ids, mine), self._table[at], mine, attend)

    def _answer(self, which: int, found: Proposal) -> None:
        columns = (found.token, found.confidence, found.entropy, found.margin)
        self._answers[which, :, : len(found)] = torch.stack([column.double() for column in columns])


def _lengths(capacity: int) -> list[int]:
    """Buckets, doubling; the last one is `capacity` in whole steps of the cache."""
    last = -(-capacity // CACHE_STEP) * CACHE_STEP
    found = [SHORTEST]
    while 2 * found[-1] < last:
        found.append(2 * found[-1])
    return [*(c for c in found if c < last), last]


def _proposals(columns: Sequence[Sequence[float]]) -> Proposals:
    token, *sure = ([*column] for column in columns)
    return Proposals([int(t) for t in token], *sure)
