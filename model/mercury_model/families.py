"""Checkpoint families: one row each in one table.

A row says how to recognise a checkpoint by its files, how its tensors are named, what its mask is, whether its logits
are shifted and what its attention sees. Code that reads a checkpoint never asks for a family by name. Facts are those
of the publishers' configuration and modelling files. This module knows nothing about tensors and reads no weights.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mercury_model.config import Config
from mercury_model.errors import CheckpointError
from mercury_model.tokens import QWEN_FIM, Json, added_tokens, read_json


@dataclass(frozen=True, slots=True)
class Layout:
    """A publisher's tensor names (without ".weight"; {n} is the layer) and configuration keys for our Config."""

    embed: str
    norm: str
    lm_head: str
    layer: str
    attn_norm: str
    q: str
    k: str
    v: str
    o: str
    mlp_norm: str
    gate: str
    up: str
    down: str
    q_norm: str
    k_norm: str
    router: str
    experts: str
    keys: dict[str, str]
    tied: str


HF = Layout(
    embed="model.embed_tokens",
    norm="model.norm",
    lm_head="lm_head",
    layer="model.layers.{n}.",
    attn_norm="input_layernorm",
    q="self_attn.q_proj",
    k="self_attn.k_proj",
    v="self_attn.v_proj",
    o="self_attn.o_proj",
    mlp_norm="post_attention_layernorm",
    gate="mlp.gate_proj",
    up="mlp.up_proj",
    down="mlp.down_proj",
    q_norm="self_attn.q_norm",
    k_norm="self_attn.k_norm",
    router="mlp.gate",
    experts="mlp.experts.{e}.",
    keys={
        "n_layers": "num_hidden_layers",
        "hidden": "hidden_size",
        "intermediate": "intermediate_size",
        "n_heads": "num_attention_heads",
        "n_kv_heads": "num_key_value_heads",
        "head_dim": "head_dim",
        "vocab": "vocab_size",
        "rope_theta": "rope_theta",
        "rms_eps": "rms_norm_eps",
        "context_length": "max_position_embeddings",
    },
    tied="tie_word_embeddings",
)
"""Names of Qwen2, Qwen3 and Llama in transformers."""

OLMO = Layout(
    embed="model.transformer.wte",
    norm="model.transformer.ln_f",
    lm_head="model.transformer.ff_out",
    layer="model.transformer.blocks.{n}.",
    attn_norm="attn_norm",
    q="q_proj",
    k="k_proj",
    v="v_proj",
    o="attn_out",
    mlp_norm="ff_norm",
    gate="ff_proj",
    up="up_proj",
    down="ff_out",
    q_norm="q_norm",
    k_norm="k_norm",
    router="",
    experts="",
    keys={
        "n_layers": "n_layers",
        "hidden": "d_model",
        "intermediate": "mlp_hidden_size",
        "n_heads": "n_heads",
        "n_kv_heads": "n_kv_heads",
        "head_dim": "head_dim",
        "vocab": "embedding_size",
        "rope_theta": "rope_theta",
        "rms_eps": "rms_norm_eps",
        "context_length": "max_sequence_length",
    },
    tied="weight_tying",
)
"""Names of LLaDA, after OLMo."""


@dataclass(frozen=True, slots=True)
class Family:
    """types: config.json's model_type. token: an added token that must be there; called: a part of its name.

    shift: 1 if row i predicts slot i + 1. mask, expand, delete: names of tokens; `delete` may be "eos".
    mask_id: the publisher's, where no file names one. block: slots per block, 0 for bidirectional.
    qkv_bias: always, never, or by a configuration key. framed: infill prompts stand between bos and eos.
    fim: the fill-in-the-middle prompt of a block checkpoint, see tokens.QWEN_FIM. mixture: there may be experts.
    """

    name: str
    types: tuple[str, ...]
    kind: Literal["bidirectional", "block"]
    shift: int
    mask: tuple[str, ...]
    mask_id: int | None = None
    layout: Layout = HF
    token: str = ""
    called: str = ""
    block: int = 0
    block_keys: tuple[str, ...] = ()
    qk_norm: bool = False
    qkv_bias: bool | str = "attention_bias"
    framed: bool = False
    expand: str = ""
    delete: str = ""
    fim: tuple[str, ...] = QWEN_FIM
    mixture: bool = False


_MASK = ("<|mask|>",)

FAMILIES = (
    Family("dreamon", ("Dream",), "bidirectional", 1, _MASK, 151666, token="<|expand|>", qkv_bias=True, framed=True,
           expand="<|expand|>", delete="eos"),
    Family("dream", ("Dream",), "bidirectional", 1, _MASK, 151666, qkv_bias=True),
    Family("open-dcoder", ("qwen2",), "bidirectional", 1, ("<M>",), token="<M>", qkv_bias=True),
    Family("llada", ("llada",), "bidirectional", 0, ("<|mdm_mask|>",), 126336, OLMO, qkv_bias="include_qkv_bias"),
    Family("coda", ("CoDA",), "bidirectional", 1, _MASK, 151669, qk_norm=True),
    Family("rnd1", ("rnd1",), "bidirectional", 1, _MASK, 151669, qk_norm=True, mixture=True),
    Family("a2d-qwen2-bd3lm", ("a2d-qwen2",), "block", 0, _MASK, called="bd3lm", block=32,
           block_keys=("block_size",), qkv_bias=True),
    Family("a2d-qwen2-mdlm", ("a2d-qwen2",), "bidirectional", 0, _MASK, qkv_bias=True),
    Family("a2d-qwen3-bd3lm", ("a2d-qwen3",), "block", 0, _MASK, called="bd3lm", block=32,
           block_keys=("block_size",), qk_norm=True),
    Family("a2d-qwen3-mdlm", ("a2d-qwen3",), "bidirectional", 0, _MASK, qk_norm=True),
    Family("fast-dllm-v2", ("Fast_dLLM_Qwen",), "block", 1, ("|<MASK>|",), 151665, block=32, block_keys=("bd_size",),
           qkv_bias=True),
    Family("sdar", ("sdar", "sdar_moe"), "block", 0, ("<|MASK|>", "<|mask|>"), 151669, block=4,
           block_keys=("block_size", "block_length"), qk_norm=True, mixture=True),
    Family("stable-diffcoder", ("llama",), "block", 0, ("<[MASK_TOKEN]>",), token="<[MASK_TOKEN]>", block=4,
           block_keys=("block_size", "block_length"),
           fim=("<[fim-suffix]>", "{suffix}", "<[fim-prefix]>", "{prefix}", "<[fim-middle]>")),
)  # fmt: skip
"""In order: the first row that fits is taken, so a row with a mark stands before the one without."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """width: an expert's inner width. layers: which layers have experts. normalised: shares sum to one."""

    n_experts: int
    per_token: int
    width: int
    normalised: bool
    layers: frozenset[int]


@dataclass(frozen=True, slots=True)
class Published:
    """What the files of a checkpoint say, apart from weights. Ids are None where the family has none."""

    family: Family
    config: Config
    mask_id: int
    expand_id: int | None
    delete_id: int | None
    bos_id: int | None
    eos_ids: tuple[int, ...]
    block_size: int
    qkv_bias: bool
    o_bias: bool
    tied: bool
    mixture: Mixture | None = None


def recognise(folder: Path, called: str = "") -> Published:
    """The row of FAMILIES that fits the files in `folder`, and its numbers. `called`: the name it was asked for by.

    CheckpointError says what is missing, unknown or not supported.
    """
    raw = read_json(folder / "config.json")
    added = added_tokens(folder)
    name = " ".join((called or folder.name, str(raw.get("_name_or_path", ""))))
    family = _row(folder, raw, added, name)
    _refuse(folder, family, raw)
    more = read_json(folder / "generation_config.json", missing_ok=True)
    config = _config(folder, family, raw)

    def find(key: str, names: tuple[str, ...]) -> int | None:
        for source in (raw, more):
            if isinstance(source.get(key), int):
                return int(source[key])
        return next((added[n] for n in names if n in added), None)

    mask = find("mask_token_id", family.mask)
    mask = family.mask_id if mask is None else mask
    if mask is None or not 0 <= mask < config.vocab:
        raise CheckpointError(
            f"{folder}: no mask token ({' or '.join(family.mask)}) within the {config.vocab} rows of the vocabulary; "
            "fetch the whole checkpoint with its added_tokens.json"
        )
    eos = _ids(raw, "eos_token_id") or _ids(more, "eos_token_id")
    delete = find("delete_token_id", ())
    if delete is None and family.delete == "eos":
        delete = eos[0] if eos else added.get("<|endoftext|>")
    bias = family.qkv_bias if isinstance(family.qkv_bias, bool) else bool(raw.get(family.qkv_bias, False))
    return Published(
        family=family,
        config=config,
        mask_id=mask,
        expand_id=find("expand_token_id", (family.expand,)) if family.expand else None,
        delete_id=delete if family.delete else None,
        bos_id=next(iter(_ids(raw, "bos_token_id")), None),
        eos_ids=eos,
        block_size=_block(family, raw, called or folder.name),
        qkv_bias=bias,
        o_bias=bool(raw.get("include_bias", False))
        or (family.qkv_bias == "attention_bias" and bool(raw.get("attention_bias", False))),
        tied=bool(raw.get(family.layout.tied, False)),
        mixture=_mixture(raw, config) if _n_experts(raw) > 1 else None,
    )


def _row(folder: Path, raw: Json, added: dict[str, int], name: str) -> Family:
    model_type = str(raw.get("model_type", ""))
    rows = [f for f in FAMILIES if model_type in f.types]
    for family in rows:
        marked = not family.token or family.token in added or (family.expand and "expand_token_id" in raw)
        if marked and family.called in name.lower():
            return family
    if rows:
        tokens = " or ".join(f.token for f in rows if f.token)
        raise CheckpointError(
            f"{folder}: a {model_type} checkpoint without the mask token {tokens} is no diffusion model; choose another"
        )
    known = sorted({t for f in FAMILIES for t in f.types})
    raise CheckpointError(f"{folder}: unknown model_type {model_type!r}; known are {', '.join(known)}")


def _refuse(folder: Path, family: Family, raw: Json) -> None:
    experts = 0 if family.mixture else _n_experts(raw)
    scaling = raw.get("rope_scaling") or {}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    quantised = raw.get("quantization_config")
    why = ""
    if experts > 1:
        why = f"a mixture of {experts} experts ({family.name}) is not supported; choose a dense checkpoint"
    elif kind not in ("default", None):
        why = f"rotary scaling {kind!r} is not supported; choose a checkpoint without it"
    elif raw.get("use_sliding_window"):
        why = "sliding-window attention is not supported; choose a checkpoint without it"
    elif quantised:
        method = quantised.get("quant_method", "unknown") if isinstance(quantised, dict) else quantised
        why = f"weights quantised by {method} are not supported; choose the original in bf16"
    elif str(raw.get("hidden_act", raw.get("activation_type", "silu"))) not in ("silu", "swish", "swiglu"):
        why = f"activation {raw.get('hidden_act') or raw.get('activation_type')!r} is not supported"
    if why:
        raise CheckpointError(f"{folder}: {why}")


def _n_experts(raw: Json) -> int:
    return int(raw.get("num_experts") or raw.get("n_experts") or raw.get("num_local_experts") or 0)


def _mixture(raw: Json, config: Config) -> Mixture:
    """Configuration keys and defaults of Qwen3-MoE."""
    dense = {int(n) for n in raw.get("mlp_only_layers") or ()}
    step = int(raw.get("decoder_sparse_step") or 1)
    return Mixture(
        n_experts=_n_experts(raw),
        per_token=int(raw.get("num_experts_per_tok") or 8),
        width=int(raw.get("moe_intermediate_size") or config.intermediate),
        normalised=bool(raw.get("norm_topk_prob", False)),
        layers=frozenset(n for n in range(config.n_layers) if n not in dense and (n + 1) % step == 0),
    )


def _config(folder: Path, family: Family, raw: Json) -> Config:
    keys = family.layout.keys
    rope = raw.get("rope_parameters") or {}

    def number(field: str, default: float | None = None) -> float:
        value = raw.get(keys[field], rope.get(keys[field]))
        value = default if value is None else value
        if not isinstance(value, int | float) or value <= 0:
            raise CheckpointError(f"{folder}: config.json has no usable {keys[field]}; fetch it again")
        return value

    n_heads = int(number("n_heads"))
    hidden = int(number("hidden"))
    return Config(
        n_layers=int(number("n_layers")),
        hidden=hidden,
        intermediate=int(number("intermediate")),
        n_heads=n_heads,
        n_kv_heads=int(number("n_kv_heads", n_heads)),
        head_dim=int(number("head_dim", hidden // n_heads)),
        vocab=int(number("vocab")),
        rope_theta=float(number("rope_theta", 10_000.0)),
        rms_eps=float(number("rms_eps", 1e-6)),
        context_length=int(number("context_length", 4096)),
    )


def _block(family: Family, raw: Json, name: str) -> int:
    """The configuration's block size, or the one in the name (SDAR-4B-Chat-b16), or the family's."""
    if not family.block:
        return 0
    for key in family.block_keys:
        if isinstance(raw.get(key), int) and raw[key] > 0:
            return int(raw[key])
    named = re.search(r"-b(\d+)$", name)
    return int(named.group(1)) if named else family.block


def _ids(raw: Json, key: str) -> tuple[int, ...]:
    value = raw.get(key)
    if isinstance(value, int):
        return (value,)
    return tuple(int(v) for v in value) if isinstance(value, list) else ()
