"""Each row of FAMILIES against an independent implementation, on tiny checkpoints in the publisher's layout.

The independent implementation is transformers' own Qwen2, Qwen3 or Llama with the attention mask that the family's
denoising uses. What is saved are its tensors under the publisher's names.
"""

import dataclasses
import json
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

from mercury_kernels import linear
from mercury_model.errors import CheckpointError
from mercury_model.families import FAMILIES, Published, recognise
from mercury_model.published import INDEX, _Files, read_published
from mercury_model.transformer import Rows, Transformer

VOCAB = 290
SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.2,
    "attn_implementation": "eager",
}
OLMO_NAMES = {
    "model.embed_tokens": "model.transformer.wte",
    "model.norm": "model.transformer.ln_f",
    "lm_head": "model.transformer.ff_out",
    "model.layers": "model.transformer.blocks",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ff_norm",
    "self_attn.q_proj": "q_proj",
    "self_attn.k_proj": "k_proj",
    "self_attn.v_proj": "v_proj",
    "self_attn.o_proj": "attn_out",
    "mlp.gate_proj": "ff_proj",
    "mlp.up_proj": "up_proj",
    "mlp.down_proj": "ff_out",
}
OLMO_CONFIG = {
    "model_type": "llada",
    "d_model": 64,
    "mlp_hidden_size": 112,
    "n_layers": 2,
    "n_heads": 4,
    "n_kv_heads": 2,
    "embedding_size": VOCAB,
    "vocab_size": VOCAB,
    "max_sequence_length": 512,
    "rope_theta": 500_000.0,
    "rms_norm_eps": 1e-5,
    "include_qkv_bias": False,
    "include_bias": False,
    "weight_tying": False,
    "activation_type": "silu",
    "mask_token_id": 280,
}


@dataclass(frozen=True)
class Case:
    """family: the row. model: (class, config class, options). config: what config.json says besides or instead."""

    family: str
    model: type[PreTrainedModel]
    config_class: type[PreTrainedConfig]
    options: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    added: dict[str, int] = field(default_factory=dict)
    rename: dict[str, str] = field(default_factory=dict)
    folder: str = "checkpoint"
    mask_id: int = 280
    block: int = 0
    expand_id: int | None = None
    delete_id: int | None = None
    shards: int = 1


QWEN2 = (Qwen2ForCausalLM, Qwen2Config)
QWEN3 = (Qwen3ForCausalLM, Qwen3Config)
QWEN3_MOE = (Qwen3MoeForCausalLM, Qwen3MoeConfig)
MOE = {
    "head_dim": 16,
    "num_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 48,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
}
LLAMA = (LlamaForCausalLM, LlamaConfig)
THETA = {"rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0}}
CASES = [
    Case("dream", *QWEN2, THETA, {"model_type": "Dream", "mask_token_id": 280}, shards=3),
    Case("dreamon", *QWEN2, THETA, {"model_type": "Dream", "mask_token_id": 280, "eos_token_id": 278,
         "bos_token_id": 277}, {"<|expand|>": 281}, expand_id=281, delete_id=278),
    Case("open-dcoder", *QWEN2, THETA | {"tie_word_embeddings": True}, {"model_type": "qwen2"}, {"<M>": 280}),
    Case("llada", *LLAMA, {"rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0}, "rms_norm_eps": 1e-5},
         OLMO_CONFIG, rename=OLMO_NAMES, shards=2),
    Case("coda", *QWEN3, {"head_dim": 24, "tie_word_embeddings": True}, {"model_type": "CoDA", "mask_token_id": 280}),
    Case("rnd1", *QWEN3, {"head_dim": 16}, {"model_type": "rnd1", "mask_token_id": 280}),
    Case("rnd1", *QWEN3_MOE, MOE, {"model_type": "rnd1", "mask_token_id": 280}, shards=2),
    Case("sdar", *QWEN3_MOE, MOE | {"norm_topk_prob": False, "mlp_only_layers": [0]},
         {"model_type": "sdar_moe", "mask_token_id": 280}, folder="SDAR-30B-A3B-Chat-b8", block=8),
    Case("a2d-qwen2-mdlm", *QWEN2, {"tie_word_embeddings": True}, {"model_type": "a2d-qwen2"}, {"<|mask|>": 280}),
    Case("a2d-qwen2-bd3lm", *QWEN2, {"tie_word_embeddings": True}, {"model_type": "a2d-qwen2"}, {"<|mask|>": 280},
         folder="Qwen2.5-Coder-0.5B-Instruct-diffusion-bd3lm-v0.1", block=32),
    Case("a2d-qwen3-mdlm", *QWEN3, {"head_dim": 16}, {"model_type": "a2d-qwen3"}, {"<|mask|>": 280}),
    Case("a2d-qwen3-bd3lm", *QWEN3, {"head_dim": 16}, {"model_type": "a2d-qwen3", "block_size": 8},
         {"<|mask|>": 280}, folder="x-bd3lm", block=8),
    Case("fast-dllm-v2", *QWEN2, THETA, {"model_type": "Fast_dLLM_Qwen", "bd_size": 16, "mask_token_id": 280},
         block=16),
    Case("sdar", *QWEN3, {"head_dim": 16}, {"model_type": "sdar", "mask_token_id": 280}, folder="SDAR-4B-Chat-b8",
         block=8),
    Case("stable-diffcoder", *LLAMA, {"head_dim": 16}, {"model_type": "llama"}, {"<[MASK_TOKEN]>": 280}, block=4),
]  # fmt: skip


def write(case: Case, at: Path) -> tuple[Path, PreTrainedModel]:
    """The checkpoint's folder and the model it was saved from."""
    torch.manual_seed(len(case.family))
    model = case.model(case.config_class(**(SIZES | case.options))).eval()
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if "norm" in name or "bias" in name:
                tensor += torch.randn_like(tensor) * 0.2
    folder = at / case.folder
    folder.mkdir()
    config = {} if case.rename else model.config.to_dict()
    (folder / "config.json").write_text(json.dumps(config | case.config))
    (folder / "added_tokens.json").write_text(json.dumps(case.added))
    tensors = {renamed(k, case.rename): v.contiguous() for k, v in expert_by_expert(model.state_dict()).items()}
    if case.options.get("tie_word_embeddings"):
        tensors.pop("lm_head.weight")
    save(tensors, folder, case.shards)
    return folder, model


def expert_by_expert(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Published mixtures have one matrix per expert; transformers keeps them stacked, gate above up."""
    found: dict[str, torch.Tensor] = {}
    for name, tensor in tensors.items():
        head, stacked, _ = name.partition(".experts.")
        if not stacked:
            found[name] = tensor
            continue
        for e, matrix in enumerate(tensor):
            if name.endswith("gate_up_proj"):
                gate, up = matrix.chunk(2)
                found[f"{head}.experts.{e}.gate_proj.weight"] = gate.clone()
                found[f"{head}.experts.{e}.up_proj.weight"] = up.clone()
            else:
                found[f"{head}.experts.{e}.down_proj.weight"] = matrix.clone()
    return found


def renamed(name: str, table: dict[str, str]) -> str:
    for ours, theirs in table.items():
        name = name.replace(ours, theirs)
    return name


def save(tensors: dict[str, torch.Tensor], folder: Path, shards: int) -> None:
    if shards == 1:
        save_file(tensors, folder / "model.safetensors")
        return
    names = [f"model-{n + 1:05}-of-{shards:05}.safetensors" for n in range(shards)]
    where = {key: names[i % shards] for i, key in enumerate(tensors)}
    for file in names:
        save_file({k: v for k, v in tensors.items() if where[k] == file}, folder / file)
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": where}))


def logits(
    folder: Path, ids: torch.Tensor, dtype: str = "float32", device: str = "cpu"
) -> tuple[Published, torch.Tensor]:
    published = recognise(folder)
    transformer = Transformer(published.config, read_published(folder, published, torch.device(device), dtype))
    block = published.block_size
    rows = Rows(ids.to(device), transformer.new_cache(), 0, bidirectional=not block, block=block)
    hidden = transformer.forward([rows])[0]
    return published, torch.cat([linear(hidden, tile) for tile in transformer.weights.lm_head], -1).float().cpu()


def independent(model: PreTrainedModel, ids: torch.Tensor, block: int) -> torch.Tensor:
    n = len(ids)
    position = torch.arange(n)
    hidden = position[None] // block > position[:, None] // block if block else torch.zeros(n, n, dtype=torch.bool)
    mask = torch.zeros(1, 1, n, n).masked_fill(hidden, torch.finfo(torch.float32).min)
    with torch.no_grad():
        return model(ids[None], attention_mask=mask).logits[0]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.family} {c.config['model_type']}")
def test_logits_equal_an_independent_implementation(case: Case, tmp_path: Path) -> None:
    folder, model = write(case, tmp_path)
    ids = torch.randint(0, VOCAB, (45,))
    said, ours = logits(folder, ids)
    theirs = independent(model, ids, case.block)
    assert theirs.abs().max() > 1, "a comparison of near-zeros shows nothing"
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)
    assert (said.family.name, said.mask_id, said.block_size) == (case.family, case.mask_id, case.block)
    assert (said.expand_id, said.delete_id) == (case.expand_id, case.delete_id)
    assert said.family.kind == ("block" if case.block else "bidirectional")


def test_every_row_has_its_case() -> None:
    assert {c.family for c in CASES} == {f.name for f in FAMILIES}


@pytest.mark.parametrize("name", ["dream", "coda", "llada"])
@pytest.mark.parametrize(("dtype", "close"), [("bf16", 0.05), ("int8", 0.12)])
def test_smaller_weights_stay_close(name: str, dtype: str, close: float, tmp_path: Path) -> None:
    case = next(c for c in CASES if c.family == name)
    folder, model = write(case, tmp_path)
    ids = torch.randint(0, VOCAB, (33,))
    theirs = independent(model, ids, case.block)
    _, ours = logits(folder, ids, dtype)
    assert float((ours - theirs).norm() / theirs.norm()) < close


def broken(kind: str, at: Path) -> Path:
    """A Dream checkpoint with one thing wrong."""
    folder, model = write(CASES[0], at)
    tensors = {k: v.clone() for k, v in model.state_dict().items()}
    config = json.loads((folder / "config.json").read_text())
    for path in folder.glob("model*"):
        path.unlink()
    changes: dict[str, Callable[[], object]] = {
        "missing": lambda: tensors.pop("model.layers.1.mlp.up_proj.weight"),
        "missing bias": lambda: tensors.pop("model.layers.0.self_attn.k_proj.bias"),
        "extra": lambda: tensors.update({"model.layers.2.mlp.up_proj.weight": torch.zeros(2, 2)}),
        "misshapen": lambda: tensors.update({"model.norm.weight": torch.ones(63)}),
        "not numbers": lambda: tensors.update({"model.norm.weight": torch.ones(64, dtype=torch.int8)}),
        "experts": lambda: config.update(num_experts=128),
        "scaled": lambda: config.update(rope_scaling={"type": "yarn", "factor": 4.0}),
        "quantised": lambda: config.update(quantization_config={"quant_method": "gptq"}),
        "unknown": lambda: config.update(model_type="bert"),
        "autoregressive": lambda: config.update(model_type="qwen2"),
        "mask outside": lambda: config.update(mask_token_id=VOCAB),
        "no size": lambda: config.pop("hidden_size"),
    }
    if kind in changes:
        changes[kind]()
    (folder / "config.json").write_text(json.dumps(config))
    save(tensors, folder, 3)
    if kind == "no shard":
        (folder / "model-00002-of-00003.safetensors").unlink()
    elif kind == "cut shard":
        path = folder / "model-00002-of-00003.safetensors"
        path.write_bytes(path.read_bytes()[:5000])
    elif kind == "no config":
        (folder / "config.json").unlink()
    elif kind == "bad config":
        (folder / "config.json").write_text("{")
    return folder


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("missing", "model.layers.1.mlp.up_proj.weight is missing"),
        ("missing bias", "model.layers.0.self_attn.k_proj.bias is missing"),
        ("extra", "model.layers.2.mlp.up_proj.weight is not of this family"),
        ("misshapen", r"model.norm.weight has shape \[63\], expected \[64\]"),
        ("not numbers", "model.norm.weight holds torch.int8"),
        ("experts", "mixture of 128 experts"),
        ("scaled", "yarn"),
        ("quantised", "gptq"),
        ("unknown", "unknown model_type 'bert'"),
        ("autoregressive", "without the mask token <M> is no diffusion model"),
        ("mask outside", "no mask token"),
        ("no size", "hidden_size"),
        ("no shard", "model-00002-of-00003.safetensors"),
        ("cut shard", "cannot be read"),
        ("no config", "no config.json"),
        ("bad config", "config.json: cannot be read"),
    ],
)
def test_what_is_wrong_is_named_in_one_line(kind: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=says) as caught:
        logits(broken(kind, tmp_path), torch.arange(5))
    assert "\n" not in str(caught.value)


def test_no_second_copy_of_the_weights_is_held_while_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the published tensors at most those of one layer's matrix are alive at a time, however many there are."""
    case = dataclasses.replace(CASES[0], options=CASES[0].options | {"num_hidden_layers": 12})
    folder, _ = write(case, tmp_path)
    read: list[weakref.ref[torch.Tensor]] = []
    alive: list[int] = []
    get = _Files.get

    def counted(self: _Files, name: str, *shape: int, rows: slice | None = None) -> torch.Tensor:
        alive.append(sum(ref() is not None for ref in read))
        tensor = get(self, name, *shape, rows=rows)
        if tensor.dim() == 2:  # norms are kept as they are
            read.append(weakref.ref(tensor))
        return tensor

    monkeypatch.setattr(_Files, "get", counted)
    published = recognise(folder)
    for dtype in ("int8", "bf16"):
        read_published(folder, published, torch.device("cpu"), dtype)
    assert len(alive) > 2 * 12 * 10
    assert max(alive) <= 3


def test_buffers_and_a_saved_tied_head_do_not_disturb(tmp_path: Path) -> None:
    case = next(c for c in CASES if c.family == "open-dcoder")
    folder, model = write(case, tmp_path)
    tensors = {k: v.clone() for k, v in model.state_dict().items()}
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(8)
    save(tensors, folder, 1)
    ids = torch.arange(20)
    torch.testing.assert_close(logits(folder, ids)[1], independent(model, ids, 0), atol=1e-4, rtol=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("case", [c for c in CASES if c.options.get("head_dim", 16) == 16], ids=lambda c: c.folder)
@pytest.mark.parametrize(("dtype", "close"), [("float32", 0.01), ("bf16", 0.05), ("int8", 0.15)])
def test_on_cuda_logits_stay_near_the_independent_ones(case: Case, dtype: str, close: float, tmp_path: Path) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    folder, model = write(case, tmp_path)
    ids = torch.randint(0, VOCAB, (70,))
    _, ours = logits(folder, ids, dtype, "cuda")
    theirs = independent(model, ids, case.block)
    row = (ours - theirs).norm(dim=-1) / theirs.norm(dim=-1)
    # near-ties of a router may fall otherwise in fewer bits: the typical row tells
    assert float(row.median()) < close
