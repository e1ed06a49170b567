"""Damaged, wrong and hostile files of weights: one clear line, in little memory and time.

Cut off, with wrong sizes, with lengths beyond all files, with metadata of other types. (Neither format has
references, so that nothing can be cyclic.)
"""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import psutil
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from mercury_model.adapter import describe, load_adapter
from mercury_model.checkpoint import read_checkpoint
from mercury_model.convert import convert
from mercury_model.errors import CheckpointError, FetchError
from tests.model import tiny_gguf

CPU = torch.device("cpu")
MEMORY = 300 << 20
"""No file of some kilobytes may cost more than this (bytes)."""
FEW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
EXTREME = (0, 1, 2**31 - 1, 2**32 - 1)


def refused(work: Callable[[], object]) -> None:
    """It works, or says in one line why not; either way without much memory."""
    process = psutil.Process()
    before = process.memory_info().rss
    try:
        work()
    except (CheckpointError, FetchError) as error:
        assert str(error)
        assert "\n" not in str(error)
    assert process.memory_info().rss - before < MEMORY


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    return tiny_gguf.write_gguf(path, tiny_gguf.tensors()).read_bytes()


@pytest.fixture(scope="module")
def converted(published: bytes, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("converted")
    (folder / "tiny.gguf").write_bytes(published)
    convert(folder / "tiny.gguf", folder / "int8.safetensors", "int8")
    return (folder / "int8.safetensors").read_bytes()


def adapter_bytes(folder: Path, metadata: dict[str, str], **changed: torch.Tensor | None) -> Path:
    """A right adapter for a model of one layer and 8 wide; changed: other tensors, None leaves one out."""
    tensors: dict[str, torch.Tensor] = {"mask_embedding": torch.ones(8)}
    modules = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj")
    for module in (*modules, "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"):
        at = f"model.layers.0.{module}"
        tensors |= {f"{at}.lora_A.weight": torch.ones(2, 8), f"{at}.lora_B.weight": torch.ones(8, 2)}
    tensors = {name: tensor for name, tensor in {**tensors, **changed}.items() if tensor is not None}
    save_file(tensors, folder / "adapter.safetensors", metadata)
    return folder / "adapter.safetensors"


KEYS = (
    "block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count",
    "attention.head_count_kv",
)  # fmt: skip


@pytest.mark.parametrize("value", EXTREME)
@pytest.mark.parametrize("key", KEYS)
def test_a_size_that_the_tensors_do_not_have_is_refused(key: str, value: int, published: bytes, tmp_path: Path) -> None:
    name = f"qwen2.{key}".encode()
    at = published.index(name) + len(name) + 4
    (tmp_path / "x.gguf").write_bytes(published[:at] + struct.pack("<I", value) + published[at + 4 :])
    refused(lambda: convert(tmp_path / "x.gguf", tmp_path / "int8.safetensors", "int8"))
    if key != "context_length":
        assert not (tmp_path / "int8.safetensors").exists()


@FEW
@given(data=st.data())
def test_a_gguf_file_with_other_numbers_is_refused_or_read(
    data: st.DataObject, published: bytes, tmp_path: Path
) -> None:
    """Eight bytes anywhere in the header become a number that is a length, an offset, a type beyond all bounds."""
    end = published.index(b"output_norm.weight") + 200
    at = data.draw(st.integers(4, end))
    number = data.draw(st.sampled_from((0, 1, 9, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1)))
    damaged = published[:at] + struct.pack("<Q", number) + published[at + 8 :]
    (tmp_path / "x.gguf").write_bytes(damaged[: data.draw(st.sampled_from((len(damaged), at + 8, end)))])
    refused(lambda: convert(tmp_path / "x.gguf", tmp_path / "int8.safetensors", "int8"))


ODD_LISTS: dict[str, Callable[[gguf.GGUFWriter], None]] = {
    "tokens that are numbers": lambda w: w.add_array("tokenizer.ggml.tokens", [1, 2, 3]),
    "merges that are numbers": lambda w: w.add_array("tokenizer.ggml.merges", [1, 2, 3]),
    "merges of one part": lambda w: w.add_array("tokenizer.ggml.merges", ["ab", "c"]),
    "fewer types than tokens": lambda w: w.add_array("tokenizer.ggml.token_type", [1, 1]),
    "types that are texts": lambda w: w.add_array("tokenizer.ggml.token_type", ["a", "b"]),
    "an alignment of nothing": lambda w: w.add_uint32("general.alignment", 0),
}


@pytest.mark.parametrize("odd", ODD_LISTS)
def test_metadata_of_another_type_is_refused(odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd(gguf.GGUFWriter):
        def write_header_to_file(self, *args: Any, **kwargs: Any) -> None:
            ODD_LISTS[odd](self)
            super().write_header_to_file(*args, **kwargs)

        def add_key_value(self, key: str, *args: Any, **kwargs: Any) -> None:
            for fields in self.kv_data:  # the writer takes no key twice
                fields.pop(key, None)
            super().add_key_value(key, *args, **kwargs)

    monkeypatch.setattr(gguf, "GGUFWriter", Odd)
    path = tiny_gguf.write_gguf(tmp_path / "x.gguf", tiny_gguf.tensors())
    with pytest.raises(CheckpointError) as caught:
        convert(path, tmp_path / "int8.safetensors", "int8")
    assert "\n" not in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


def with_header(whole: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    size = int.from_bytes(whole[:8], "little")
    table = json.loads(whole[8 : 8 + size])
    change(table)
    text = json.dumps(table).encode()
    return len(text).to_bytes(8, "little") + text + whole[8 + size :]


@FEW
@given(data=st.data())
def test_our_own_format_with_another_header_is_refused_or_read(
    data: st.DataObject, converted: bytes, tmp_path: Path
) -> None:
    def change(table: dict[str, Any]) -> None:
        part = data.draw(st.sampled_from(("config", "metadata", "tensor", "missing")))
        if part == "config":
            config = json.loads(table["__metadata__"]["config"])
            key = data.draw(st.sampled_from(sorted(config)))
            config[key] = data.draw(st.sampled_from((*EXTREME, -1)) | JSON)
            table["__metadata__"]["config"] = json.dumps(config)
        elif part == "metadata":
            table["__metadata__"][data.draw(st.sampled_from(("config", "format", "dtype")))] = data.draw(
                st.text(max_size=4) | st.sampled_from(("null", "{}", "[1]", "5"))
            )
        else:
            name = data.draw(st.sampled_from(sorted(set(table) - {"__metadata__"})))
            if part == "missing":
                del table[name]
            else:
                key = data.draw(st.sampled_from(("dtype", "shape", "data_offsets")))
                table[name][key] = data.draw(
                    st.sampled_from(("F64", "I64", "F8", [0, 2**62], [2**63], [-1], [5, 1], [])) | JSON
                )

    (tmp_path / "x.safetensors").write_bytes(with_header(converted, change))
    refused(lambda: read_checkpoint(tmp_path / "x.safetensors", CPU))


def test_billions_of_layers_are_refused_before_any_work(converted: bytes, tmp_path: Path) -> None:
    def change(table: dict[str, Any]) -> None:
        config = json.loads(table["__metadata__"]["config"])
        table["__metadata__"]["config"] = json.dumps(config | {"n_layers": 2**40})

    (tmp_path / "x.safetensors").write_bytes(with_header(converted, change))
    with pytest.raises(CheckpointError, match="is missing"):
        read_checkpoint(tmp_path / "x.safetensors", CPU)


@FEW
@given(data=st.data())
def test_our_own_format_cut_off_or_with_other_bytes_is_refused_or_read(
    data: st.DataObject, converted: bytes, tmp_path: Path
) -> None:
    size = int.from_bytes(converted[:8], "little")
    at = data.draw(st.integers(0, size))
    piece = data.draw(st.binary(min_size=1, max_size=8))
    damaged = converted[:at] + piece + converted[at + len(piece) :]
    (tmp_path / "x.safetensors").write_bytes(damaged[: data.draw(st.sampled_from((len(damaged), size, 9, 0)))])
    refused(lambda: read_checkpoint(tmp_path / "x.safetensors", CPU))


def adapter_of(path: Path) -> object:
    return load_adapter(path, 1, 8, torch.float32, CPU)


ODD_TENSORS = (
    None, torch.ones(()), torch.ones(0), torch.ones(3), torch.ones(2, 3), torch.ones(2, 2, 2),
    torch.ones(2, 8, dtype=torch.int8), torch.full((2, 8), float("nan")),
)  # fmt: skip


def test_the_adapter_that_the_others_are_made_from_is_right(tmp_path: Path) -> None:
    adapter_of(adapter_bytes(tmp_path, {"scale": "2.0"}))


@pytest.mark.parametrize("scale", ["", "x", "nan", "inf", "1e999", "-1e999"])
def test_a_scale_that_is_no_number_is_refused(scale: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="scale"):
        adapter_of(adapter_bytes(tmp_path, {"scale": scale}))


@FEW
@given(data=st.data())
def test_an_adapter_with_other_tensors_or_bytes_is_refused_or_read(data: st.DataObject, tmp_path: Path) -> None:
    names = (
        "mask_embedding",
        "model.layers.0.self_attn.q_proj.lora_A.weight",
        "model.layers.0.mlp.up_proj.lora_B.weight",
    )
    changed = {data.draw(st.sampled_from((*names, "extra"))): data.draw(st.sampled_from(ODD_TENSORS))}
    path = adapter_bytes(tmp_path, {"scale": "2.0"}, **changed)
    whole = path.read_bytes()
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(whole) - 1))
        path.write_bytes(whole[:at] + data.draw(st.binary(max_size=4)) + whole[at + 4 :])
    refused(lambda: adapter_of(path))
    describe(path)


def test_lengths_beyond_all_files_are_refused(tmp_path: Path) -> None:
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 1)
    key = struct.pack("<Q", 1) + b"k"
    for kind, item in ((9, 8), (9, 4), (9, 9), (8, 0)):
        for length in (2**31, 2**62, 2**64 - 1):
            value = (
                struct.pack("<I", kind) + (struct.pack("<I", item) if kind == 9 else b"") + struct.pack("<Q", length)
            )
            (tmp_path / "x.gguf").write_bytes(head + key + value + b"\0" * 64)
            refused(lambda: convert(tmp_path / "x.gguf", tmp_path / "y.safetensors", "int8"))
    for length in (2**31, 2**62, 2**64 - 1):
        (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", length) + b"{}")
        refused(lambda: read_checkpoint(tmp_path / "x.safetensors", CPU))
        with pytest.raises(CheckpointError):
            adapter_of(tmp_path / "x.safetensors")
