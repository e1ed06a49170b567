"""A tiny random model and a tokenizer of single bytes: the denoiser's machinery without real weights."""

import json
from pathlib import Path

import torch

from mercury_kernels import Dense, Int8, int8_weight, quantize_int8
from mercury_model.adapter import Adapter, AdapterLayer, Site
from mercury_model.config import Config
from mercury_model.denoiser import BlockDenoiser
from mercury_model.tokens import Tokens
from mercury_model.transformer import Layer, Transformer, Weights

CONFIG = Config(
    n_layers=2,
    hidden=64,
    intermediate=96,
    n_heads=4,
    n_kv_heads=2,
    head_dim=16,
    vocab=270,
    rope_theta=10_000.0,
    rms_eps=1e-6,
    context_length=4096,
)
MASK = 269
SPECIALS = ("<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|file_sep|>")


def transformer(dtype: str = "int8", seed: int = 0, config: Config = CONFIG) -> Transformer:
    """dtype: "int8" or "float32". The weights are large enough for the logits to have clear winners."""
    g = torch.Generator().manual_seed(seed)

    def matrix(n_out: int, n_in: int, bias: bool = False, gain: float = 1.0) -> Dense | Int8:
        weight = torch.randn(n_out, n_in, generator=g) * gain / n_in**0.5
        if not gain:
            weight -= 1e-9
        b = torch.randn(n_out, generator=g) * 0.1 if bias else None
        return Dense(weight, b) if dtype == "float32" else int8_weight(*quantize_int8(weight), b)

    h, f, d = config.hidden, config.intermediate, config.head_dim
    q, kv = config.n_heads * d, config.n_kv_heads * d

    def norm() -> torch.Tensor:
        return 1 + 0.1 * torch.randn(h, generator=g)

    layers = tuple(
        Layer(
            norm(),
            matrix(q + 2 * kv, h, bias=True, gain=2.0),
            matrix(h, q, gain=2.0),
            norm(),
            matrix(2 * f, h, gain=2.0),
            matrix(h, f, gain=2.0),
        )
        for _ in range(config.n_layers)
    )
    embed = torch.randn(config.vocab, h, generator=g)
    # only ASCII is ever the most probable: text is one character a token, and a middle ends by its rules alone
    head = (matrix(90, h, gain=3.0), matrix(38, h, gain=3.0), matrix(config.vocab - 128, h, gain=0.0))
    weights = Weights(embed, layers, norm(), head)

    def site(n_in: int, *widths: int) -> Site:
        down = torch.randn(4 * len(widths), n_in, generator=g) / n_in**0.5
        return Site(down, tuple(torch.randn(4, w, generator=g) * 0.3 for w in widths))

    patches = tuple(
        AdapterLayer(site(h, q, kv, kv), site(q, h), site(h, f, f), site(f, h)) for _ in range(config.n_layers)
    )
    adapter = Adapter("tiny", MASK, torch.randn(h, generator=g), patches)
    return Transformer(config, weights, adapter)


def tokens(folder: Path) -> Tokens:
    """256 single-byte tokens (in the byte alphabet of byte-level BPE) and the special tokens behind them."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in printable]
    letter = {b: chr(b) for b in printable} | {b: chr(256 + n) for n, b in enumerate(rest)}
    added = [
        {
            "id": 256 + n,
            "content": name,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for n, name in enumerate(SPECIALS)
    ]
    spec = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "model": {"type": "BPE", "vocab": {letter[b]: b for b in range(256)}, "merges": []},
    }
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(spec), encoding="utf-8")
    return Tokens(path)


def denoiser(folder: Path, dtype: str = "int8", seed: int = 0) -> BlockDenoiser:
    return BlockDenoiser(transformer(dtype, seed), tokens(folder), mask_id=MASK, block_size=8)
