"""The sizes of a checkpoint. This module knows nothing about weights."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Config:
    """Sizes of a checkpoint. Counts are numbers of units, `hidden` and `intermediate` are widths."""

    n_layers: int
    hidden: int
    intermediate: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    vocab: int
    rope_theta: float
    rms_eps: float
    context_length: int
