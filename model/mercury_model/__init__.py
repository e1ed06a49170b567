"""The denoiser: tokens, tensors and text. No editor, no syntax, no protocol.

Importing this package, or its `draft` and `errors` modules, does not import torch; load() does.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from mercury_model.draft import Draft, Infiller, ModelInfo, Request, Slot, Snippet
from mercury_model.errors import CheckpointError, FetchError, ModelError, RequestError

if TYPE_CHECKING:
    from pathlib import Path

EMBEDDED = "quicksilver-0.5b"


def load(
    name: str = EMBEDDED,
    *,
    report: Callable[[str, float], None] | None = None,
    device: str = "auto",
    dtype: str = "auto",
    adapter: Path | None = None,
    cache_bytes: int = 256 << 20,
) -> Infiller:
    """The model called `name` on `device` ("auto", "cpu", "cuda", "cuda:1"), fetched first if need be.

    dtype: "auto" (int8 on the CPU, bf16 on a GPU), "int8", "bf16" or "float32". adapter: another mask adapter than
    the one that comes with the package. cache_bytes: for the keys and values of the documents used last. Raises
    FetchError, CheckpointError or RequestError.
    """
    # A thread that waits for another must sleep, not spin: on a machine whose cores are busy with something else
    # a spinning pass was seen to take ten times as long. Read once, when the runtime is loaded with torch.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from mercury_model.local import load_local

    return load_local(name, report=report, device=device, dtype=dtype, adapter=adapter, cache_bytes=cache_bytes)


__all__ = [
    "EMBEDDED",
    "CheckpointError",
    "Draft",
    "FetchError",
    "Infiller",
    "ModelError",
    "ModelInfo",
    "Request",
    "RequestError",
    "Slot",
    "Snippet",
    "load",
]
