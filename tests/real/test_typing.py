"""A keystroke costs the typed tokens: counted in tokens of the real tokenizer that are run through prefill."""

from __future__ import annotations

import pytest

from mercury_lsp.region import Budget, EditRegion, completion_region, request_for
from mercury_lsp.text import Document
from mercury_model.local import LocalInfiller
from tests.real.heldout import FOLDER

pytestmark = pytest.mark.real
BEFORE = "    def charge_all"
TYPED = "    def refund(self, member: str) -> None:\n        amount = self.balance"
N_KEYS = 40


def typed(model: LocalInfiller, budget: Budget, uri: str) -> tuple[list[int], list[Document], list[EditRegion]]:
    """Prefilled tokens for the first request and for each of N_KEYS keystrokes; the documents and regions."""
    text = (FOLDER / "ledger.py").read_text(encoding="utf-8")
    place = text.index(BEFORE)
    counts: list[int] = []
    documents: list[Document] = []
    regions: list[EditRegion] = []
    for n in range(N_KEYS + 1):
        document = Document(uri, n, "python", text[:place] + TYPED[:n] + "\n\n" + text[place:])
        last = regions[-1] if regions else None
        region = completion_region(document, place + n, budget, model.count_tokens, last)
        assert region is not None
        drafts = list(model(request_for(region, policy="greedy", max_tokens=1)))
        counts.append(drafts[-1].prefilled)
        documents.append(document)
        regions.append(region)
    return counts, documents, regions


@pytest.mark.timeout(900)
def test_typing_costs_the_typed_tokens(model: LocalInfiller) -> None:
    counts, _, regions = typed(model, Budget(900, 200), "file:///typing/wide.py")
    assert counts[0] > 300, "the first request reads the whole context"
    assert len({region.before.start for region in regions}) == 1
    assert sum(counts[1:]) <= N_KEYS, counts


@pytest.mark.timeout(900)
def test_typing_costs_one_window_more_where_the_window_is_full(model: LocalInfiller) -> None:
    budget = Budget(160, 60)
    first = typed(model, budget, "file:///typing/fits.py")[2][0]
    used = model.count_tokens(first.before.of(first.document.text))
    full = Budget(used + 4, budget.suffix)
    counts, _, regions = typed(model, full, "file:///typing/full.py")
    starts = [region.before.start for region in regions]
    assert len(set(starts)) == 2, "the window moves once"
    assert sum(counts[1:]) <= N_KEYS + full.prefix, counts
