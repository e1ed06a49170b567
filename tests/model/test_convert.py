"""GGUF -> safetensors and tokenizer.json, on a tiny file with every tensor and token kind."""

import errno
import hashlib
import json
import os
import threading
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf.quants import dequantize
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from tokenizers import Tokenizer

from mercury_model import convert as module
from mercury_model import store
from mercury_model.convert import WEIGHT_LIMIT, atomic_file, convert, quantise_rows, to_bf16
from mercury_model.errors import CheckpointError, FetchError
from mercury_model.gguf_file import Gguf
from tests.model import tiny_gguf
from tests.model.tiny_gguf import HIDDEN, INNER, KV, LAYERS, TOKENS, write_gguf


@pytest.fixture(scope="module")
def made() -> dict[str, np.ndarray]:
    return tiny_gguf.tensors()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, made: dict[str, np.ndarray]) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", made)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory, source: Path) -> Tokenizer:
    folder = tmp_path_factory.mktemp("tokenizer")
    convert(source, folder / "w.safetensors", "int8")
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def fused(made: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What the target must hold, in float32, by an independent reading of the layout."""
    expected = {
        "embed.weight": made["token_embd.weight"],
        "lm_head.weight": made.get("output.weight", made["token_embd.weight"]),
        "norm": made["output_norm.weight"],
    }
    for n in range(LAYERS):
        get = {key.removeprefix(f"blk.{n}."): value for key, value in made.items() if key.startswith(f"blk.{n}.")}
        expected |= {
            f"layers.{n}.attn_norm": get["attn_norm.weight"],
            f"layers.{n}.mlp_norm": get["ffn_norm.weight"],
            f"layers.{n}.qkv.weight": np.vstack([get[f"attn_{x}.weight"] for x in "qkv"]),
            f"layers.{n}.qkv.bias": np.hstack([get[f"attn_{x}.bias"] for x in "qkv"]),
            f"layers.{n}.o.weight": get["attn_output.weight"],
            f"layers.{n}.gate_up.weight": np.vstack([get["ffn_gate.weight"], get["ffn_up.weight"]]),
            f"layers.{n}.down.weight": get["ffn_down.weight"],
        }
    return expected


def test_float32_holds_every_tensor_exactly(source: Path, made: dict[str, np.ndarray], tmp_path: Path) -> None:
    convert(source, tmp_path / "w.safetensors", "float32")
    with safe_open(tmp_path / "w.safetensors", "np") as file:
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    expected = fused(made)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].dtype == np.float32, name
        np.testing.assert_array_equal(found[name], values, err_msg=name)
    assert found["layers.0.qkv.weight"].shape == (HIDDEN + 2 * KV, HIDDEN)
    assert found["layers.1.gate_up.weight"].shape == (2 * INNER, HIDDEN)


def test_int8_is_within_half_a_step_of_every_weight(source: Path, made: dict[str, np.ndarray], tmp_path: Path) -> None:
    convert(source, tmp_path / "w.safetensors", "int8")
    with safe_open(tmp_path / "w.safetensors", "np") as file:
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    for name, values in fused(made).items():
        if name == "embed.weight":
            assert found[name].dtype == np.float16
            np.testing.assert_allclose(found[name], values, rtol=1e-3)
        elif values.ndim == 2:
            scale = found.pop(name.replace("weight", "scale"))
            assert found[name].dtype == np.int8 and np.abs(found[name]).max() == WEIGHT_LIMIT, name
            np.testing.assert_allclose(scale, np.abs(values).max(axis=1) / WEIGHT_LIMIT, rtol=1e-6, err_msg=name)
            error = np.abs(found[name] * scale[:, None] - values)
            assert (error <= scale[:, None] * 0.5001).all(), name
        else:
            np.testing.assert_array_equal(found[name], values, err_msg=name)
    assert found.keys() == fused(made).keys()


def test_bf16_rounds_weights_to_nearest_and_keeps_vectors(
    source: Path, made: dict[str, np.ndarray], tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    convert(source, tmp_path / "w.safetensors", "bf16")
    with safe_open(tmp_path / "w.safetensors", "pt") as file:
        for name, values in fused(made).items():
            found = file.get_tensor(name)
            kind = torch.float32 if values.ndim == 1 else torch.bfloat16
            assert found.dtype == kind and torch.equal(found, torch.from_numpy(values).to(kind)), name


def test_rows_are_read_in_pieces_that_do_not_show(
    source: Path, made: dict[str, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert(source, tmp_path / "whole.safetensors", "int8")
    monkeypatch.setattr(module, "CHUNK", 7 * HIDDEN)
    convert(source, tmp_path / "pieces.safetensors", "int8")
    assert (tmp_path / "whole.safetensors").read_bytes() == (tmp_path / "pieces.safetensors").read_bytes()


def test_without_an_output_matrix_the_embedding_is_the_head(tmp_path: Path) -> None:
    made = tiny_gguf.tensors(tied=True)
    convert(write_gguf(tmp_path / "tied.gguf", made), tmp_path / "w.safetensors", "float32")
    with safe_open(tmp_path / "w.safetensors", "np") as file:
        np.testing.assert_array_equal(file.get_tensor("lm_head.weight"), made["token_embd.weight"])


def test_metadata_says_what_the_file_is(source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "w.safetensors", "int8")
    with safe_open(tmp_path / "w.safetensors", "np") as file:
        metadata = file.metadata()
    assert metadata["format"] == module.FORMAT and metadata["dtype"] == "int8"
    assert metadata["source_sha256"] == hashlib.sha256(source.read_bytes()).hexdigest()
    config = json.loads(metadata["config"])
    assert config.pop("rms_eps") == pytest.approx(1e-6)
    assert config == {
        "n_layers": LAYERS,
        "hidden": HIDDEN,
        "intermediate": INNER,
        "n_heads": 4,
        "n_kv_heads": 2,
        "head_dim": 16,
        "vocab": len(TOKENS),
        "rope_theta": 10000.0,
        "context_length": 128,
    }


def test_progress_rises_to_one(source: Path, tmp_path: Path) -> None:
    seen: list[float] = []
    convert(source, tmp_path / "w.safetensors", "int8", lambda message, fraction: seen.append(fraction))
    assert seen == sorted(seen) and seen[-1] == 1.0 and len(seen) > LAYERS


@pytest.mark.parametrize("limit", [7, 63, 127])
def test_quantised_rows_stay_within_the_limit_and_zero_rows_stay_zero(limit: int) -> None:
    rows = np.random.default_rng(1).standard_normal((5, 33)).astype(np.float32)
    rows[2] = 0
    whole, scale = quantise_rows(rows, limit)
    assert whole.dtype == np.int8 and scale.dtype == np.float32
    assert np.abs(whole).max() == limit and not whole[2].any() and (scale > 0).all()
    assert (np.abs(whole * scale[:, None] - rows) <= 0.5001 * scale[:, None]).all()


def test_bf16_ties_go_to_even() -> None:
    values = np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8, -(1 + 2**-8), 3.0e38, 0.0], np.float32)
    back = (to_bf16(values).astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(back[:4], np.array([1.0, 1.0, 1 + 2**-6, -1.0], np.float32))
    assert np.isfinite(back).all() and back[5] == 0


# --- what can be wrong with the source -----------------------------------------------------------------------


def broken(kind: str, folder: Path) -> Path:
    made = tiny_gguf.tensors()
    path = folder / "broken.gguf"
    if kind == "truncated":
        whole = write_gguf(path, made).read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
    elif kind == "header only":
        path.write_bytes(write_gguf(path, made).read_bytes()[:50])
    elif kind == "another kind of file":
        path.write_bytes(b"PK\x03\x04" * 100)
    elif kind == "absent":
        pass
    elif kind == "another layout":
        write_gguf(path, made, architecture="llama")
    elif kind == "missing key":
        write_gguf(path, made, without="attention.head_count_kv")
    elif kind == "missing tensor":
        made.pop("blk.1.attn_k.bias")
        write_gguf(path, made)
    elif kind == "misshapen tensor":
        made["blk.1.ffn_up.weight"] = made["blk.1.ffn_up.weight"][:-32]
        write_gguf(path, made)
    elif kind == "not finite":
        made["blk.0.attn_q.bias"][3] = np.nan
        write_gguf(path, made)
    elif kind == "merges of another vocabulary":
        write_gguf(path, made, merges=["zz qq"])
    return path


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("truncated", "not a complete GGUF"),
        ("header only", "not a complete GGUF"),
        ("another kind of file", "not a complete GGUF"),
        ("absent", "not a complete GGUF"),
        ("another layout", "llama"),
        ("missing key", "head_count_kv"),
        ("missing tensor", "blk.1.attn_k.bias"),
        ("misshapen tensor", "layers.1.gate_up.weight"),
        ("not finite", "not finite"),
        ("merges of another vocabulary", "merges"),
    ],
)
def test_a_broken_source_is_one_line_and_leaves_no_weights(kind: str, says: str, tmp_path: Path) -> None:
    source = broken(kind, tmp_path)
    with pytest.raises(CheckpointError) as caught:
        convert(source, tmp_path / "out" / "w.safetensors", "int8")
    assert says in str(caught.value) and "\n" not in str(caught.value)
    assert not list(tmp_path.glob("out/*safetensors*")) and not list(tmp_path.glob("out/.*"))


def test_the_reader_agrees_with_the_gguf_packages(source: Path) -> None:
    ours, theirs = Gguf(source), gguf.GGUFReader(source)
    own = {key: field.contents() for key, field in theirs.fields.items() if not key.startswith("GGUF.")}
    assert ours.metadata == own
    assert ours.tensors.keys() == {tensor.name for tensor in theirs.tensors}
    for tensor in theirs.tensors:
        expected = dequantize(tensor.data, tensor.tensor_type)
        found = ours.tensors[tensor.name].values(0, len(expected))
        np.testing.assert_array_equal(found, np.atleast_2d(expected), err_msg=tensor.name)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_damage_to_the_header_is_noticed_or_harmless(source: Path, data: st.DataObject) -> None:
    whole = bytearray(source.read_bytes())
    end = len(whole) - sum(tensor.data.nbytes for tensor in Gguf(source).tensors.values())
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, end - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.sampled_from([len(whole), end, end // 2, 5]))
    copy = source.with_name("damaged.gguf")
    copy.write_bytes(whole[:cut])
    try:
        Gguf(copy)
    except CheckpointError as error:
        assert "\n" not in str(error)
    else:
        assert cut == len(whole)


# --- writing -------------------------------------------------------------------------------------------------


class FullDisk:
    """A file that takes `room` bytes and then says that the disk is full."""

    def __init__(self, file: object, room: int) -> None:
        self.file, self.room = file, room

    def __getattr__(self, name: str) -> object:
        return getattr(self.file, name)

    def __enter__(self) -> "FullDisk":
        return self

    def __exit__(self, *args: object) -> None:
        self.file.close()  # type: ignore[attr-defined]

    def write(self, data: bytes) -> int:
        self.room -= len(data)
        if self.room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.file.write(data)  # type: ignore[attr-defined]


@pytest.mark.parametrize("room", [0, 100, 40_000])
def test_a_full_disk_is_one_line_and_keeps_what_was_there(
    room: int, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "w.safetensors"
    target.write_bytes(b"old")
    opened = Path.open

    def full(self: Path, mode: str = "r", *args: object) -> object:
        file = opened(self, mode, *args)  # type: ignore[call-overload]
        return FullDisk(file, room) if "w" in mode else file

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(FetchError, match="disk full") as caught:
        convert(source, target, "int8")
    assert "\n" not in str(caught.value)
    assert target.read_bytes() == b"old" and not list(tmp_path.glob(".*"))


def test_a_folder_that_cannot_be_is_one_line(source: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FetchError, match="cannot write"):
        convert(source, tmp_path / "file" / "w.safetensors", "int8")


def test_a_reader_sees_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    target, stop = tmp_path / "x", threading.Event()
    target.write_bytes(b"a" * 100_000)
    seen: set[bytes] = set()

    def read() -> None:
        while not stop.is_set():
            seen.add(target.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for letter in b"bcde" * 20:
        with atomic_file(target) as file:
            for _ in range(10):
                file.write(bytes([letter]) * 10_000)
    stop.set()
    reader.join()
    assert all(len(set(content)) == 1 and len(content) == 100_000 for content in seen)


# --- the tokenizer -------------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(st.text() | st.text(alphabet=" \t\r\n\x0c\u2028ax1'’é😀<|endoftext>_=") | st.sampled_from(tiny_gguf.SPECIAL))
def test_text_round_trips_byte_for_byte(tokenizer: Tokenizer, text: str) -> None:
    for plain in (False, True):
        tokenizer.encode_special_tokens = plain
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_special_tokens_have_their_rows_and_are_text_where_users_wrote_them(tokenizer: Tokenizer) -> None:
    tokenizer.encode_special_tokens = False
    for token in (*tiny_gguf.SPECIAL, *tiny_gguf.USER):
        assert tokenizer.encode(token, add_special_tokens=False).ids == [TOKENS.index(token)]
    tokenizer.encode_special_tokens = True
    marks = {TOKENS.index(token) for token in (*tiny_gguf.SPECIAL, *tiny_gguf.USER)}
    assert not marks & set(tokenizer.encode("".join(tiny_gguf.SPECIAL), add_special_tokens=False).ids)


def test_unused_rows_have_no_text(tokenizer: Tokenizer) -> None:
    assert tokenizer.id_to_token(tiny_gguf.MASK_ROW) is None
    assert tokenizer.decode([tiny_gguf.MASK_ROW, TOKENS.index("x")], skip_special_tokens=False) == "x"


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("def x", ["def", "Ġx"]),
        ("1234", ["1", "2", "3", "4"]),  # digits are split before merges: "12" is never one token
        ("     x", ["ĠĠĠĠ", "Ġx"]),
        ("de\u0301f", ["de", "Ì", "ģ", "f"]),  # a combining accent is neither joined nor normalised
        ("x\r\n\r\n", ["x", "č", "Ċ", "č", "Ċ"]),
    ],
)
def test_text_is_split_as_qwen2_splits_it(tokenizer: Tokenizer, text: str, tokens: list[str]) -> None:
    assert tokenizer.encode(text, add_special_tokens=False).tokens == tokens


REAL = "  x\t\n\r\n  y 1234 'LL don't   \n\n\n  e\u0301 你好 👩‍👩‍👧 \x0c \u2028 \xa0 a_b  <|endoftext|>\n"
"""What splits badly: white space of every kind, contractions, digits, accents, joined emoji, a special token's text."""

# fmt: off
REAL_IDS = [
    220, 856, 1572, 319, 220, 379, 220, 16, 17, 18, 19, 364, 4086, 1513, 944, 262, 1406, 220, 384, 53839, 220,
    108386, 61804, 102, 378, 235, 145233, 378, 235, 145665, 220, 200, 636, 101, 17091, 264, 880, 220, 82639, 8691,
    723, 427, 91, 397,
]
# fmt: on
"""Of llama.cpp (llama-cpp-python 0.3.36) reading the published file."""


@pytest.mark.real
def test_the_real_tokenizer_is_the_published_one() -> None:
    if (paths := store.ready(store.DEFAULT, "int8")) is None:
        pytest.skip("the weights are not there: mercury-lsp model pull")
    real = Tokenizer.from_file(str(paths.tokenizer))
    assert real.encode("<|fim_prefix|><|fim_suffix|><|fim_middle|><|endoftext|>").ids == [
        151659,
        151661,
        151660,
        151643,
    ]
    assert real.id_to_token(151665) is None and real.get_vocab_size() == 151665
    real.encode_special_tokens = True
    ids = real.encode(REAL, add_special_tokens=False).ids
    assert real.decode(ids, skip_special_tokens=False) == REAL
    assert ids == REAL_IDS
