"""A published GGUF file becomes the device's own format: one safetensors file and a tokenizer.json.

Reads memory-mapped and dequantises a few thousand rows at a time, so the peak memory stays far below the size
of the model. Both files are written under temporary names in the target's folder and renamed when complete.

This module knows nothing about where GGUF files come from, nor about how the weights are used. It knows one
layout, qwen2, whose q and k rows GGUF leaves unpermuted (halves are rotated, not pairs).
"""

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Literal, TypeVar

import numpy as np
from gguf import TokenType
from numpy.typing import NDArray
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from mercury_model.config import Config
from mercury_model.errors import CheckpointError, FetchError
from mercury_model.gguf_file import Gguf

Dtype = Literal["int8", "bf16", "float32"]
Report = Callable[[str, float], None]
F32 = NDArray[np.float32]
T = TypeVar("T")

FORMAT = "mercury-1"
"""Written into the file's metadata; a reader refuses any other."""

WEIGHT_LIMIT = 63
"""int8 weights stay within 7 bits: AVX2 sums pairs of u8 x s8 products in 16 bits, which saturate above that."""

CHUNK = 1 << 22
"""Values dequantised at once: 16 MiB of float32."""

SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Qwen2's pre-tokenisation: words with one leading sign or space, single digits, runs of signs, of spaces."""

ITEM_BYTES = {"F32": 4, "F16": 2, "BF16": 2, "I8": 1}
FULL_CODES: dict[Dtype, str] = {"int8": "F16", "bf16": "BF16", "float32": "F32"}


@dataclass(frozen=True, slots=True)
class Part:
    """One tensor of the target: `sources` are GGUF tensors whose rows follow each other."""

    name: str
    sources: tuple[str, ...]
    shape: tuple[int, ...]
    kind: Literal["vector", "table", "matrix"]


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a tensor lies in the target: safetensors dtype code, shape, bytes from the start of the data."""

    code: str
    shape: tuple[int, ...]
    start: int

    @property
    def n_bytes(self) -> int:
        return int(np.prod(self.shape)) * ITEM_BYTES[self.code]


def layout(config: Config, *, tied: bool) -> tuple[Part, ...]:
    """The target's tensors. tied: the GGUF has no output matrix, the embedding serves as one."""
    hidden, inner = config.hidden, config.intermediate
    query, key = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
    parts = [Part("embed.weight", ("token_embd.weight",), (config.vocab, hidden), "table")]
    for n in range(config.n_layers):
        ours, blk = f"layers.{n}.", f"blk.{n}."
        qkv = [f"{blk}attn_{letter}" for letter in "qkv"]
        parts += [
            Part(ours + "attn_norm", (blk + "attn_norm.weight",), (hidden,), "vector"),
            Part(ours + "qkv.weight", tuple(q + ".weight" for q in qkv), (query + 2 * key, hidden), "matrix"),
            Part(ours + "qkv.bias", tuple(q + ".bias" for q in qkv), (query + 2 * key,), "vector"),
            Part(ours + "o.weight", (blk + "attn_output.weight",), (hidden, query), "matrix"),
            Part(ours + "mlp_norm", (blk + "ffn_norm.weight",), (hidden,), "vector"),
            Part(
                ours + "gate_up.weight",
                (blk + "ffn_gate.weight", blk + "ffn_up.weight"),
                (2 * inner, hidden),
                "matrix",
            ),
            Part(ours + "down.weight", (blk + "ffn_down.weight",), (hidden, inner), "matrix"),
        ]
    head = "token_embd.weight" if tied else "output.weight"
    return (
        *parts,
        Part("norm", ("output_norm.weight",), (hidden,), "vector"),
        Part("lm_head.weight", (head,), (config.vocab, hidden), "matrix"),
    )


def quantise_rows(rows: F32, limit: int = WEIGHT_LIMIT) -> tuple[NDArray[np.int8], F32]:
    """rows [N, K] -> int8 [N, K] within +-limit and scale [N]; rows ~ int8 * scale[:, None].

    A row of zeros gets the scale 1.
    """
    scale = np.abs(rows).max(axis=1) / np.float32(limit)
    scale[scale == 0] = 1.0
    return np.rint(rows / scale[:, None]).clip(-limit, limit).astype(np.int8), scale


def to_bf16(values: F32) -> NDArray[np.uint16]:
    """float32 -> the bits of bfloat16, rounded to nearest, ties to even. Finite values only."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


@contextlib.contextmanager
def atomic_file(target: Path) -> Generator[IO[bytes]]:
    """A file opened for writing that appears under `target` when complete, or not at all.

    Raises FetchError for whatever the file system refuses.
    """
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        raise storage_error(error, target) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def storage_error(error: OSError, target: Path) -> FetchError:
    """One line for an OSError met while writing `target`."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return FetchError(f"disk full while writing {target}: free some space and run the command again")
    return FetchError(f"cannot write {target}: {error.strerror or error}")


def sha256(path: Path, report: Callable[[int], None] | None = None) -> str:
    """Hash of a file, hex. report: called with the number of bytes hashed so far."""
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(1 << 22):
            digest.update(piece)
            done += len(piece)
            if report is not None:
                report(done)
    return digest.hexdigest()


class Source:
    """A GGUF file of the qwen2 layout."""

    def __init__(self, path: Path) -> None:
        """Raises CheckpointError if the file is not a complete GGUF file of the qwen2 layout."""
        self.path = path
        self.file = Gguf(path)
        if (architecture := self.value("general.architecture", str)) != "qwen2":
            raise CheckpointError(f"{path} has the layout {architecture!r}; only qwen2 can be converted")

    def value(self, key: str, kind: type[T]) -> T:
        found = self.file.metadata.get(key)
        if not isinstance(found, kind):
            raise CheckpointError(f"{self.path} has no usable {key}: it is not a complete checkpoint")
        return found

    def config(self) -> Config:
        """Sizes that the file's own tensors can have: what is planned from them stays as small as the file."""
        heads, hidden = (
            self.value("qwen2.attention.head_count", int),
            self.value("qwen2.embedding_length", int),
        )
        config = Config(
            n_layers=self.value("qwen2.block_count", int),
            hidden=hidden,
            intermediate=self.value("qwen2.feed_forward_length", int),
            n_heads=heads,
            n_kv_heads=self.value("qwen2.attention.head_count_kv", int),
            head_dim=hidden // max(1, heads),
            vocab=len(self.value("tokenizer.ggml.tokens", list)),
            rope_theta=self.value("qwen2.rope.freq_base", float),
            rms_eps=self.value("qwen2.attention.layer_norm_rms_epsilon", float),
            context_length=self.value("qwen2.context_length", int),
        )
        tensors = self.file.tensors
        n_found = sum(name.startswith("blk.") and name.endswith(".attn_norm.weight") for name in tensors)
        if min(heads, config.n_kv_heads, config.vocab, config.context_length, config.intermediate) < 1:
            raise CheckpointError(f"{self.path} names sizes that are not above 0: it is not a complete checkpoint")
        if heads * config.head_dim != hidden or heads % config.n_kv_heads:
            raise CheckpointError(f"{self.path}: {heads} heads do not divide {hidden}: it is not a complete checkpoint")
        if config.n_layers != n_found:
            raise CheckpointError(f"{self.path} names {config.n_layers} layers and has {n_found}: it is not complete")
        return config

    def rows(self, part: Part) -> Iterator[F32]:
        """The part's values in order, a few thousand rows [n, K] at a time; a vector is one row [1, N]."""
        n_rows = 0
        for name in part.sources:
            if (tensor := self.file.tensors.get(name)) is None:
                raise CheckpointError(f"{self.path} has no tensor {name}: it is not a complete checkpoint")
            if part.kind != "vector" and tensor.width != part.shape[1]:
                raise CheckpointError(f"{self.path}: {name} is {tensor.width} wide, expected {part.shape[1]}")
            n_rows += tensor.width if part.kind == "vector" else len(tensor.data)
            step = max(1, CHUNK // tensor.width)
            for at in range(0, len(tensor.data), step):
                values = tensor.values(at, at + step)
                if not np.isfinite(values).all():
                    raise CheckpointError(f"{self.path}: {name} holds values that are not finite")
                yield values
        if n_rows != part.shape[0]:
            raise CheckpointError(f"{self.path}: {part.name} has {n_rows} rows, expected {part.shape[0]}")


def plan(parts: Sequence[Part], dtype: Dtype) -> dict[str, Entry]:
    """Offsets of all tensors; wide items come first, so that every tensor is aligned to its own item size."""
    codes: list[tuple[str, str, tuple[int, ...]]] = []
    for part in parts:
        if part.kind == "vector":
            codes.append((part.name, "F32", part.shape))
        elif part.kind == "matrix" and dtype == "int8":
            codes.append((part.name, "I8", part.shape))
            codes.append((scale_name(part), "F32", part.shape[:1]))
        else:
            codes.append((part.name, FULL_CODES[dtype], part.shape))
    entries: dict[str, Entry] = {}
    at = 0
    for name, code, shape in sorted(codes, key=lambda row: -ITEM_BYTES[row[1]]):
        entries[name] = Entry(code, shape, at)
        at += entries[name].n_bytes
    return entries


def scale_name(part: Part) -> str:
    return part.name.removesuffix("weight") + "scale"


def header(entries: dict[str, Entry], metadata: dict[str, str]) -> bytes:
    """The safetensors header with its length, padded so that the data starts on a multiple of 64 bytes."""
    table: dict[str, object] = {"__metadata__": metadata}
    for name, entry in entries.items():
        offsets = [entry.start, entry.start + entry.n_bytes]
        table[name] = {"dtype": entry.code, "shape": list(entry.shape), "data_offsets": offsets}
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    return len(text).to_bytes(8, "little") + text


def encode(values: F32, code: str) -> bytes:
    if code == "BF16":
        return to_bf16(values).tobytes()
    return values.astype({"F16": np.float16, "F32": np.float32}[code]).tobytes()


def convert(
    gguf_file: Path, target: Path, dtype: Dtype, report: Report | None = None, *, source_sha256: str = ""
) -> None:
    """Write `target` (safetensors) and `tokenizer.json` beside it.

    dtype: int8 (weights of all products, per-row scales; the embedding is float16), bf16 or float32.
    report: called with a message and the fraction done. source_sha256: hash of the GGUF where it is known
    already, computed here otherwise. Raises CheckpointError for the source, FetchError for the target.
    """
    if report is not None:
        report(f"reading {gguf_file.name}", 0.0)
    source = Source(gguf_file)
    config = source.config()
    parts = layout(config, tied="output.weight" not in source.file.tensors)
    entries = plan(parts, dtype)
    metadata = {
        "format": FORMAT,
        "dtype": dtype,
        "config": json.dumps(asdict(config)),
        "source_sha256": source_sha256 or sha256(gguf_file),
    }
    total = sum(entry.n_bytes for entry in entries.values())
    tokenizer, beside = build_tokenizer(source).to_str().encode(), target.with_name("tokenizer.json")
    # one that is right stays: while it is new and without a stamp, weights of another dtype would not be ready either
    if not beside.is_file() or beside.read_bytes() != tokenizer:
        with atomic_file(beside) as file:
            file.write(tokenizer)
    with atomic_file(target) as file:
        start = file.write(header(entries, metadata))
        file.truncate(start + total)
        done = 0
        for part in parts:
            entry, scales = entries[part.name], list[F32]()
            file.seek(start + entry.start)
            for values in source.rows(part):
                if entry.code == "I8":
                    whole, scale = quantise_rows(values)
                    scales.append(scale)
                    done += file.write(whole.tobytes())
                else:
                    done += file.write(encode(values, entry.code))
                if report is not None:
                    report(f"converting to {dtype}", done / total)
            if scales:
                file.seek(start + entries[scale_name(part)].start)
                done += file.write(np.concatenate(scales).tobytes())
    if report is not None:
        report(f"converted to {dtype}", 1.0)


def build_tokenizer(source: Source) -> Tokenizer:
    """The GGUF's byte-level BPE. Text round-trips byte for byte: nothing is normalised, nothing is prefixed.

    Control and user-defined tokens become special tokens; set `encode_special_tokens` on the tokenizer when
    text of users is encoded, so that "<|endoftext|>" in a source file stays text. Unused rows get no name.
    """
    tokens = source.value("tokenizer.ggml.tokens", list)
    types = source.value("tokenizer.ggml.token_type", list)
    kinds = TokenType
    try:
        merges = [tuple(merge.split(" ", 1)) for merge in source.value("tokenizer.ggml.merges", list)]
        rows = list(enumerate(zip(tokens, types, strict=True)))
        special = {n: token for n, (token, kind) in rows if kind in (kinds.CONTROL, kinds.USER_DEFINED)}
        # special tokens are part of the model's vocabulary too: an added token takes the id that it has there
        vocab = {token: n for n, (token, kind) in rows if kind == kinds.NORMAL} | {t: n for n, t in special.items()}
        tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, fuse_unk=False, byte_fallback=False))
    except CheckpointError:
        raise
    except Exception as error:  # tokenizers raises bare Exception, and the lists may hold anything
        what = str(error).partition("\n")[0]
        raise CheckpointError(f"{source.path}: the merges do not fit the vocabulary ({what})") from error
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special.values()])
    return tokenizer
