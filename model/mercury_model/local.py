"""A model on this machine: weights, tokens and device put together into an Infiller.

This module knows nothing about how drafts are made nor about who reads them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from mercury_model.adapter import MASK_ID, load_adapter
from mercury_model.aligned import AlignedDenoiser
from mercury_model.checkpoint import read_checkpoint
from mercury_model.denoiser import BlockDenoiser
from mercury_model.draft import Draft, ModelInfo, Request
from mercury_model.errors import RequestError
from mercury_model.families import recognise
from mercury_model.graph import Steps
from mercury_model.hub import checkpoint_folder
from mercury_model.infill import default_policy, infill
from mercury_model.likelihood import log_likelihood
from mercury_model.merging import merged
from mercury_model.published import read_published
from mercury_model.sessions import give_back
from mercury_model.shared import SharedPasses
from mercury_model.span_denoiser import SpanDenoiser
from mercury_model.store import TOKENIZER, Paths, ensure
from mercury_model.tokens import Tokens
from mercury_model.transformer import Rows, Transformer

ADAPTER = Path(__file__).with_name("adapter.safetensors")
PREFILL_SECONDS = 1.0
"""The context is as long as the device can prefill in this time, within CONTEXT_STEPS."""
CONTEXT_STEPS = (384, 768, 1536, 3072, 8192)
"""Tokens; far enough apart that two measurements on one machine rarely fall on two sides of a step."""
WRITTEN_TOKENS = 1024
"""Room behind the longest context for what is written there; more takes the slower path."""
BLOCK_SIZE = 8
SIZE_OF_BF16 = {"int8": 0.5, "bf16": 1.0, "float32": 2.0}
"""Memory in proportion to the published files, which hold 16 bits a weight."""


class LocalInfiller:
    """A model ready to infill. One request at a time: iterate it to its end or drop it."""

    def __init__(self, denoiser: BlockDenoiser | SpanDenoiser, info: ModelInfo) -> None:
        self.denoiser = denoiser
        self.info = info

    def __call__(self, request: Request, /) -> Iterator[Draft]:
        return infill(self.denoiser, request)

    def batch(self) -> SharedPasses:
        """Passes for several requests at once; while they run, none may be iterated beside them."""
        return SharedPasses(self.denoiser)

    def count_tokens(self, text: str, /) -> int:
        return self.denoiser.tokens.count(text)

    def log_likelihood(self, request: Request, texts: Sequence[str], /) -> list[float] | None:
        """See draft.Scorer. A document's session is left at this prompt: give the request a name of its own."""
        if isinstance(self.denoiser, BlockDenoiser) and not isinstance(self.denoiser, AlignedDenoiser):
            return log_likelihood(self.denoiser, request, texts)
        return None


def load_local(
    name: str,
    *,
    report: Callable[[str, float], None] | None,
    device: str,
    dtype: str,
    adapter: Path | None,
    cache_bytes: int,
) -> LocalInfiller:
    """See mercury_model.load."""
    infiller = _loaded(name, report, device, dtype, adapter)
    infiller.denoiser.sessions.cache_bytes = cache_bytes
    give_back()  # last of all: only now nothing holds what was read and put together elsewhere
    return infiller


def _loaded(
    name: str, report: Callable[[str, float], None] | None, device: str, dtype: str, adapter: Path | None
) -> LocalInfiller:
    where = pick_device(device)
    kind = ("bf16" if where.type == "cuda" else "int8") if dtype == "auto" else dtype
    if kind not in ("int8", "bf16", "float32"):
        raise RequestError(f"unknown dtype {dtype!r}: choose int8, bf16 or float32")
    if where.type == "cpu":
        torch.set_num_threads(n_cores())
    if where.type == "cuda" and where.index:
        # kernels and graphs run on the thread's current device, whatever device their tensors lie on
        torch.cuda.set_device(where)
    folder = checkpoint_folder(name, report)
    if folder is not None and (folder / "config.json").exists():
        return _load_published(folder, name, where, kind, report)
    if folder is not None:  # one of ours, converted before
        paths = Paths(folder / f"{kind}.safetensors", folder / TOKENIZER)
    else:
        paths = ensure(name, kind, report)
    config, weights = read_checkpoint(paths.weights, where, report)
    path = adapter or ADAPTER
    patch = load_adapter(path, config.n_layers, config.hidden, weights.norm.dtype, where)
    transformer = Transformer(config, weights, patch)
    if kind != "float32":  # 32 bits are for comparisons: no second copy of 1.4 GB
        transformer.drafting = merged(transformer, report)
        transformer.adapter = None
    # a CPU computes longer than it launches: there, steps would only pad rows
    steps = Steps(transformer, CONTEXT_STEPS[-1] + WRITTEN_TOKENS) if where.type == "cuda" else None
    tokens = Tokens(paths.tokenizer)
    short = where.type == "cpu"
    denoiser = BlockDenoiser(
        transformer, tokens, mask_id=MASK_ID, block_size=BLOCK_SIZE, steps=steps, short_drafts=short
    )
    info = ModelInfo(
        name=name,
        device=str(where),
        kind="block",
        memory_bytes=paths.weights.stat().st_size,
        context_tokens=_affordable_context(transformer),
        adapter=patch.name,
    )
    return LocalInfiller(denoiser, info)


def _load_published(
    folder: Path, name: str, where: torch.device, dtype: str, report: Callable[[str, float], None] | None
) -> LocalInfiller:
    """A checkpoint of another publisher's, of whichever family of families.FAMILIES it is."""
    said = recognise(folder, name)
    tokens = Tokens(folder / TOKENIZER, said.family.fim)
    transformer = Transformer(said.config, read_published(folder, said, where, dtype, report))
    speaking = {*said.eos_ids, said.expand_id, said.delete_id}
    never = tuple(sorted(i for i in tokens.special_ids if i not in speaking and i < said.config.vocab))
    denoiser: BlockDenoiser | SpanDenoiser
    if said.family.kind == "block":
        denoiser = AlignedDenoiser(
            transformer,
            tokens,
            mask_id=said.mask_id,
            block_size=said.block_size,
            shift=said.family.shift,
            never=never,
        )
    else:
        framed = said.family.framed
        denoiser = SpanDenoiser(
            transformer,
            tokens,
            mask_id=said.mask_id,
            shift=said.family.shift,
            expand_id=said.expand_id,
            delete_id=said.delete_id,
            bos=(said.bos_id,) if framed and said.bos_id is not None else (),
            eos=said.eos_ids[:1] if framed else (),
            never=never,
        )
    info = ModelInfo(
        name=name,
        device=str(where),
        kind=said.family.kind,
        memory_bytes=int(sum(p.stat().st_size for p in folder.glob("*.safetensors")) * SIZE_OF_BF16[dtype]),
        context_tokens=_affordable_context(transformer),
        policy=default_policy(denoiser),
    )
    return LocalInfiller(denoiser, info)


def pick_device(device: str) -> torch.device:
    """RequestError if the device is not there."""
    if device == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    try:
        where = torch.device(device)
        if where.type == "cuda" and not torch.cuda.is_available():
            raise RequestError(f"device {device!r} is not available: set it to auto or cpu")
        torch.empty(0, device=where)
    except (RuntimeError, AssertionError):
        raise RequestError(f"unknown device {device!r}: set it to auto, cpu or cuda") from None
    return where


def n_cores() -> int:
    """Cores this process may use; hyperthreads do not help matrix products."""
    import psutil

    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(allowed, psutil.cpu_count(logical=False) or allowed))


def _affordable_context(transformer: Transformer) -> int:
    """Tokens that can be prefilled in about PREFILL_SECONDS, measured on passes after a warm-up; one of CONTEXT_STEPS.

    A step and not the figure itself: with another context the model may write another text, and what it writes should
    not depend on how busy the machine was at the start.
    """
    ids = torch.zeros(128, dtype=torch.int64, device=transformer.device)
    cache = transformer.new_cache()
    seconds = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        transformer.forward([Rows(ids, cache, 0)])[0].sum().item()
        seconds = min(seconds, time.perf_counter() - start)
    most = min(transformer.config.context_length // 2, PREFILL_SECONDS * len(ids) / seconds)
    return max((step for step in CONTEXT_STEPS if step <= most), default=CONTEXT_STEPS[0])
