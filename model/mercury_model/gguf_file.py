"""A GGUF file, memory-mapped: its metadata as Python values, its tensors as raw rows.

The `gguf` package has a reader too; it makes several numpy arrays for every string, which for a vocabulary of
151,936 tokens and as many merges takes 7 s and 600 MB here, against 0.2 s. What the numbers of types and block
sizes mean comes from that package. This module knows nothing about models.

Layout: github.com/ggml-org/ggml, docs/gguf.md. Little-endian files of version 2 and 3.
"""

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType
from gguf.quants import dequantize
from numpy.typing import NDArray

from mercury_model.errors import CheckpointError

Value = int | float | bool | str | list[int] | list[float] | list[bool] | list[str]

CODES = {
    GGUFValueType.UINT8: "B",
    GGUFValueType.INT8: "b",
    GGUFValueType.UINT16: "H",
    GGUFValueType.INT16: "h",
    GGUFValueType.UINT32: "I",
    GGUFValueType.INT32: "i",
    GGUFValueType.FLOAT32: "f",
    GGUFValueType.BOOL: "?",
    GGUFValueType.UINT64: "Q",
    GGUFValueType.INT64: "q",
    GGUFValueType.FLOAT64: "d",
}
"""struct's letters for the scalar types."""


@dataclass(frozen=True, slots=True)
class RawTensor:
    """data [N, bytes of a row] as stored; a vector has one row. width: values of a row."""

    data: NDArray[np.uint8]
    width: int
    kind: GGMLQuantizationType

    def values(self, start: int, stop: int) -> NDArray[np.float32]:
        """Rows start to stop, dequantised: [n, width]."""
        rows = self.data[start:stop]
        if self.kind == GGMLQuantizationType.F32:
            return rows.view(np.float32)
        if self.kind == GGMLQuantizationType.F16:
            return rows.view(np.float16).astype(np.float32)
        return dequantize(rows, self.kind).astype(np.float32, copy=False)


class Gguf:
    """metadata: by key. tensors: by name."""

    def __init__(self, path: Path) -> None:
        """Raises CheckpointError if the file is not there, not GGUF, or cut off."""
        self.path = path
        try:
            with path.open("rb") as file:
                self.bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self.at = 0
            self.metadata, self.tensors = self._read()
        except (ValueError, KeyError, OSError, struct.error) as error:
            raise CheckpointError(
                f"{path} is not a complete GGUF file ({error}): delete it and fetch it again"
            ) from error

    def _read(self) -> tuple[dict[str, Value], dict[str, RawTensor]]:
        if self._take(4) != b"GGUF":
            raise ValueError("it begins otherwise")
        version, n_tensors, n_fields = self._number("I"), self._number("Q"), self._number("Q")
        if version not in (2, 3):
            raise ValueError(f"version {version} is unknown")
        metadata: dict[str, Value] = {}
        for _ in range(n_fields):
            name = self._string()
            metadata[name] = self._value(GGUFValueType(self._number("I")))
        infos: list[tuple[str, tuple[int, ...], GGMLQuantizationType, int]] = []
        for _ in range(n_tensors):
            name = self._string()
            dims = tuple(self._number("Q") for _ in range(self._number("I")))
            infos.append((name, dims, GGMLQuantizationType(self._number("I")), self._number("Q")))
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment <= 0:
            raise ValueError(f"the alignment {alignment} makes no sense")
        start = self.at + -self.at % alignment
        return metadata, {name: self._tensor(start + offset, dims, kind) for name, dims, kind, offset in infos}

    def _tensor(self, start: int, dims: tuple[int, ...], kind: GGMLQuantizationType) -> RawTensor:
        """dims: the length of a row first."""
        width, n_rows = dims[0] if dims else 1, 1
        for dim in dims[1:]:
            n_rows *= dim
        per_block, block_bytes = GGML_QUANT_SIZES[kind]
        if not width or width % per_block:
            raise ValueError(f"a row of {width} values does not fit blocks of {per_block}")
        row_bytes = width // per_block * block_bytes
        if start + n_rows * row_bytes > len(self.bytes):
            raise ValueError("it is cut off")
        flat = np.frombuffer(self.bytes, np.uint8, n_rows * row_bytes, start)
        return RawTensor(flat.reshape(n_rows, row_bytes), width, kind)

    def _value(self, kind: GGUFValueType) -> Value:
        if kind == GGUFValueType.STRING:
            return self._string()
        if kind != GGUFValueType.ARRAY:
            return self._number(CODES[kind])
        item, length = GGUFValueType(self._number("I")), self._number("Q")
        if item == GGUFValueType.STRING:
            return [self._string() for _ in range(length)]
        size = struct.calcsize("<" + CODES[item])
        return list(struct.unpack(f"<{length}{CODES[item]}", self._take(length * size)))

    def _number(self, code: str) -> int:
        (value,) = struct.unpack_from("<" + code, self.bytes, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def _string(self) -> str:
        return self._take(self._number("Q")).decode()

    def _take(self, n_bytes: int) -> bytes:
        piece = self.bytes[self.at : self.at + n_bytes]
        if len(piece) != n_bytes:
            raise ValueError("it is cut off")
        self.at += n_bytes
        return piece
