"""Text to token ids and back, byte for byte.

decode(encode(text)) == text for every text without lone surrogates (those are replaced). Special tokens are never
produced from user text: what looks like one is encoded as ordinary characters. This module knows nothing about
prompts.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path

from tokenizers import Tokenizer

from mercury_model.errors import CheckpointError


class Tokens:
    """A tokenizer.json with the special tokens of fill-in-the-middle code models."""

    def __init__(self, path: Path) -> None:
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception
            raise CheckpointError(f"{path}: not a tokenizer ({error}); run mercury-lsp model pull") from None
        self._tokenizer.encode_special_tokens = True
        self.fim_prefix = self.special("<|fim_prefix|>")
        self.fim_middle = self.special("<|fim_middle|>")
        self.fim_suffix = self.special("<|fim_suffix|>")
        self.file_sep = self.special("<|file_sep|>")
        self.end = self.special("<|endoftext|>")
        self.n_special_from = min(self.end, self.fim_prefix)
        self._piece = lru_cache(maxsize=65536)(self._bytes)

    def special(self, name: str) -> int:
        token = self._tokenizer.token_to_id(name)
        if token is None:
            raise CheckpointError(f"the tokenizer has no {name}: not a fill-in-the-middle model; choose another")
        return int(token)

    def encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(_clean(text), add_special_tokens=False).ids

    def decode(self, ids: Sequence[int]) -> str:
        """Special tokens are left out; an unfinished multi-byte character at the end is left out too."""
        data = b"".join(self._piece(i) for i in ids)
        return data.decode("utf-8", errors="ignore")

    def is_special(self, token: int) -> bool:
        return token >= self.n_special_from

    def count(self, text: str) -> int:
        return len(self.encode(text))

    def healing(self, ids: Sequence[int], text: str) -> str:
        """The end of `text` whose token should be chosen again together with what follows; "" for none.

        A cursor stands where no training text ends a token: behind a space that belongs to the next word, or inside
        a word. A trailing blank, or the last token if it ends in a word character, is taken back, and the first
        generated token must begin with it (token healing). `ids` is encode(text).
        """
        if not text:
            return ""
        if text[-1] in " \t":
            return text[-1]
        if ids and (text[-1].isalnum() or text[-1] == "_"):
            piece = self.decode(ids[-1:])
            return piece if piece and text.endswith(piece) else ""
        return ""

    def starting_with(self, text: str) -> list[int]:
        """Ids of the ordinary tokens whose text begins with `text`, in no particular order."""
        wanted = text.encode("utf-8")
        pieces = self._sorted_pieces
        start = bisect.bisect_left(pieces, (wanted, -1))
        stop = bisect.bisect_left(pieces, (wanted + b"\xff" * 64, -1), start)
        return [token for _, token in pieces[start:stop]]

    @cached_property
    def _sorted_pieces(self) -> list[tuple[bytes, int]]:
        n = self._tokenizer.get_vocab_size(with_added_tokens=False)
        return sorted((piece, i) for i in range(n) if (piece := self._bytes(i)))

    def _bytes(self, token: int) -> bytes:
        if self.is_special(token):
            return b""
        piece = self._tokenizer.id_to_token(token)
        return b"" if piece is None else bytes(_BYTE_OF[c] for c in piece)


def _clean(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", errors="replace").decode("utf-8")
    return text


def _byte_alphabet() -> dict[str, int]:
    """Byte-level BPE writes each byte as a printable character (Radford et al. 2019): the table back to bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(256 + n): b for n, b in enumerate(rest)}


_BYTE_OF = _byte_alphabet()
