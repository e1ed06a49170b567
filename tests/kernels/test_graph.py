"""A step in static buffers against the ordinary path: same proposals, same caches, whatever came before.

On the CPU the step runs uncaptured, once with torch and once through the kernels under Triton's interpreter; with a
CUDA device it is captured.
"""

import dataclasses
import logging
import random
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from mercury_kernels import CACHE_STEP
from mercury_model import Request, graph
from mercury_model.denoiser import BlockDenoiser, Choice, Session, perform
from mercury_model.graph import Shape, Steps
from mercury_model.infill import infill
from mercury_model.policy import Proposals
from mercury_model.transformer import Transformer
from tests.kernels.conftest import Place
from tests.model import tiny

GREEDY = Choice()
SLOTS = 7
CAPACITY = 2048


def pair(model: Transformer, steps: Steps | None = None) -> tuple[Session, Session]:
    """A session that takes steps, and one that goes the ordinary path."""
    return Session(model, steps or Steps(model, CAPACITY)), Session(model)


def ask(session: Session, what: object) -> Proposals:
    found = perform(session._transformer, [what])[0]
    assert found is not None
    return found


def prefill(session: Session, ids: list[int]) -> None:
    for wanted in session.prefill(ids):
        perform(session._transformer, [wanted])


def close(a: Proposals, b: Proposals) -> None:
    assert a.token == b.token
    for name in ("confidence", "entropy", "margin"):
        torch.testing.assert_close(
            torch.tensor(getattr(a, name)), torch.tensor(getattr(b, name)), rtol=1e-4, atol=1e-4, msg=name
        )


def same_cache(a: Session, b: Session) -> None:
    assert a.ids == b.ids
    n = len(a.ids)
    assert torch.equal(a.cache.keys[:, :, :n], b.cache.keys[:, :, :n])
    assert torch.equal(a.cache.values[:, :, :n], b.cache.values[:, :, :n])


def one_round(session: Session, last: int, slots: list[int], to_check: bool) -> tuple[Proposals, Proposals, int]:
    """Draft, check, keep what is accepted -> both proposals, and the last token known now."""
    drafted = ask(session, session.draft(last, slots, GREEDY, to_check=to_check))
    own = ask(session, session.check([last, *drafted.token], GREEDY))
    n = 0
    while n < len(slots) and drafted.token[n] == own.token[n]:
        n += 1
    session.keep(n + 1)
    return drafted, own, own.token[n]


def masks(n: int = SLOTS) -> list[int]:
    return [tiny.MASK] * n


def random_ids(draw: random.Random, n: int) -> list[int]:
    return [draw.randrange(90) for _ in range(n)]


@pytest.mark.parametrize("seed", range(4))
def test_random_rounds_give_what_the_ordinary_path_gives_bit_for_bit(seed: int) -> None:
    draw = random.Random(seed)
    one, other = pair(tiny.transformer("int8"))
    ids = random_ids(draw, draw.choice((1, 40, 300)))
    for _ in range(12):
        last = ids[-1]
        for session in (one, other):
            prefill(session, ids[:-1])
        slots = masks(draw.choice((1, 6, 7, 8, 15)))
        if draw.random() < 0.3:  # a slot is shown already, as between two steps of a pure diffusion
            slots[draw.randrange(len(slots))] = draw.randrange(90)
        to_check = draw.random() < 0.5
        (drafted, own, known), (wanted, truth, _) = (one_round(s, last, slots, to_check) for s in (one, other))
        close(drafted, wanted)
        assert own == truth  # the base's rows are exact
        same_cache(one, other)
        what = draw.random()
        if what < 0.6:
            ids = [*one.ids, known]
        elif what < 0.8:  # the user took something back and typed
            ids = [*one.ids[: draw.randrange(len(one.ids))], *random_ids(draw, 5)]
        else:  # a run was cancelled behind its draft
            ask(one, one.draft(known, masks(), GREEDY, to_check=True))
            ids = [*one.ids, *random_ids(draw, 2)]


@pytest.mark.parametrize("policy", ["check", "greedy", "threshold"])
def test_infilling_writes_the_same_text_in_as_many_passes(tmp_path: Path, policy: str) -> None:
    model = tiny.transformer("int8")
    tokens, steps = tiny.tokens(tmp_path), Steps(model, CAPACITY)
    kinds: set[str] = set()
    run = steps.run
    steps.run = lambda kind, *rest: kinds.add(kind) or run(kind, *rest)  # type: ignore[method-assign]
    for prefix in ("def f(x):\n    ret", "a", "for key in table:\n        "):
        request = Request(prefix, "\nend\n", policy=policy, max_tokens=40, copies=False)
        lasts = [
            list(infill(BlockDenoiser(model, tokens, mask_id=tiny.MASK, block_size=8, steps=s), request))[-1]
            for s in (steps, None)
        ]
        assert lasts[0].text == lasts[1].text
        assert lasts[0].forwards == lasts[1].forwards
        assert lasts[0].confidence == pytest.approx(lasts[1].confidence)
    assert kinds == {"check": {"round"}, "greedy": {"check"}, "threshold": {"draft", "check"}}[policy] | (
        {"check"} if policy == "check" else set()
    )


def test_a_round_is_one_step_and_its_check_costs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[Shape] = []
    play = Steps._play
    monkeypatch.setattr(Steps, "_play", lambda self, shape: (played.append(shape), play(self, shape))[1])
    one, _ = pair(tiny.transformer())
    prefill(one, list(range(20)))
    one_round(one, 20, masks(), to_check=True)
    assert played == [Shape("round", 8, 1024)]


def test_a_check_of_other_tokens_than_the_drafted_runs_anew() -> None:
    one, other = pair(tiny.transformer())
    for session in (one, other):
        prefill(session, list(range(20)))
        ask(session, session.draft(20, masks(), GREEDY, to_check=True))
    found = [ask(s, s.check([20, 1, 2, 3, 4, 5, 6, 7], GREEDY)) for s in (one, other)]
    assert found[0] == found[1]
    for session in (one, other):
        session.keep(8)
    same_cache(one, other)


def test_rounds_allocate_no_cache_and_move_no_buffer() -> None:
    model = tiny.transformer()
    steps = Steps(model, CAPACITY)
    one, _ = pair(model, steps)
    prefill(one, list(range(30)))
    last, seen, largest = 30, set(), Largest()
    one_round(one, last, masks(), to_check=True)
    with largest:
        for n in (7, 7, 8, 15, 7):
            last = one_round(one, last, masks(n), to_check=n == 7)[2]
            buffers = (one.cache.keys, one.cache.values, steps._inputs, steps._answers)
            seen.add(tuple(buffer.data_ptr() for buffer in buffers))
    assert len(seen) == 1
    assert largest.n < one.cache.keys.numel()


class Largest(TorchDispatchMode):
    """The largest new tensor of the calls under way, in elements."""

    n = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        mine = {x.untyped_storage().data_ptr() for x in args if isinstance(x, Tensor)}
        for x in out if isinstance(out, tuple | list) else [out]:
            if isinstance(x, Tensor) and x.untyped_storage().data_ptr() not in mine:
                self.n = max(self.n, x.untyped_storage().nbytes() // x.element_size())
        return out


class Waits(TorchDispatchMode):
    """Fails where a result would be read back to the host, or a shape depends on data."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func.overloadpacket.__name__ not in ("_local_scalar_dense", "nonzero", "item", "unique"), func
        return func(*args, **(kwargs or {}))


def test_nothing_inside_a_step_waits_for_the_device() -> None:
    steps = Steps(tiny.transformer(), CAPACITY)
    with Waits(), torch.inference_mode():
        for kind in ("draft", "check", "round"):
            steps._step(Shape(kind, 8, 1024))


def test_the_bucket_changes_where_the_cache_grows_past_it(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[int] = []
    play = Steps._play
    monkeypatch.setattr(Steps, "_play", lambda self, shape: (played.append(shape.length), play(self, shape))[1])
    draw = random.Random(5)
    one, other = pair(tiny.transformer())
    ids = random_ids(draw, 1012)
    for session in (one, other):
        prefill(session, ids[:-1])
    last = ids[-1]
    while len(one.ids) < 1040:
        (drafted, own, known), (wanted, truth, _) = (one_round(s, last, masks(), True) for s in (one, other))
        close(drafted, wanted)
        assert own == truth
        last = known
    same_cache(one, other)
    assert set(played) == {1024, 2048}
    assert sorted(played) == played


def test_behind_the_last_bucket_the_ordinary_path_goes_on() -> None:
    model = tiny.transformer()
    draw = random.Random(6)
    one, other = pair(model, Steps(model, 1024))
    ids = random_ids(draw, 1010)
    for session in (one, other):
        prefill(session, ids[:-1])
    last = ids[-1]
    while len(one.ids) < 1060:
        (_, own, known), (_, truth, _) = (one_round(s, last, masks(), True) for s in (one, other))
        assert own == truth
        last = known
    same_cache(one, other)
    prefill(one, ids[:50])
    prefill(other, ids[:50])
    assert one_round(one, 3, masks(), True)[1] == one_round(other, 3, masks(), True)[1]


def test_documents_take_turns_and_forks_go_their_own_way() -> None:
    model = tiny.transformer()
    steps = Steps(model, CAPACITY)
    draw = random.Random(7)
    pairs = [pair(model, steps) for _ in range(3)]
    known = []
    for both in pairs:
        ids = random_ids(draw, draw.randrange(2, 700))
        for session in both:
            prefill(session, ids[:-1])
        known.append(ids[-1])
    for turn in (0, 1, 0, 2, 2, 1, 0):
        (_, own, last), (_, truth, _) = (one_round(s, known[turn], masks(), True) for s in pairs[turn])
        assert own == truth
        same_cache(*pairs[turn])
        known[turn] = last
    pairs.append((pairs[0][0].fork(), pairs[0][1].fork()))
    known.append(5)
    for turn in (3, 0, 3):
        (_, own, known[turn]), (_, truth, _) = (one_round(s, known[turn], masks(), True) for s in pairs[turn])
        assert own == truth
        same_cache(*pairs[turn])


def test_a_cache_counts_its_own_rows_while_it_lies_in_the_large_buffer() -> None:
    one, other = pair(tiny.transformer())
    for session in (one, other):
        prefill(session, list(range(100)))
        one_round(session, 3, masks(), True)
    assert one.cache.keys.shape[2] == CAPACITY
    assert one.cache.n_bytes == other.cache.n_bytes
    one.cache.move_out()
    assert one.cache.keys.shape[2] == CACHE_STEP
    same_cache(one, other)


@pytest.mark.parametrize(
    "choice", [Choice(temperature=0.7), Choice(first=(3,)), Choice(barred=(3,))], ids=["sampled", "healed", "barred"]
)
def test_other_choices_than_the_greedy_one_take_the_ordinary_path(choice: Choice) -> None:
    one, _ = pair(tiny.transformer())
    prefill(one, list(range(20)))
    assert one.draft(20, masks(), choice).alone is None
    assert one.check([20], choice).alone is None


def test_sequences_that_share_a_pass_do_not_take_steps() -> None:
    model = tiny.transformer()
    pairs = [pair(model), pair(model)]
    found = []
    for sessions in zip(*pairs, strict=True):
        for session in sessions:
            prefill(session, list(range(20)))
        found.append(perform(model, [s.draft(20, masks(), GREEDY, to_check=True) for s in sessions]))
    assert found[0] == found[1]


@pytest.mark.skipif(torch.cuda.is_available(), reason="a capture would succeed")
def test_where_no_graph_can_be_captured_one_line_says_so_and_steps_go_on(caplog: pytest.LogCaptureFixture) -> None:
    model = tiny.transformer()
    steps = Steps(model, CAPACITY)
    steps._captures = True
    one, other = pair(model, steps)
    for session in (one, other):
        prefill(session, list(range(20)))
    last = 20
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            (_, own, known), (_, truth, _) = (one_round(s, last, masks(), True) for s in (one, other))
            assert own == truth
            last = known
    assert len(caplog.records) == 1
    assert "run kernel by kernel" in caplog.text


class Recorded:
    """A stand-in for a captured graph."""

    def __init__(self, steps: Steps, shape: Shape) -> None:
        self.replay = lambda: steps._step(shape)


def test_graphs_are_captured_once_a_shape_and_the_oldest_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    captured: list[Shape] = []
    monkeypatch.setattr(graph, "MAX_GRAPHS", 2)
    model = tiny.transformer()
    steps = Steps(model, CAPACITY)
    steps._captures = True
    monkeypatch.setattr(
        steps, "_captured", lambda shape: (captured.append(shape), Recorded(steps, shape))[1], raising=True
    )
    one, other = pair(model, steps)
    for session in (one, other):
        prefill(session, list(range(20)))
    last = 20
    for n in (7, 7, 1, 7, 15, 7, 1):
        (_, own, known), (_, truth, _) = (one_round(s, last, masks(n), True) for s in (one, other))
        assert own == truth
        last = known
        assert len(steps._graphs) <= 2
    # two slots fit into the bucket of eight rows; sixteen rows are another shape
    assert [shape.rows for shape in captured] == [8, 16]


def on(place: Place, model: Transformer) -> Transformer:
    """The model on another device, in float32: near-ties would fall differently in 16 bits."""

    def moved(value: object) -> object:
        if isinstance(value, Tensor):
            return value.to(place.device)
        if isinstance(value, tuple):
            return tuple(moved(part) for part in value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {f.name: moved(getattr(value, f.name)) for f in dataclasses.fields(value)}
            return dataclasses.replace(value, **fields)
        return value

    return Transformer(model.config, moved(model.weights), moved(model.adapter))


def test_a_step_of_the_kernels_gives_what_torch_gives(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the interpreter the step that a GPU runs; on a GPU the same, captured."""
    model = tiny.transformer("float32")
    other = Session(model)
    there = on(place, model)
    steps = Steps(there, CAPACITY)
    one = Session(there, steps)

    def through(kernels: bool) -> None:
        for name in ("norm", "rope", "swiglu", "linear", "attention", "unmask"):
            module = sys.modules[f"mercury_kernels.{name}"]
            monkeypatch.setattr(module, "use_triton", lambda x: kernels and x.device.type == place.device)

    last = 20
    through(False)
    prefill(other, list(range(20)))
    through(True)
    prefill(one, list(range(20)))
    for n, to_check in ((7, True), (8, False), (7, True)):
        through(True)
        drafted, own, known = one_round(one, last, masks(n), to_check)
        through(False)
        wanted, truth, _ = one_round(other, last, masks(n), to_check)
        close(drafted, wanted)
        close(own, truth)
        last = known
    assert one.ids == other.ids
    assert bool(steps._graphs) == (place.device == "cuda")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_captured_step_waits_for_nothing_and_is_replayed() -> None:
    model = on(Place("cuda", torch.float32), tiny.transformer("float32"))
    steps = Steps(model, CAPACITY)
    cache = model.new_cache()
    first = steps.run("round", cache, 0, [5, *masks()])
    assert [shape.kind for shape in steps._graphs] == ["round"], "the capture failed"
    before = torch.cuda.memory_allocated()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.inference_mode():
            steps._play(Shape("round", 8, 1024))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.cuda.memory_allocated() == before
    assert steps.run("round", cache, 0, [5, *masks()]) == first
