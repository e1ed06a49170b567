"""What a training step needs of the untouched base: its keys, its hidden states and its own choices.

Nothing here has a gradient. On the CPU the base runs on its 8-bit path, as it does in use: what is learned is to
please the weights that will check. This module knows nothing about blocks, masks or losses.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from examples import Example, examples
from safetensors import safe_open
from shards import Shards
from torch import Tensor

from mercury_kernels import Weight, int8_weight, linear, unmask
from mercury_kernels.linear import Dense
from mercury_model import store
from mercury_model.checkpoint import read_checkpoint
from mercury_model.config import Config
from mercury_model.tokens import Tokens
from mercury_model.transformer import KVCache, Rows, Transformer

PASS_ROWS = 256
MIN_PLACES = 64
STRIDE = 1 << 32
TOGETHER = 16
"""Texts that the base goes on with in one pass; more rows cost less each up to about this number."""
SHORTLIST = 24_000
"""Vocabulary rows that are learned and drafted: of the corpus' tokens, all but about 3%."""


@dataclass(frozen=True, slots=True)
class Shortlist:
    """The tokens that a loss knows, for 152k logits a row cost more than the layers that are trained.

    ids [n] i64, ascending. column [V] i64: where a token stands among them, -1 if it does not.
    weight [n, H]: their rows of the output matrix. tile: the same as the base's arithmetic wants it.
    """

    ids: Tensor
    column: Tensor
    weight: Tensor
    tile: Weight


@dataclass(frozen=True, slots=True)
class Context:
    """One sequence of L tokens after its pass through the base.

    ids [L] i64; columns [L] i64: where they stand in the shortlist, -1 if they do not.
    own [L] i64: the column of the token that the base itself would put after each token.
    hidden [L, H]: final normed hidden states. keys, values: of the layers that were asked for, [n_kv_heads, L, D].
    first: where blocks may begin, behind the suffix that stands first. written: tokens at the end that the base wrote
    itself.
    """

    ids: Tensor
    columns: Tensor
    own: Tensor
    hidden: Tensor
    keys: dict[int, Tensor]
    values: dict[int, Tensor]
    first: int = 1
    written: int = 0


class Base:
    """The frozen base on one device. path: the file that its weights were read from."""

    def __init__(self, config: Config, transformer: Transformer, tokens: Tokens, path: Path) -> None:
        self.config = config
        self.transformer = transformer
        self.tokens = tokens
        self.path = path

    @property
    def device(self) -> torch.device:
        return self.transformer.device

    def read(self, ids: Sequence[int], shortlist: Shortlist, layers: Sequence[int]) -> Context:
        """One causal pass over `ids`; keys and values of `layers` are kept."""
        return self.go_on([ids], 0, shortlist, layers)[0]

    def go_on(
        self, texts: Sequence[Sequence[int]], n: int, shortlist: Shortlist, layers: Sequence[int]
    ) -> list[Context]:
        """Read each text and write up to n tokens behind it, greedily, all texts together."""
        return [
            self._context(text, wrote, shortlist, layers)
            for text, wrote in zip(texts, greedy(self, texts, n), strict=True)
        ]

    def _context(self, text: Sequence[int], wrote: "Wrote", shortlist: Shortlist, layers: Sequence[int]) -> Context:
        ids, hidden, cache = wrote.ids, wrote.hidden, wrote.cache
        sequence = torch.tensor(ids, dtype=torch.int64, device=self.device)
        n = len(ids)
        own = torch.cat([linear(rows, shortlist.tile).argmax(-1) for rows in hidden.split(PASS_ROWS)])
        # copies, because tensors of an inference pass cannot take part in a gradient
        keys = {layer: cache.keys[layer, :, :n].clone() for layer in layers}
        values = {layer: cache.values[layer, :, :n].clone() for layer in layers}
        first = text.index(self.tokens.fim_middle) + 2 if self.tokens.fim_middle in text else 1
        columns = shortlist.column[sequence]
        return Context(sequence, columns, own.clone(), hidden.clone(), keys, values, first, n - len(text))


@dataclass(frozen=True, slots=True)
class Wrote:
    """A text and what the base wrote behind it: ids [L], final normed hidden states [L, H], the cache of all of it."""

    ids: list[int]
    hidden: Tensor
    cache: KVCache


def greedy(base: Base, texts: Sequence[Sequence[int]], n: int) -> list[Wrote]:
    """Each text with its greedy continuation of at most n tokens, up to a special token."""
    transformer = base.transformer
    caches = [transformer.new_cache() for _ in texts]
    hidden = [
        [run(transformer, torch.tensor(ids, dtype=torch.int64, device=base.device), cache)]
        for ids, cache in zip(texts, caches, strict=True)
    ]
    ids = [list(text) for text in texts]
    going = list(range(len(texts)))
    for _ in range(n):
        last = torch.cat([hidden[i][-1][-1:] for i in going])
        tokens = unmask(last, transformer.weights.lm_head).token.tolist()
        found = [(i, token) for i, token in zip(going, tokens, strict=True) if not base.tokens.is_special(token)]
        going = [i for i, _ in found]
        if not going:
            break
        rows = [Rows(torch.tensor([token], device=base.device), caches[i], caches[i].length) for i, token in found]
        for (i, token), h in zip(found, transformer.forward(rows), strict=True):
            caches[i].length += 1
            ids[i].append(token)
            hidden[i].append(h)
    return [Wrote(i, torch.cat(h), cache) for i, h, cache in zip(ids, hidden, caches, strict=True)]


@dataclass(slots=True)
class Replay:
    """Contexts that are used several times, for the base's pass costs more than the step that learns from it.

    `group` contexts are gone through `times` times, each time in another order, then the next ones. Which context a
    micro-step uses depends on its number alone. read(first, n): the contexts from number `first` on; `together` are
    read at a time, which divides `group`.
    """

    read: Callable[[int, int], Sequence[Context]]
    seed: int
    group: int = 256
    times: int = 3
    together: int = 1
    held: dict[int, Context] = field(default_factory=dict[int, Context])

    def of(self, micro_step: int) -> int:
        """The number of the context that a micro-step uses."""
        group, within = divmod(micro_step, self.group * self.times)
        again, place = divmod(within, self.group)
        order = np.random.default_rng((self.seed, group, again)).permutation(self.group)
        return group * self.group + int(order[place])

    def __call__(self, micro_step: int) -> Context:
        number = self.of(micro_step)
        if number not in self.held:
            first = number - number % self.group
            self.held = {n: context for n, context in self.held.items() if n >= first}
            begin = number - number % self.together
            self.held |= dict(enumerate(self.read(begin, self.together), begin))
        return self.held[number]


def long_enough(shards: Shards, seed: int, number: int, tokens: Tokens, max_context: int) -> Example:
    """The first example of number, number + STRIDE, ... in which at least MIN_PLACES blocks can begin.

    A step that learned from a handful of blocks would weigh as much as one that learned from hundreds.
    """
    for example in examples(shards, seed, number, tokens=tokens, step=STRIDE, max_context=max_context):
        if len(example.ids) - example.ids.index(tokens.fim_middle) >= MIN_PLACES:
            return example
    raise AssertionError("examples are without end")


def contexts_from(
    shards: Shards,
    base: Base,
    shortlist: Shortlist,
    layers: Sequence[int],
    *,
    seed: int,
    max_context: int,
    written: int,
) -> Callable[[int, int], list[Context]]:
    """What Replay reads: the seed's contexts, each gone on with by the base for up to `written` tokens, or as the text
    itself goes on where that is 0."""

    def read(first: int, n: int) -> list[Context]:
        found = [long_enough(shards, seed, number, base.tokens, max_context) for number in range(first, first + n)]
        texts = [list(one.ids[: one.middle_start if written else None]) for one in found]
        return base.go_on(texts, written, shortlist, layers)

    return read


def run(transformer: Transformer, ids: Tensor, cache: KVCache) -> Tensor:
    """Append `ids` [n] to the cache, causally; final normed hidden states [n, H]."""
    found: list[Tensor] = []
    for part in ids.split(PASS_ROWS):
        found += transformer.forward([Rows(part, cache, cache.length)])
        cache.length += part.shape[0]
    return torch.cat(found)


def load_base(device: torch.device, dtype: store.Dtype | None = None, name: str = store.DEFAULT) -> Base:
    """The embedded model: 8-bit on the CPU, bf16 on a GPU, unless dtype says otherwise."""
    paths = store.ensure(name, dtype or ("bf16" if device.type == "cuda" else "int8"))
    config, weights = read_checkpoint(paths.weights, device)
    return Base(config, Transformer(config, weights), Tokens(paths.tokenizer), paths.weights)


def frequent(shards: Shards, tokens: Tokens, n: int) -> list[int]:
    """The n most frequent tokens of the training split, and the special tokens of infilling; ascending."""
    counts = np.zeros(1 << 18, np.int64)
    for row in shards.of("train"):
        counts += np.bincount(shards.tokens[row.offset : row.offset + row.n], minlength=len(counts))
    order = np.argsort(-counts, kind="stable")[:n]
    special = (tokens.end, tokens.fim_prefix, tokens.fim_middle, tokens.fim_suffix, tokens.file_sep)
    return sorted({*order[counts[order] > 0].tolist(), *special})


def shortlist_from(run: Path, shards: Shards, base: Base, n: int = SHORTLIST) -> Shortlist:
    """A run's shortlist, chosen once: a corpus that grows must not change what the columns mean."""
    path = run / "shortlist.json"
    if not path.exists():
        run.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(frequent(shards, base.tokens, n)), encoding="utf-8")
    return shortlist_of(json.loads(path.read_text(encoding="utf-8")), base.path, base.config, base.device)


def shortlist_of(ids: Sequence[int], path: Path, config: Config, device: torch.device) -> Shortlist:
    """The rows `ids` of the output matrix in the weights file `path`."""
    chosen = torch.tensor(ids, dtype=torch.int64)
    with safe_open(path, framework="pt") as file:
        weight: Tensor = file.get_tensor("lm_head.weight")[chosen].to(device)
        scale = file.get_tensor("lm_head.scale")[chosen].to(device) if weight.dtype == torch.int8 else None
    column = torch.full((config.vocab,), -1, dtype=torch.int64)
    column[chosen] = torch.arange(len(ids))
    chosen, column = chosen.to(device), column.to(device)
    if scale is None:
        return Shortlist(chosen, column, weight.float(), Dense(weight))
    return Shortlist(chosen, column, weight.float() * scale[:, None], int8_weight(weight, scale))
