"""infill on the block denoiser: exactness of `check`, reuse of the cache, ends, deadlines, healing."""

import time
from math import prod
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercury_model.denoiser import Ask, BlockDenoiser, perform
from mercury_model.draft import Draft, Request, Snippet
from mercury_model.errors import RequestError
from mercury_model.filling import FEW_SLOTS, WORTH_CHECKING, Run, fill
from mercury_model.infill import infill
from mercury_model.policy import POLICIES, Proposals
from mercury_model.prompt import prompt
from tests.model.tiny import denoiser as tiny_denoiser

SUFFIX = "\n    return total\n"
PREFIX = "def add(values):\n    total = 0\n    for"


@pytest.fixture(scope="module")
def denoiser(tmp_path_factory: pytest.TempPathFactory) -> BlockDenoiser:
    return tiny_denoiser(tmp_path_factory.mktemp("tokens"))


def last(denoiser: BlockDenoiser, request: Request) -> Draft:
    return list(infill(denoiser, request))[-1]


@settings(max_examples=25, deadline=None)
@given(st.text("abc(): =\n", max_size=40), st.text("xyz\n ", max_size=20), st.integers(1, 40))
def test_check_writes_what_greedy_writes(tmp_path_factory, prefix: str, suffix: str, n: int) -> None:
    model = tiny_denoiser(tmp_path_factory.getbasetemp())
    drafted = last(model, Request(prefix, suffix, policy="check", max_tokens=n))
    greedy = last(model, Request(prefix, suffix, policy="greedy", max_tokens=n))
    assert drafted.text == greedy.text
    assert drafted.n_tokens == greedy.n_tokens <= n


@settings(max_examples=25, deadline=None)
@given(st.text("abc(): =\n", max_size=40), st.text("xyz\n ", max_size=20), st.integers(1, 40))
def test_short_drafts_write_what_whole_blocks_write(tmp_path_factory, prefix: str, suffix: str, n: int) -> None:
    model = tiny_denoiser(tmp_path_factory.getbasetemp())
    request = Request(prefix, suffix, policy="check", max_tokens=n)
    whole = last(model, request)
    model.short_drafts = True
    assert last(model, request).text == whole.text


def passes(model: BlockDenoiser, request: Request) -> list[tuple[str, int, Proposals]]:
    """What each pass was (draft or check), its rows, and what came of it."""
    run = Run(model, request, model.new_session(), prompt(model.tokens, request))
    steps = fill(run)
    found: list[tuple[str, int, Proposals]] = []
    item = next(steps)
    while True:
        try:
            if not isinstance(item, Ask):
                item = next(steps)
                continue
            (answer,) = perform(model.transformer, [item])
            if answer is not None:
                found.append(("draft" if item.rows.adapted else "check", len(item.rows.ids), answer))
            item = steps.send(answer)
        except StopIteration:
            return found


def test_a_short_draft_grows_with_what_was_right_and_only_likely_slots_are_checked(denoiser: BlockDenoiser) -> None:
    denoiser.short_drafts = True
    found = passes(denoiser, Request(PREFIX, SUFFIX, policy="check", max_tokens=40, copies=False))
    denoiser.short_drafts = False
    left, slots = 40 - 1, FEW_SLOTS  # the first pass is the prefill, which gives a token
    for (kind, n_drafted, draft), (then, n_checked, check) in zip(found[1::2], found[2::2], strict=False):
        assert (kind, then) == ("draft", "check")
        assert n_drafted == min(8, slots + 1, left)
        likely = [prod(draft.confidence[: i + 1]) >= WORTH_CHECKING for i in range(n_drafted - 1)]
        assert n_checked == 1 + max(1, (*likely, False).index(False))
        right = next((i for i in range(n_checked - 1) if draft.token[i] != check.token[i]), n_checked - 1)
        left, slots = left - right - 1, max(FEW_SLOTS, right + 2)
    assert left <= 1


def test_the_pass_that_reads_the_context_says_the_first_token(denoiser: BlockDenoiser) -> None:
    drafts = list(infill(denoiser, Request(PREFIX, SUFFIX, policy="greedy", max_tokens=5, document="first.py")))
    assert drafts[-1].n_tokens == 5 and drafts[-1].forwards == 4
    assert drafts[0].forwards == 0 and drafts[0].n_tokens == 1, "shown as soon as it is known"
    again = Request(PREFIX, SUFFIX, policy="greedy", max_tokens=5, document="first.py")
    repeated = last(denoiser, again)
    assert repeated.text == drafts[-1].text
    assert (repeated.prefilled, repeated.forwards) == (0, 5), "where nothing is read there is nothing to say it"


def test_check_equals_greedy_with_a_right_a_wrong_and_a_half_right_guess(denoiser: BlockDenoiser) -> None:
    plain = last(denoiser, Request(PREFIX, SUFFIX, policy="greedy", max_tokens=30))
    for guess in (plain.text, "nonsense" * 4, plain.text[:10] + "nonsense"):
        drafted = last(denoiser, Request(PREFIX, SUFFIX, policy="check", max_tokens=30, guess=guess))
        assert drafted.text == plain.text
    right = last(denoiser, Request(PREFIX, SUFFIX, policy="check", max_tokens=30, guess=plain.text))
    assert right.forwards == 2  # no draft: the guess is checked 16 tokens at a time


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_the_text_never_grows_past_max_tokens(denoiser: BlockDenoiser, policy: str) -> None:
    for n in (1, 2, 7, 8, 9, 20):
        draft = last(denoiser, Request(PREFIX, SUFFIX, policy=policy, max_tokens=n))
        assert draft.done
        assert 0 < draft.n_tokens <= n
        assert draft.n_open == 0


@pytest.mark.parametrize("policy", ["check", "greedy"])
def test_settled_text_never_changes(denoiser: BlockDenoiser, policy: str) -> None:
    settled = ""
    for draft in infill(denoiser, Request(PREFIX, SUFFIX, policy=policy, max_tokens=30)):
        assert draft.text[: len(settled)] == settled
        settled = draft.text[: draft.settled]


def test_typing_prefills_only_what_was_typed(denoiser: BlockDenoiser) -> None:
    typed = "the next forty characters that are typed"
    first = last(denoiser, Request(PREFIX, SUFFIX, document="a.py", max_tokens=4))
    assert first.prefilled > len(SUFFIX)
    total = 0
    for n in range(1, len(typed) + 1):
        total += last(denoiser, Request(PREFIX + typed[:n], SUFFIX, document="a.py", max_tokens=4)).prefilled
    assert total <= len(typed)


def test_the_cache_is_exact_after_reuse(denoiser: BlockDenoiser) -> None:
    for n in range(0, 12, 3):
        request = Request(PREFIX + " value in val"[:n], SUFFIX, document="b.py", max_tokens=12)
        fresh = Request(PREFIX + " value in val"[:n], SUFFIX, max_tokens=12)
        assert last(denoiser, request).text == last(denoiser, fresh).text


def test_sessions_are_dropped_least_recently_used_first(tmp_path: Path) -> None:
    model = tiny_denoiser(tmp_path)
    one = model.session("probe").cache
    one.reserve(1)
    model.sessions.cache_bytes = 10 * one.n_bytes
    for n in range(200):
        last(model, Request(PREFIX, SUFFIX, document=f"file{n}.py", max_tokens=2))
        assert model.sessions.held_bytes <= 11 * one.n_bytes
    assert last(model, Request(PREFIX, SUFFIX, document="file199.py", max_tokens=2)).prefilled == 0
    assert last(model, Request(PREFIX, SUFFIX, document="file0.py", max_tokens=2)).prefilled > 0


def test_memory_is_given_back_where_a_document_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_denoiser(tmp_path)
    given: list[None] = []
    monkeypatch.setattr("mercury_model.sessions.give_back", lambda: given.append(None))
    for document in ("a.py", "a.py", "b.py", "", "a.py"):
        model.session(document)
    assert len(given) == 2, "not at every key"


def test_the_rule_of_the_end_is_asked_after_every_token(denoiser: BlockDenoiser) -> None:
    plain = last(denoiser, Request(PREFIX, SUFFIX, max_tokens=30)).text
    for n in (1, 3, 10, len(plain)):
        rule = {}

        def end(text: str, n: int = n, rule: dict[str, int] = rule) -> int | None:
            rule[text] = rule.get(text, 0) + 1
            return n if len(text) >= n else None

        for policy in ("check", "greedy"):
            draft = last(denoiser, Request(PREFIX, SUFFIX, max_tokens=30, end=end, policy=policy))
            assert (draft.text, draft.ended) == (plain[:n], "rule")


def test_healing_takes_back_a_blank_and_gives_it_back(denoiser: BlockDenoiser) -> None:
    for prefix in ("x =  ", "if x:\n\t", "    "):
        draft = last(denoiser, Request(prefix, SUFFIX, max_tokens=6))
        assert draft.n_tokens == 6
        assert len(draft.text) == 5  # the healed blank is the first token and not part of the text


def test_a_passed_deadline_ends_after_the_prefill(denoiser: BlockDenoiser) -> None:
    drafts = list(infill(denoiser, Request(PREFIX, SUFFIX, deadline=time.monotonic() - 1)))
    assert drafts[-1].ended == "deadline"
    assert drafts[-1].forwards == 0


def test_stopping_the_iteration_leaves_the_session_usable(denoiser: BlockDenoiser) -> None:
    whole = last(denoiser, Request(PREFIX, SUFFIX, max_tokens=30)).text
    for stop_after in range(1, 6):
        drafts = infill(denoiser, Request(PREFIX, SUFFIX, document="c.py", max_tokens=30))
        for _ in range(stop_after):
            next(drafts)
        drafts.close()
        assert last(denoiser, Request(PREFIX, SUFFIX, document="c.py", max_tokens=30)).text == whole


def test_sampling_is_deterministic_under_a_seed(denoiser: BlockDenoiser) -> None:
    def sample(seed: int) -> str:
        return last(denoiser, Request(PREFIX, SUFFIX, temperature=1.5, seed=seed, max_tokens=20)).text

    assert sample(1) == sample(1)
    assert len({sample(seed) for seed in range(4)}) > 1


def test_an_unknown_policy_is_named_with_the_choices(denoiser: BlockDenoiser) -> None:
    with pytest.raises(RequestError, match="check, threshold, greedy"):
        last(denoiser, Request(PREFIX, SUFFIX, policy="nope"))


def test_special_tokens_in_the_text_are_plain_text(denoiser: BlockDenoiser) -> None:
    text = "<|fim_middle|> <|endoftext|>"
    ids = denoiser.tokens.encode(text)
    assert not any(denoiser.tokens.is_special(i) for i in ids)
    assert denoiser.tokens.decode(ids) == text


def test_context_stands_before_the_suffix_and_prefix(denoiser: BlockDenoiser) -> None:
    from mercury_model.prompt import prompt

    request = Request("a", "b", path="x.py", context=(Snippet("y.py", "text"),))
    ids = prompt(denoiser.tokens, request).ids
    t = denoiser.tokens
    kinds = [i for i in ids if t.is_special(i)]
    assert kinds == [t.file_sep, t.file_sep, t.fim_prefix, t.fim_suffix, t.fim_middle]
    assert t.decode(ids) == "y.py\ntextx.py\nb"  # the prefix "a" is healed: generated again
