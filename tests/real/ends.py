"""Where middles end: how often the server finds the end of a held-out middle, and how often it cuts right text.

    python -m tests.real.ends [N]

The middles are those of `model/train/examples.py`, from packages that no training saw (`.cache/corpus`). Each is taken
out of its text; the region and the rule of its end are those of an inline completion there. Right text is cut if the
rule ends a beginning of the middle, token by token. The end is found if it is not cut, and the model's own text behind
the whole middle ends exactly there: by the end token, the probe or the rule. What is compared leaves out blanks at the
ends. Middles that no completion would write whole (a line's, where a block was taken out) are counted apart.
"""

import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from mercury_lsp.region import Budget, completion_region, request_for
from mercury_lsp.text import Document
from mercury_model import load
from mercury_model.local import LocalInfiller
from mercury_model.tokens import Tokens

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "model" / "train"))

from examples import Example, examples  # noqa: E402  # pyright: ignore[reportMissingImports]
from shards import open_shards  # noqa: E402  # pyright: ignore[reportMissingImports]

BEHIND = 32
"""Tokens the model may write behind the middle before its end counts as missed."""
SEED = 7


@dataclass
class Sums:
    n: int = 0
    found: int = 0
    cut: int = 0
    spoken: int = 0

    def add(self, found: bool, cut: bool, spoken: bool) -> None:
        self.n += 1
        self.found += found
        self.cut += cut
        self.spoken += spoken

    def row(self, name: str) -> str:
        shares = (self.found, self.cut, self.spoken)
        return f"| {name} | {self.n} | {' | '.join(f'{count / self.n:.1%}' for count in shares)} |"


HEAD = "| middle | n | end found | right text cut | end token |\n|---|---|---|---|---|"


def judge(model: LocalInfiller, example: Example) -> tuple[str, bool, bool, bool] | None:
    """(kind of region, found, cut, whether the base says the end token by itself); None where nothing is offered."""
    tokens = model.denoiser.tokens
    assert isinstance(tokens, Tokens)
    begin = example.ids.index(tokens.fim_middle)
    suffix = tokens.decode(example.ids[2:begin])
    prefix = tokens.decode(example.ids[begin + 1 : example.middle_start])
    middle = tokens.decode(example.middle)
    document = Document("file:///heldout", 1, example.language, prefix + suffix)
    region = completion_region(document, len(prefix), Budget(300, 100), model.count_tokens)
    if region is None:
        return None
    request = request_for(region, policy="greedy", max_tokens=BEHIND, copies=False, judge=None)
    rule = request.end
    assert rule is not None
    whole = middle.rstrip()
    cut = False
    for n in range(1, len(example.middle)):
        keep = rule(tokens.decode(example.middle[:n]))
        cut = cut or (keep is not None and keep < len(whole))

    def end(text: str) -> int | None:
        keep = rule(middle + text)
        return None if keep is None else max(0, keep - len(middle))

    behind = replace(request, prefix=request.prefix + middle, end=end)
    last = [draft for draft in model(behind) if draft.done][-1]
    ended = last.ended in ("end", "rule") or rule(middle) is not None
    found = not cut and ended and (middle + last.text).rstrip() == whole
    spoken = last.ended == "end" and not last.text.strip()
    return region.kind, found, cut, spoken


def main(n: int) -> None:
    model = load()
    assert isinstance(model, LocalInfiller)
    shards = open_shards(ROOT / ".cache" / "corpus")
    sums: dict[str, Sums] = defaultdict(Sums)
    heldout = examples(shards, SEED, 0, tokens=model.denoiser.tokens, split="heldout", max_context=320)
    for done, example in enumerate(islice(heldout, n), 1):
        result = judge(model, example)
        if result is not None:
            kind, *flags = result
            sums[f"{example.kind} in a {kind} region"].add(*flags)
            sums["all"].add(*flags)
        if done % 25 == 0 or done == n:
            print(f"\n{done} middles\n\n{HEAD}", *(sums[name].row(name) for name in sorted(sums)), sep="\n", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
