"""A complete qwen2 GGUF file of a few kilobytes with random weights, for tests of everything that reads one."""

from pathlib import Path

import gguf
import numpy as np
from gguf.quants import quantize
from tokenizers import pre_tokenizers

LAYERS, HIDDEN, INNER, HEADS, KV_HEADS = 2, 64, 96, 4, 2
KV = KV_HEADS * HIDDEN // HEADS
MERGES = ["Ġ Ġ", "ĠĠ ĠĠ", "d e", "de f", "Ġ x", "1 2"]
SPECIAL = ["<|endoftext|>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"]
USER = ["<tool_call>"]
UNUSED = ["[PAD0]", "[PAD1]"]
TOKENS = [
    *sorted(pre_tokenizers.ByteLevel.alphabet()),
    *(merge.replace(" ", "") for merge in MERGES),
    *SPECIAL,
    *USER,
    *UNUSED,
]
MASK_ROW = TOKENS.index("[PAD0]")


def tensors(*, tied: bool = False, seed: int = 0) -> dict[str, np.ndarray]:
    """float32, GGUF names. Weights are multiples of a power of two, so that Q8_0 stores them exactly."""
    rng = np.random.default_rng(seed)

    def weight(n: int, k: int) -> np.ndarray:
        values = rng.integers(-127, 128, (n, k)).astype(np.float32)
        values[:, ::32] = 127  # each block of 32 holds its largest value: the scale of Q8_0 is exact
        return values / 1024

    def vector(n: int) -> np.ndarray:
        return rng.standard_normal(n).astype(np.float32)

    made = {"token_embd.weight": weight(len(TOKENS), HIDDEN), "output_norm.weight": vector(HIDDEN)}
    if not tied:
        made["output.weight"] = weight(len(TOKENS), HIDDEN)
    for n in range(LAYERS):
        made |= {
            f"blk.{n}.attn_norm.weight": vector(HIDDEN),
            f"blk.{n}.ffn_norm.weight": vector(HIDDEN),
            f"blk.{n}.attn_q.weight": weight(HIDDEN, HIDDEN),
            f"blk.{n}.attn_k.weight": weight(KV, HIDDEN),
            f"blk.{n}.attn_v.weight": weight(KV, HIDDEN),
            f"blk.{n}.attn_q.bias": vector(HIDDEN),
            f"blk.{n}.attn_k.bias": vector(KV),
            f"blk.{n}.attn_v.bias": vector(KV),
            f"blk.{n}.attn_output.weight": weight(HIDDEN, HIDDEN),
            f"blk.{n}.ffn_gate.weight": weight(INNER, HIDDEN),
            f"blk.{n}.ffn_up.weight": weight(INNER, HIDDEN),
            f"blk.{n}.ffn_down.weight": weight(HIDDEN, INNER),
        }
    return made


def write_gguf(
    path: Path,
    made: dict[str, np.ndarray],
    *,
    architecture: str = "qwen2",
    without: str = "",
    merges: list[str] = MERGES,
) -> Path:
    """Matrices as Q8_0, vectors as float32. without: a metadata key that is left out."""
    writer = gguf.GGUFWriter(path, architecture)
    fields = {
        "block_count": LAYERS,
        "context_length": 128,
        "embedding_length": HIDDEN,
        "feed_forward_length": INNER,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
    }
    for key, value in fields.items():
        if key != without:
            writer.add_uint32(f"{architecture}.{key}", value)
    writer.add_float32(f"{architecture}.rope.freq_base", 10000.0)
    writer.add_float32(f"{architecture}.attention.layer_norm_rms_epsilon", 1e-6)
    kinds = gguf.TokenType
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    normal = len(TOKENS) - len(SPECIAL) - len(USER) - len(UNUSED)
    writer.add_token_types(
        [kinds.NORMAL] * normal
        + [kinds.CONTROL] * len(SPECIAL)
        + [kinds.USER_DEFINED] * len(USER)
        + [kinds.UNUSED] * len(UNUSED)
    )
    writer.add_token_merges(merges)
    for name, values in made.items():
        if values.ndim == 2:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name, quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
