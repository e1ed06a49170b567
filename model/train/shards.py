"""The corpus as it lies on disk: tokens.bin, one uint32 per token, and index.json, one row per file.

Knows nothing about packages' archives or about training examples.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Row:
    """Where one file's tokens lie: `n` of them from `offset`. split: "train" or "heldout"."""

    offset: int
    n: int
    language: str
    package: str
    split: str
    path: str


@dataclass(frozen=True, slots=True)
class Shards:
    """An opened corpus. tokens: [N] uint32, memory-mapped. tokenizer: sha256 of the tokenizer.json."""

    tokens: NDArray[np.uint32]
    rows: tuple[Row, ...]
    tokenizer: str

    def of(self, split: str) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.split == split)


def write_shards(
    folder: Path, parts: Iterable[tuple[Row, NDArray[np.uint32]]], tokenizer: str, notes: dict[str, object]
) -> Shards:
    """Write both files; the rows' offsets are set here. The index appears last, so it stands for both.

    notes: whatever else index.json should say (packages, what was left out). Raises ValueError for no tokens.
    """
    rows: list[Row] = []
    at = 0
    folder.mkdir(parents=True, exist_ok=True)
    index, temporary = folder / "index.json", folder / "tokens.bin.tmp"
    with temporary.open("wb") as file:
        for row, tokens in parts:
            rows.append(Row(at, len(tokens), row.language, row.package, row.split, row.path))
            file.write(tokens.astype("<u4").tobytes())
            at += len(tokens)
    if at == 0:
        raise ValueError("nothing is left to learn from: every file was refused, see the manifest")
    index.unlink(missing_ok=True)
    temporary.replace(folder / "tokens.bin")
    table = {
        "format": FORMAT,
        "tokenizer": tokenizer,
        "n_tokens": at,
        **notes,
        "files": [asdict(row) for row in rows],
    }
    temporary = folder / "index.json.tmp"
    temporary.write_text(json.dumps(table), encoding="utf-8")
    temporary.replace(index)
    return open_shards(folder)


def open_shards(folder: Path) -> Shards:
    """Raises ValueError, with what to do, if the folder holds no complete corpus."""
    try:
        table = json.loads((folder / "index.json").read_text(encoding="utf-8"))
        tokens = np.memmap(folder / "tokens.bin", dtype="<u4", mode="r")
        if table["format"] != FORMAT or table["n_tokens"] != len(tokens):
            raise ValueError("the two files do not belong together")
        rows = tuple(Row(**row) for row in table["files"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"no corpus in {folder} ({error}); build it with model/train/corpus.py") from error
    return Shards(tokens, rows, table["tokenizer"])
