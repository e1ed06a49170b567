"""Text to token ids and back, byte for byte.

decode(encode(text)) == text for every text without lone surrogates (those are replaced). Special tokens are never
produced from user text: what looks like one is encoded as ordinary characters. This module knows nothing about
prompts.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from mercury_model.errors import CheckpointError

Json = dict[str, Any]

MARK = re.compile(r"<.*>|\[.*\]|\|<.*>")
"""How special tokens look; publishers do not flag all of theirs."""

QWEN_FIM = ("<|fim_prefix|>", "<|fim_suffix|>", "{suffix}", "<|fim_middle|>", "{prefix}")
"""A fill-in-the-middle prompt, part by part: special tokens, and where suffix and prefix stand. Suffix first, so that
typing appends."""

SPOKEN = ("<tool_call>", "</tool_call>")
"""Tokens that look special and are text where the model writes them: how it says that it wants a tool called."""

HEALED_TOKENS = 4
"""How many tokens at the end of a prefix are looked at for one that they begin."""

SAMPLE = " \tdef f(x):\n    return 'e\u0301 \u00e9 \U0001f600'\r\n\n"
"""What has to come back as it was."""


class Tokens:
    """A tokenizer.json of byte-level BPE, or the vocab.json and merges.txt that lie in its place.

    Which special tokens there are depends on the checkpoint: those of fill-in-the-middle raise CheckpointError when
    they are asked for and not there.
    """

    def __init__(self, path: Path, fim: tuple[str, ...] = QWEN_FIM) -> None:
        self.fim = fim
        try:
            if path.exists():
                spec = json.loads(path.read_text(encoding="utf-8"))
                changed = _keep_every_byte(spec)
            else:
                spec, changed = _from_parts(path.parent), True
            self._added, flagged = _flag_special(spec)
            changed |= flagged
            self._tokenizer = Tokenizer.from_str(json.dumps(spec)) if changed else Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception
            raise CheckpointError(f"{path}: not a tokenizer ({error}); fetch the model again") from None
        self._tokenizer.encode_special_tokens = True
        self.special_ids = frozenset(i for i, (_, special) in self._added.items() if special)
        self._n_ids = max([self._tokenizer.get_vocab_size(with_added_tokens=False) - 1, *self._added]) + 1
        self._piece = lru_cache(maxsize=65536)(self._bytes)
        if self.decode(self.encode(SAMPLE)) != SAMPLE:
            raise CheckpointError(
                f"{path}: not a byte-level tokenizer; text would not survive it, choose another model"
            )

    @cached_property
    def fim_prefix(self) -> int:
        return self.special("<|fim_prefix|>")

    @cached_property
    def fim_middle(self) -> int:
        return self.special("<|fim_middle|>")

    @cached_property
    def fim_suffix(self) -> int:
        return self.special("<|fim_suffix|>")

    @cached_property
    def file_sep(self) -> int:
        return self.special("<|file_sep|>")

    @cached_property
    def file_mark(self) -> list[int]:
        """What stands before a path in the prompt."""
        mark = self.find("<|file_sep|>")
        return self.encode("\n# ") if mark is None else [mark]

    @cached_property
    def end(self) -> int:
        return self.special("<|endoftext|>")

    def special(self, name: str) -> int:
        token = self.find(name)
        if token is None:
            raise CheckpointError(f"the tokenizer has no {name}: not a fill-in-the-middle model; choose another")
        return token

    def find(self, name: str) -> int | None:
        """The id of the token with exactly this text, special or not."""
        token = self._tokenizer.token_to_id(name)
        return None if token is None else int(token)

    def encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(_clean(text), add_special_tokens=False).ids

    def encode_spoken(self, text: str) -> list[int]:
        """Like encode, but the marks of SPOKEN become their tokens: for conversations, where the model reads them."""
        ids: list[int] = []
        for part in re.split("|".join(f"({re.escape(mark)})" for mark in SPOKEN), text):
            token = self.find(part) if part in SPOKEN else None
            ids += [token] if token is not None else self.encode(part) if part else []
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Special tokens are left out; an unfinished multi-byte character at the end is left out too."""
        data = b"".join(self._piece(i) for i in ids)
        return data.decode("utf-8", errors="ignore")

    def is_special(self, token: int) -> bool:
        """A special token, or a row of the vocabulary that no token uses."""
        return token in self.special_ids or token >= self._n_ids or self._tokenizer.id_to_token(token) is None

    def count(self, text: str) -> int:
        return len(self.encode(text))

    def healing(self, ids: Sequence[int], text: str) -> str:
        """The end of `text` whose tokens should be chosen again together with what follows; "" for none.

        A cursor stands where no training text ends a token: behind a space that belongs to the next word, inside a
        word, behind a bracket or quote (`(file` is one token, `):` with its newline is one). What is taken back is a
        trailing blank, or the last token, or as many of the last HEALED_TOKENS as one longer token begins with
        (` ret` and `u`, which ` return` begins with); the first generated token must begin with it (token healing).
        Behind a newline nothing is, for there tokens do end. `ids` is encode(text).
        """
        if not text or text[-1] in "\r\n":
            return ""
        if text[-1] in " \t":
            return text[-1]
        found = ""
        for n in range(1, min(HEALED_TOKENS, len(ids)) + 1):
            tail = self.decode(ids[-n:])
            if not tail or not text.endswith(tail) or any(c.isspace() for c in tail[1:]):
                break
            if n == 1 or any(len(self._piece(i)) > len(tail.encode()) for i in self.starting_with(tail)):
                found = tail
        return found

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
        if token in self._added:
            return self._added[token][0].encode("utf-8")
        return bytes(_BYTE_OF[c] for c in self._tokenizer.id_to_token(token) or "")


def read_json(path: Path, *, missing_ok: bool = False) -> Json:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if missing_ok:
            return {}
        raise CheckpointError(f"{path.parent}: there is no {path.name}; fetch the whole checkpoint") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error}); fetch it again") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: not a JSON object; fetch it again")
    return value


def added_tokens(folder: Path) -> dict[str, int]:
    """Tokens beyond the vocabulary proper, by name, from whichever files there are."""
    found: dict[str, int] = {}
    for entry in read_json(folder / "tokenizer.json", missing_ok=True).get("added_tokens", []):
        found[str(entry["content"])] = int(entry["id"])
    decoder = read_json(folder / "tokenizer_config.json", missing_ok=True).get("added_tokens_decoder", {})
    for token_id, entry in decoder.items():
        found.setdefault(str(entry["content"]), int(token_id))
    for token, token_id in read_json(folder / "added_tokens.json", missing_ok=True).items():
        found.setdefault(token, int(token_id))
    return found


def _flag_special(spec: Json) -> tuple[dict[int, tuple[str, bool]], bool]:
    """Flag what looks like a special token as one, in place, so that user text never becomes it.

    -> id: (text, is special) of the added tokens, and whether a flag was changed.
    """
    found: dict[int, tuple[str, bool]] = {}
    changed = False
    for entry in spec.get("added_tokens", []):
        text = str(entry["content"])
        special = bool(entry.get("special")) or MARK.fullmatch(text) is not None
        changed |= special != bool(entry.get("special"))
        entry["special"] = special
        found[int(entry["id"])] = (text, special and text not in SPOKEN)
    return found, changed


def _keep_every_byte(spec: Json) -> bool:
    """Drop a normaliser that would rewrite the user's characters (NFC in Qwen's files); true if there was one."""
    kind = (spec.get("normalizer") or {}).get("type")
    if kind != "NFC":
        return False
    spec["normalizer"] = None
    return True


def _from_parts(folder: Path) -> Json:
    """A tokenizer from vocab.json, merges.txt and the added tokens, as checkpoints with their own code publish it.

    All of them split words as Qwen2 does.
    """
    from tokenizers import Regex, decoders, models, pre_tokenizers

    from mercury_model.convert import SPLIT

    tokenizer = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    split = pre_tokenizers.Split(Regex(SPLIT), behavior="isolated", invert=False)
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, bytes_only])  # pyright: ignore[reportAttributeAccessIssue]
    tokenizer.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    spec: Json = json.loads(tokenizer.to_str())
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    named = sorted(added_tokens(folder).items(), key=lambda item: item[1])
    spec["added_tokens"] = [{"id": i, "content": text, **plain} for text, i in named]
    return spec


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
