"""The bidirectional kind on tiny random models: exactness, what the caches cost in exactness, and whole requests."""

import dataclasses
import itertools
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from mercury_kernels import linear
from mercury_model.denoiser import Choice
from mercury_model.draft import Draft, Request, Snippet
from mercury_model.infill import infill
from mercury_model.policy import POLICIES
from mercury_model.span_denoiser import SpanDenoiser, SpanSession
from mercury_model.transformer import Rows, Transformer
from tests.model import tiny
from tests.model.fakes import MASK, ScriptedSpan

EXPAND, DELETE = 268, 256
PREFIX, SUFFIX = "def add(values):\n    total = 0\n    for value in values:\n", "\n    return total\n"
ABLE = [p.name for p in POLICIES.values() if p.causal == "write"]


def transformer(n_layers: int, seed: int = 0) -> Transformer:
    return tiny.transformer("float32", seed, dataclasses.replace(tiny.CONFIG, n_layers=n_layers))


def logits(model: Transformer, hidden: Tensor) -> Tensor:
    return torch.cat([linear(hidden, tile) for tile in model.weights.lm_head], -1)


def exact(model: Transformer, shift: int, prefix: list[int], slots: list[int], suffix: list[int]) -> Tensor:
    """The publishers' way: one pass over the whole sequence in its own order, logits shifted by concatenation."""
    ids = torch.tensor([*prefix, *slots, *suffix], device=model.device)
    whole = logits(model, model.forward([Rows(ids, model.new_cache(), 0, bidirectional=True)])[0])
    if shift:
        whole = torch.cat([whole[:1], whole[:-1]])
    return whole[len(prefix) : len(prefix) + len(slots)]


def session(model: Transformer, shift: int, refresh_every: int = 10**9, reuse_tokens: int = 10**9) -> SpanSession:
    return SpanSession(model, shift=shift, refresh_every=refresh_every, reuse_tokens=reuse_tokens)


def step(model: Transformer, s: SpanSession, slots: list[int]) -> Tensor:
    return logits(model, s._hidden(slots))


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize(("p", "n", "s"), [(40, 7, 30), (1, 1, 1), (0, 5, 9), (9, 5, 0), (0, 3, 0), (600, 20, 500)])
def test_a_whole_pass_is_the_publishers_pass(shift: int, p: int, n: int, s: int) -> None:
    model = transformer(2)
    ids = torch.randint(0, 256, (p + n + s,), generator=torch.Generator().manual_seed(p)).tolist()
    prefix, slots, suffix = ids[:p], ids[p : p + n], ids[p + n :]
    around = session(model, shift)
    around.open(prefix, suffix)
    torch.testing.assert_close(
        step(model, around, slots), exact(model, shift, prefix, slots, suffix), atol=1e-3, rtol=1e-4
    )
    proposals = around.step(slots, Choice(), (5,))
    wanted = exact(model, shift, prefix, slots, suffix)
    wanted[:, 5] = float("-inf")
    assert proposals.token == wanted.argmax(-1).tolist()
    assert proposals.confidence == pytest.approx(wanted.softmax(-1).amax(-1).tolist(), abs=1e-4)


EDITS = ("type", "delete", "eat suffix", "move window", "grow suffix", "replace all", "nothing")


def edited(edit: str, prefix: list[int], suffix: list[int], rng: random.Random) -> tuple[list[int], list[int]]:
    new = [rng.randrange(256) for _ in range(rng.randint(1, 5))]
    return {
        "type": (prefix + new, suffix),
        "delete": (prefix[: -rng.randint(1, 4)], suffix),
        "eat suffix": (prefix + suffix[:3], suffix[3:]),
        "move window": (prefix, suffix[: -rng.randint(1, 6)]),
        "grow suffix": (prefix, suffix + new),
        "replace all": (new, new[::-1]),
        "nothing": (prefix, suffix),
    }[edit]


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("seed", range(6))
def test_with_one_layer_what_is_kept_is_exact_after_any_edit(shift: int, seed: int) -> None:
    """In the first layer keys and values depend on token and place alone, so every row must be where it belongs."""
    model, rng = transformer(1), random.Random(seed)
    prefix, suffix = ([rng.randrange(256) for _ in range(k)] for k in (30, 25))
    around = session(model, shift)
    kept = 0
    for _ in range(12):
        around.open(prefix, suffix)
        for n in (4, 9, 2):
            slots = [rng.choice((tiny.MASK, rng.randrange(256))) for _ in range(n)]
            torch.testing.assert_close(
                step(model, around, slots), exact(model, shift, prefix, slots, suffix), atol=1e-3, rtol=1e-3
            )
        kept += around.prefilled < len(prefix) + len(suffix) - shift
        prefix, suffix = edited(rng.choice(EDITS), prefix, suffix, rng)
        suffix = suffix or [1]
    assert kept > 3, "nothing was ever reused"


@pytest.mark.gpu
def test_on_cuda_what_is_kept_is_where_it_belongs() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    model, rng = on_cuda(transformer(1)), random.Random(1)
    prefix, suffix = ([rng.randrange(256) for _ in range(k)] for k in (130, 85))
    around = session(model, 1)
    for edit in ("type", "type", "eat suffix", "delete", "move window"):
        around.open(prefix, suffix)
        for n in (4, 9, 2):
            slots = [tiny.MASK] * n
            got, want = step(model, around, slots), exact(model, 1, prefix, slots, suffix)
            assert float((got - want).norm() / want.norm()) < 0.01
        prefix, suffix = edited(edit, prefix, suffix, rng)
    proposals = around.step([tiny.MASK] * 5, Choice(first=(65, 66)), (7, 8), {0: {65}, 3: {70}})
    assert proposals.token[0] == 66 and not {7, 8} & set(proposals.token)


def on_cuda(model: Transformer) -> Transformer:
    def moved(value: object) -> object:
        if isinstance(value, Tensor):
            return value.cuda()
        if isinstance(value, tuple):
            return tuple(moved(v) for v in value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            parts = {f.name: moved(getattr(value, f.name)) for f in dataclasses.fields(value)}
            return dataclasses.replace(value, **parts)
        return value

    return Transformer(model.config, moved(model.weights))  # type: ignore[arg-type]


def drift(model: Transformer, shift: int, refresh_every: int, reuse_tokens: int, seed: int) -> tuple[float, float, int]:
    """Six keystrokes with eight passes each -> mean and largest relative logit error, tokens run around the canvas."""
    rng = random.Random(seed)
    prefix, suffix = ([rng.randrange(256) for _ in range(k)] for k in (60, 40))
    around = session(model, shift, refresh_every, reuse_tokens)
    errors: list[float] = []
    run = 0
    for _ in range(6):
        around.open(prefix, suffix)
        slots = [tiny.MASK] * 12
        for _ in range(8):
            got, want = step(model, around, slots), exact(model, shift, prefix, slots, suffix)
            errors.append(float((got - want).norm() / want.norm()))
            slots[rng.randrange(12)] = rng.randrange(256)
        run += around.prefilled
        prefix = [*prefix, rng.randrange(256)]
    return sum(errors) / len(errors), max(errors), run


@pytest.mark.parametrize("shift", [0, 1])
def test_drift_is_measured_bounded_and_can_be_switched_off(shift: int) -> None:
    rows: dict[str, tuple[float, float, int]] = {}
    for name, settings in {"exact": (1, 64), "default": (8, 64), "never refreshed": (10**9, 10**9)}.items():
        found = [drift(transformer(2, seed), shift, *settings, seed) for seed in range(4)]
        rows[name] = (
            sum(f[0] for f in found) / 4,
            max(f[1] for f in found),
            sum(f[2] for f in found),
        )
        mean, worst, run = rows[name]
        print(f"shift {shift}, {name}: mean drift {mean:.4f}, worst {worst:.4f}, {run} tokens run around the canvas")
    assert rows["exact"][1] < 1e-4
    # random weights with large gains: far more sensitive to far tokens than a trained model
    assert rows["default"][0] < 0.25 and rows["default"][1] < 0.8
    assert rows["default"][0] <= rows["never refreshed"][0] + 0.02
    assert rows["default"][2] < rows["exact"][2] / 4


# --- whole requests -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tokens")


def denoiser(folder: Path, *, resizing: bool = True, shift: int = 1, refresh_every: int = 8) -> SpanDenoiser:
    return SpanDenoiser(
        transformer(2),
        tiny.tokens(folder),
        mask_id=tiny.MASK,
        shift=shift,
        expand_id=EXPAND if resizing else None,
        delete_id=DELETE if resizing else None,
        never=(257, 258, 259, 260, *range(261, 268)),
        start_slots=8,
        refresh_every=refresh_every,
    )


def last(model: SpanDenoiser, request: Request) -> Draft:
    return list(infill(model, request))[-1]


@pytest.mark.parametrize("policy", ABLE)
@pytest.mark.parametrize("resizing", [True, False])
def test_a_request_ends_filled_within_its_budget(folder: Path, policy: str, resizing: bool) -> None:
    model = denoiser(folder, resizing=resizing)
    drafts = list(infill(model, Request(PREFIX, SUFFIX, policy=policy, max_tokens=20)))
    assert [d.done for d in drafts] == [False] * (len(drafts) - 1) + [True]
    assert drafts[-1].n_open == 0 and drafts[-1].n_tokens <= 20
    assert all(b.forwards >= a.forwards for a, b in itertools.pairwise(drafts))
    assert "\ufffd" not in drafts[-1].text
    again = list(infill(denoiser(folder, resizing=resizing), Request(PREFIX, SUFFIX, policy=policy, max_tokens=20)))
    assert again[-1].text == drafts[-1].text


def test_sampling_repeats_under_a_seed_and_differs_without(folder: Path) -> None:
    def sample(seed: int) -> str:
        request = Request(PREFIX, SUFFIX, policy="entropy", temperature=1.3, top_p=0.95, seed=seed, max_tokens=16)
        return last(denoiser(folder, resizing=False), request).text

    assert sample(3) == sample(3)
    assert len({sample(seed) for seed in range(4)}) > 1


def test_typing_runs_only_what_was_typed(folder: Path) -> None:
    model = denoiser(folder, resizing=False, refresh_every=10**9)
    request = Request(PREFIX, SUFFIX, document="a.py", policy="factor", effort="instant", max_tokens=8)
    whole = last(model, request).prefilled
    assert whole == len(PREFIX) + len(SUFFIX) - 1
    typed = "total += "
    total = 0
    for n in range(1, len(typed) + 1):
        total += last(model, dataclasses.replace(request, prefix=PREFIX + typed[:n])).prefilled
    assert total <= len(typed)


def test_two_hundred_documents_stay_within_the_memory_setting(folder: Path) -> None:
    model = denoiser(folder, resizing=False)
    request = Request("x =\n", "\n", policy="factor", effort="instant", max_tokens=2)
    last(model, dataclasses.replace(request, document="probe"))
    one = model.sessions.held_bytes
    model.sessions.cache_bytes = 10 * one
    for n in range(200):
        last(model, dataclasses.replace(request, document=f"file{n}.py"))
        assert model.sessions.held_bytes <= 11 * one
    assert last(model, dataclasses.replace(request, document="file199.py", prefix="x =\n\n")).prefilled <= 2
    assert last(model, dataclasses.replace(request, document="file0.py")).prefilled == len("x =\n") + len("\n") - 1


def test_a_passed_deadline_reveals_all_in_one_pass(folder: Path) -> None:
    for resizing in (True, False):
        model = denoiser(folder, resizing=resizing)
        request = Request(PREFIX, SUFFIX, policy="maskgit_plus", max_tokens=16, deadline=time.monotonic() - 1)
        draft = last(model, request)
        assert (draft.ended, draft.n_open) == ("deadline", 0)
        assert draft.forwards <= 2


def test_what_was_healed_begins_the_text_and_is_not_repeated(folder: Path) -> None:
    model = denoiser(folder, resizing=False)
    for prefix in ("x =  ", "    ", "tot"):
        for draft in infill(model, Request(prefix, SUFFIX, policy="maskgit_plus", effort="low", max_tokens=8)):
            first = draft.slots[0]
            assert first.state == "masked" or prefix.endswith(first.text)


def test_the_rule_of_the_end_cuts_at_the_same_place_under_every_unrevising_policy(folder: Path) -> None:
    for policy in ("maskgit_plus", "factor", "entropy_bound"):
        request = Request(PREFIX, SUFFIX, policy=policy, effort="instant", max_tokens=60)
        model = denoiser(folder, resizing=False)
        model.start_slots = 60
        plain = last(model, request).text
        assert len(plain) > 3
        draft = last(model, dataclasses.replace(request, end=lambda t: 3 if len(t) >= 3 else None))
        assert (draft.text, draft.ended, draft.done) == (plain[:3], "rule", True)


def test_only_doubtful_slots_of_a_rewrite_change(folder: Path) -> None:
    model = denoiser(folder, resizing=False)
    code = "for item in items:\n    total += item\n"
    start = code.index("total")
    request = Request(PREFIX, SUFFIX, original=code, doubtful=((start, start + 5),), policy="factor", effort="low")
    drafts = list(infill(model, request))
    assert max(d.n_open for d in drafts) == 5
    text = drafts[-1].text
    assert text.startswith(code[:start]) and text.endswith(code[start + 5 :])
    untouched = last(model, dataclasses.replace(request, doubtful=((len(code) + 3, len(code) + 4),)))
    assert (untouched.text, untouched.forwards) == (code, 0.0)


def test_context_stands_before_the_prefix_as_comments(folder: Path) -> None:
    model = denoiser(folder, resizing=False)
    request = Request(
        "a\n", "b", policy="factor", max_tokens=2, context=(Snippet("y.js", "f()"), Snippet("z.py", "g()"))
    )
    draft = last(model, request)
    assert draft.prefilled >= len("// y.js\nf()\n\n# z.py\ng()\n\n") + 1


# --- judge rounds ---------------------------------------------------------------------------------------------


Judge = Callable[[str], Sequence[tuple[int, int]]]


def judged(wrong: dict[int, int], judge: Judge, effort: str = "medium") -> tuple[ScriptedSpan, Draft]:
    """A fake of six pieces whose slots in `wrong` are mistaken; a mistaken slot shows a question mark."""
    model = ScriptedSpan([f"<{i}>" for i in range(6)], start=6, resizing=False)
    model.wrong = wrong
    request = Request("", "", policy="factor", effort=effort, max_tokens=6, judge=judge)  # type: ignore[arg-type]
    return model, list(infill(model, request))[-1]


def marks(text: str) -> list[tuple[int, int]]:
    return [(i, i + 1) for i, c in enumerate(text) if c == "?"]


WRONG = 1000 + ord("?")


def test_what_a_judge_objects_to_is_masked_again_and_its_choice_barred() -> None:
    model, draft = judged({1: WRONG, 4: WRONG}, marks)
    assert draft.text == "<0><1><2><3><4><5>"
    assert model.barred[-1] == {1: {WRONG}, 4: {WRONG}}
    assert [slot.revised for slot in draft.slots] == [False, True, False, False, True, False]
    # the passes of the second thought see all that was right
    assert model.canvases[-1].count(MASK) <= 2


def test_without_rounds_or_objections_nothing_is_run_again() -> None:
    for effort, judge in (("instant", marks), ("medium", lambda text: [])):
        model, draft = judged({1: WRONG}, judge, effort)
        assert "?" in draft.text and draft.done
        assert not any(model.barred)


def test_a_round_that_does_not_help_is_forgotten() -> None:
    model, draft = judged({1: WRONG}, lambda text: [(0, 0), (len(text) + 5, len(text) + 5)])
    assert draft.text == "<0>?<2><3><4><5>"
    assert 1 not in model.barred[-1]
    assert set(model.barred[-1]) == {0, 5}


def test_candidates_are_different_numbered_and_best_first(folder: Path) -> None:
    model = denoiser(folder, resizing=False)
    request = Request(PREFIX, SUFFIX, policy="factor", effort="instant", max_tokens=8, candidates=3)
    drafts = list(infill(model, request))
    done = [d for d in drafts if d.done]
    assert done == drafts[-len(done) :]
    assert len(done) == 3 == len({d.text for d in done}) == len({d.candidate for d in done})
    assert [d.confidence for d in done] == sorted((d.confidence for d in done), reverse=True)
    own = last(denoiser(folder, resizing=False), dataclasses.replace(request, candidates=1))
    assert own.text in {d.text for d in done if d.candidate == 0}


def test_a_judge_ranks_candidates_before_their_probability() -> None:
    model = ScriptedSpan(["a", "b", "c"], start=3, resizing=False)
    model.wrong = {0: WRONG, 1: WRONG}
    request = Request("", "", policy="factor", effort="instant", max_tokens=3, candidates=3, judge=marks)
    done = [d for d in infill(model, request) if d.done]
    counts = [d.text.count("?") for d in done]
    assert counts == sorted(counts) and counts[0] < counts[-1]


def test_a_round_that_makes_things_worse_is_undone() -> None:
    _, draft = judged({1: WRONG}, lambda text: marks(text) or [(0, 1), (1, 2)])
    assert draft.text == "<0>?<2><3><4><5>"
