"""What of a prefix is chosen again together with what follows, by the real tokenizer."""

from __future__ import annotations

import pytest

from mercury_model.draft import Request
from mercury_model.local import LocalInfiller

pytestmark = pytest.mark.real


@pytest.mark.parametrize(
    ("prefix", "healed", "following"),
    [
        ("json.load(", "(", "file"),
        ('"""Convert it."""', '."""', "\n    return"),
        ("def area(self):", "):", "\n        return"),
        ("return ", " ", "None"),
        ("    retu", " retu", "rn"),
        ("self.wid", ".wid", "th"),
        ("x = my_longvar", "var", "iable"),
        ("groups.", ".", "get"),
        ("x = 1\n", "", "y"),
        ("x = 1\n    ", " ", "y"),
        ("", "", "import"),
    ],
)
def test_so_much_is_healed_that_the_usual_tokens_can_follow(
    prefix: str, healed: str, following: str, model: LocalInfiller
) -> None:
    tokens = model.denoiser.tokens
    assert tokens.healing(tokens.encode(prefix), prefix) == healed
    usual = tokens.encode(prefix + following)
    kept = tokens.encode(prefix[: len(prefix) - len(healed)])
    assert usual[: len(kept)] == kept, "what is left of the prefix is tokenized as in the whole text"
    assert not healed or usual[len(kept)] in tokens.starting_with(healed)


def test_a_text_goes_on_inside_a_word_and_behind_a_bracket(model: LocalInfiller) -> None:
    """Without healing the model writes a blank behind the bracket, for `(` alone is rarely followed by a word."""
    word = Request("def add(a, b):\n    retu", "\n\n\nprint(add(1, 2))\n", max_tokens=8)
    assert list(model(word))[-1].text.startswith("rn a + b")
    call = Request("with open(path) as file:\n    data = json.load(", "\n\n\nprint(data)\n", max_tokens=4)
    assert list(model(call))[-1].text.startswith("file)")


def test_no_character_is_lost_while_the_first_slot_is_masked(model: LocalInfiller) -> None:
    prefix = "def largest(numbers):\n    retu"
    drafts = list(model(Request(prefix, "\n\n\nprint(largest([1]))\n", max_tokens=8, policy="topk_margin")))
    shapes: set[bool] = set()
    for draft in drafts:
        if draft.done or not draft.slots:
            continue
        visible = "".join(slot.text for slot in draft.slots if slot.state != "masked")
        masked = draft.slots[0].state == "masked"
        shapes.add(masked)
        assert visible == ("" if masked else " retu") + draft.text
    assert shapes, "there were steps to look at"
