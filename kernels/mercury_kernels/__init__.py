"""Pure tensor functions: what the denoiser's arithmetic is made of.

Each has a plain torch reference that is its specification, a CPU path, and a Triton path for CUDA tensors.
Nothing here knows about models, tokens, text or files; importing it needs neither a GPU nor triton.
"""

from mercury_kernels.attention import (
    CACHE_STEP,
    attention_bias,
    bidirectional_attention,
    block_attention,
    reference_bidirectional_attention,
    reference_block_attention,
)
from mercury_kernels.likelihood import log_likelihood, reference_log_likelihood
from mercury_kernels.linear import (
    Dense,
    Int8,
    Weight,
    int8_weight,
    linear,
    linear_w8,
    quantize_int8,
    reference_linear_w8,
    reference_linear_w8a8,
)
from mercury_kernels.loss import IGNORED, masked_cross_entropy, reference_masked_cross_entropy
from mercury_kernels.noise import gumbel
from mercury_kernels.norm import add_rms_norm, reference_add_rms_norm, reference_rms_norm, rms_norm
from mercury_kernels.rope import reference_rope, rope, rope_table
from mercury_kernels.swiglu import reference_swiglu, swiglu
from mercury_kernels.unmask import Proposal, reference_unmask, tiles, unmask

__all__ = [
    "CACHE_STEP",
    "IGNORED",
    "Dense",
    "Int8",
    "Proposal",
    "Weight",
    "add_rms_norm",
    "attention_bias",
    "bidirectional_attention",
    "block_attention",
    "gumbel",
    "int8_weight",
    "linear",
    "linear_w8",
    "log_likelihood",
    "masked_cross_entropy",
    "quantize_int8",
    "reference_add_rms_norm",
    "reference_bidirectional_attention",
    "reference_block_attention",
    "reference_linear_w8",
    "reference_linear_w8a8",
    "reference_log_likelihood",
    "reference_masked_cross_entropy",
    "reference_rms_norm",
    "reference_rope",
    "reference_swiglu",
    "reference_unmask",
    "rms_norm",
    "rope",
    "rope_table",
    "swiglu",
    "tiles",
    "unmask",
]
