"""Training on tiny random models: gradients' arithmetic equals inference, runs resume exactly, losses fall."""

import json
import random
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from mercury_kernels import IGNORED, Dense, attention_bias, block_attention
from mercury_model.adapter import load_adapter
from mercury_model.drafter import Drafter, DrafterWeights, Link, load_drafter
from mercury_model.errors import CheckpointError
from mercury_model.probe import N_SIGNS, Probe, ending, openings, overlap, score, signs
from mercury_model.transformer import KVCache, Layer, Rows, Transformer
from tests.model import tiny

TRAIN = Path(__file__).parents[2] / "model" / "train"
sys.path.insert(0, str(TRAIN))

import adapter_net  # noqa: E402  (scripts, not a package: found by their folder)
import drafter_net  # noqa: E402
from blocks import anchored_attention, anchors, own_targets  # noqa: E402
from evaluate_slots import SLOTS, Drafts, rounds  # noqa: E402
from frozen import Base, Context, Replay, Shortlist  # noqa: E402
from loop import Measured, Plan, Run, rate, read_metrics  # noqa: E402
from plot import curve  # noqa: E402
from rollouts import Rollout, continued  # noqa: E402
from train_adapter import adapter_loss, answers, canvases  # noqa: E402
from train_drafter import drafter_loss  # noqa: E402
from train_probe import Rows as ProbeRows  # noqa: E402
from train_probe import best_threshold, fit, measure, written_with  # noqa: E402

CONFIG = tiny.CONFIG
MicroStep = Callable[[int], Measured]
READS = (0, 1)


def tied(seed: int = 0) -> Transformer:
    """A tiny dense model whose output matrix is its embedding."""
    base = tiny.transformer("float32", seed)
    return Transformer(CONFIG, replace(base.weights, lm_head=(Dense(base.weights.embed),)), base.adapter)


def frozen(folder: Path, seed: int = 0) -> Base:
    return Base(CONFIG, tied(seed), tiny.tokens(folder), folder)


def everything(base: Base) -> Shortlist:
    """A shortlist of all tokens but the last ten."""
    n = CONFIG.vocab - 10
    column = torch.full((CONFIG.vocab,), -1)
    column[:n] = torch.arange(n)
    rows = base.transformer.weights.embed[:n]
    return Shortlist(torch.arange(n), column, rows, Dense(rows))


def sequence(seed: int, n: int = 60) -> list[int]:
    return np.random.default_rng(seed).integers(0, 128, n).tolist()


def net_for(seed: int = 0) -> drafter_net.DrafterNet:
    torch.manual_seed(seed)
    return drafter_net.DrafterNet(CONFIG, READS, 48, SLOTS, 8)


def plain_drafter(net: drafter_net.DrafterNet, base: Transformer) -> Drafter:
    """The net's weights, unrounded, in the class that decodes."""
    layers = tuple(
        Layer(n.attn_norm, Dense(n.qkv, n.qkv_bias), Dense(n.o), n.mlp_norm, Dense(n.gate_up), Dense(n.down))
        for n in net.layers
    )
    link = Link(net.of_hidden, net.of_token, net.up)
    shortlist = torch.arange(CONFIG.vocab - 10)
    weights = DrafterWeights(READS, Dense(net.before), Dense(net.last), net.slots, layers, net.norm, link, shortlist)
    return Drafter(weights, base)


@pytest.mark.parametrize(("n_blocks", "rows", "length"), [(1, 8, 5), (3, 7, 40), (5, 1, 513)])
def test_blocks_of_a_sequence_attend_as_if_each_stood_alone_behind_the_cache(
    n_blocks: int, rows: int, length: int
) -> None:
    q, k, v = (torch.randn(n_blocks, rows, heads, 16) for heads in (4, 2, 2))
    keys, values = torch.randn(2, length, 16), torch.randn(2, length, 16)
    places = torch.randint(1, length, (n_blocks,))
    hidden = torch.arange(length)[None] >= places[:, None]
    together = anchored_attention(q, k, v, keys, values, hidden)
    for block, place in enumerate(places.tolist()):
        capacity = -(-(place + rows) // 512) * 512
        cache = [torch.zeros(2, capacity, 16) for _ in range(2)]
        for own, before, full in zip((k, v), (keys, values), cache, strict=True):
            full[:, :place] = before[:, :place]
            full[:, place : place + rows] = own[block].transpose(0, 1)
        alone = block_attention(q[block], *cache, attention_bias(torch.full((rows,), place + rows), 2))
        torch.testing.assert_close(together[block], alone)


def test_the_adapter_that_trains_is_the_adapter_that_drafts(tmp_path: Path) -> None:
    base = frozen(tmp_path)
    torch.manual_seed(1)
    net = adapter_net.AdapterNet(CONFIG, 4)
    for name, p in net.named_pairs().items():
        p.data.copy_(p.data.bfloat16() if "lora_B" not in name else (torch.randn_like(p) * 0.1).bfloat16())
    path = tmp_path / "adapter.safetensors"
    adapter_net.export(net, path, {"name": "trained"})
    adapter = load_adapter(path, CONFIG.n_layers, CONFIG.hidden, torch.float32, torch.device("cpu"))
    adapter = replace(adapter, mask_id=tiny.MASK)
    again = adapter_net.AdapterNet(CONFIG, 4)
    adapter_net.begin_from(again, path)
    ids = sequence(2)
    context = base.read(ids, everything(base), READS)
    places = torch.tensor([9, 30])
    rows = context.ids[places[:, None] + torch.arange(8)]
    rows[:, 3:6] = tiny.MASK
    trained = again(context, places, rows, rows == tiny.MASK, base.transformer.weights)
    model = Transformer(CONFIG, base.transformer.weights, adapter)
    for block, place in enumerate(places.tolist()):
        cache = model.new_cache()
        model.forward([Rows(context.ids[:place], cache, 0)])
        drafted = model.forward([Rows(rows[block], cache, place, bidirectional=True, adapted=True)])[0]
        torch.testing.assert_close(trained[block], drafted, rtol=1e-3, atol=1e-3)
    with pytest.raises(ValueError, match="expected"):
        adapter_net.begin_from(adapter_net.AdapterNet(CONFIG, 8), path)


def test_the_drafter_that_trains_is_the_drafter_that_drafts(tmp_path: Path) -> None:
    base = frozen(tmp_path)
    net = net_for()
    net.up.data.normal_()
    context = base.read(sequence(3), everything(base), READS)
    places = torch.tensor([4, 33])
    trained = net(context, places, base.transformer.weights.embed)
    drafter = plain_drafter(net, base.transformer)
    for block, place in enumerate(places.tolist()):
        cache = base.transformer.new_cache()
        base.transformer.forward([Rows(context.ids[:place], cache, 0)])
        cache.length = place
        last = int(context.ids[place])
        drafted = drafter.hidden(cache, last, context.hidden[place - 1])
        torch.testing.assert_close(trained[block], drafted, rtol=1e-3, atol=1e-3)
        # the first slot's choice: all rows are candidates where there are fewer than 32 better ones
        before = base.transformer.weights.embed[last][None]
        linked = net.linked(trained[block, :1], before) @ everything(base).weight.T
        alone = trained[block, :1] @ everything(base).weight.T
        candidates = alone.topk(32).indices[0]
        best = candidates[linked[0, candidates].argmax()]
        proposals = drafter.draft(cache, last, context.hidden[place - 1])
        assert proposals.token[0] == int(best)
        assert len(proposals.token) == len(proposals.confidence) == len(proposals.entropy) == SLOTS
        assert drafter.draft(cache, last, context.hidden[place - 1], first=(7,)).token[0] == 7


def test_a_drafters_file_is_rounded_to_8_bits_and_little_else_changes(tmp_path: Path) -> None:
    base = frozen(tmp_path)
    net = net_for()
    path = tmp_path / "drafter.safetensors"
    drafter_net.export(net, torch.arange(200), path, {"name": "tiny"})
    loaded, plain = load_drafter(path, base.transformer), plain_drafter(net, base.transformer)
    assert (loaded.name, loaded.n_slots) == ("tiny", SLOTS)
    ids = torch.tensor(sequence(5, 20))
    cache = base.transformer.new_cache()
    before = base.transformer.forward([Rows(ids, cache, 0)])[0][-1]
    cache.length = len(ids)
    near = torch.nn.functional.cosine_similarity(loaded.hidden(cache, 3, before), plain.hidden(cache, 3, before))
    assert near.min() > 0.99
    assert all(token < 200 for token in loaded.draft(cache, 3, before).token)
    wider = Transformer(replace(CONFIG, n_heads=2), base.transformer.weights)
    with pytest.raises(CheckpointError, match=r"drafter\.safetensors"):
        load_drafter(path, wider)
    (tmp_path / "cut.safetensors").write_bytes(path.read_bytes()[:500])
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_drafter(tmp_path / "cut.safetensors", base.transformer)


def test_a_drafter_begins_by_saying_what_the_base_said_before_and_keeps_the_heaviest_units(tmp_path: Path) -> None:
    base = frozen(tmp_path)
    net = net_for()
    heavy = base.transformer.weights.layers[0].gate_up
    assert isinstance(heavy, Dense)
    heavy.weight[17] *= 100
    drafter_net.thin_copy(net, base.transformer.weights)
    layer = net.layers[0]
    assert isinstance(layer, drafter_net.DrafterLayer)
    assert any(torch.equal(heavy.weight[17], kept) for kept in layer.gate_up)
    net.last.data.zero_()
    net.slots.data.zero_()
    shortlist = everything(base)
    context = base.read(sequence(6), shortlist, READS)
    places = torch.arange(1, 40)
    said = net(context, places, base.transformer.weights.embed)[:, 0] @ shortlist.weight.T
    assert (said.argmax(-1) == context.own[places - 1]).float().mean() > 0.9


def context_of(ids: list[int], own: list[int]) -> Context:
    nothing = torch.zeros(0)
    return Context(torch.tensor(ids), torch.tensor(ids), torch.tensor(own), nothing, {}, {})


def test_a_slot_counts_while_the_text_before_it_is_the_bases_own() -> None:
    #       the text:   5 6 7 8 9        what the base puts after each token
    context = context_of([5, 6, 7, 8, 9], [6, 7, 0, 9, 4])
    targets = own_targets(context, torch.tensor([0, 2, 3, 4]), 4).tolist()
    assert targets == [
        [6, 7, 0, IGNORED],  # after 7 the base would say 0, the text says 8: nothing is known behind it
        [0, IGNORED, IGNORED, IGNORED],
        [9, 4, IGNORED, IGNORED],  # the sequence ends
        [4, IGNORED, IGNORED, IGNORED],
    ]


def test_anchors_are_ascending_distinct_and_half_of_them_where_the_base_agrees() -> None:
    ids = [1, *([2] * 20), *range(3, 40)]
    context = context_of(ids, [2] * len(ids))
    places = anchors(context, 20, SLOTS, np.random.default_rng(0)).tolist()
    assert places == sorted(set(places)) and len(places) == 20
    assert sum(place < 19 for place in places) >= 10
    assert max(places) < len(ids) - SLOTS
    assert anchors(context, 1000, SLOTS, np.random.default_rng(0)).tolist() == list(range(1, len(ids) - SLOTS))


def test_canvases_are_blank_partly_masked_or_corrupt_and_ask_for_what_is_not_known() -> None:
    ids = list(range(100))
    context = context_of(ids, [*ids[1:], 0])
    places = torch.arange(90)
    shown, masked, asked = canvases(context, places, np.random.default_rng(0))
    assert not masked[:, 0].any() and torch.equal(shown[:, 0], places)
    true = context.ids[places[:, None] + torch.arange(8).clamp(max=9)]
    wrong = (shown != true) & ~masked & (places[:, None] + torch.arange(8) < 100)
    assert bool((wrong[:, 1:] <= asked).all()), "what is wrong is asked for"
    assert bool((masked[:, 1:] <= asked).all())
    blank = masked[:, 1:].all(1)
    assert 0.5 < blank.float().mean() < 0.85
    target = answers(context, places, masked)
    assert target[0].tolist() == list(range(1, 8))
    assert target[89].tolist() == list(range(90, 97))
    short, masked, asked = canvases(context, places, np.random.default_rng(0), 3)
    assert short.shape == (90, 4) and asked.shape == (90, 3)
    assert answers(context, places, masked)[5].tolist() == [6, 7, 8]


def training(base: Base, net: drafter_net.DrafterNet, n_texts: int | None = None) -> MicroStep:
    shortlist = everything(base)

    def micro_step(number: int) -> Measured:
        rng = np.random.default_rng((7, number))
        text = number if n_texts is None else number % n_texts
        context = base.read(sequence(text), shortlist, READS)
        return drafter_loss(
            net, context, anchors(context, 24, SLOTS, rng), shortlist, base.transformer.weights.embed, rng
        )

    return micro_step


def test_an_interrupted_run_equals_an_uninterrupted_one_bit_for_bit(tmp_path: Path) -> None:
    base = frozen(tmp_path)
    plan = Plan(steps=7, lr=1e-3, warmup=3, decay=3, accumulate=2)

    def run(folder: str, *stops: int) -> tuple[Run, list[dict[str, float]]]:
        """stops: steps during which the process is asked to end; each time another one goes on."""
        current = None
        for stop in (*stops, plan.steps):
            net = net_for()
            current = Run(net, plan, tmp_path / folder, {"seed": 0})
            assert current.resume() == (stop != (*stops, plan.steps)[0])
            inner = training(base, net)

            def micro_step(number: int, inner: MicroStep = inner, last: int = 2 * stop - 1) -> Measured:
                if number == last:
                    signal.raise_signal(signal.SIGTERM)
                return inner(number)

            current.fit(micro_step)
            assert current.step == stop
        assert current is not None
        lines = list(read_metrics(tmp_path / folder / "metrics.jsonl"))
        return current, [{k: v for k, v in line.items() if k != "seconds"} for line in lines]

    whole, lines = run("whole")
    parts, resumed = run("parts", 2, 5)
    assert lines == resumed and [line["step"] for line in lines] == list(range(1, 8))
    for a, b in zip([*whole.params, *whole.mean], [*parts.params, *parts.mean], strict=True):
        assert torch.equal(a, b)


def test_metrics_written_after_the_last_checkpoint_are_dropped_and_another_kind_of_run_is_refused(
    tmp_path: Path,
) -> None:
    base = frozen(tmp_path)
    net = net_for()
    run = Run(net, Plan(2, 1e-3), tmp_path / "run", {"seed": 0})
    run.fit(training(base, net))
    metrics = tmp_path / "run" / "metrics.jsonl"
    with metrics.open("a") as file:
        file.write(json.dumps({"step": 3, "loss": 1.0}) + "\n")
    again = Run(net_for(), Plan(2, 1e-3), tmp_path / "run", {"seed": 0})
    assert again.resume()
    assert [line["step"] for line in read_metrics(metrics)] == [1, 2]
    with pytest.raises(ValueError, match="choose another --run"):
        Run(net_for(), Plan(2, 1e-3), tmp_path / "run", {"seed": 1}).resume()


@pytest.mark.parametrize(
    ("step", "share"), [(0, 0.25), (3, 1.0), (10, 1.0), (59, 1.0), (80, 0.505), (100, 0.01), (1000, 0.01)]
)
def test_the_rate_rises_stays_and_falls(step: int, share: float) -> None:
    assert rate(Plan(steps=100, lr=2.0, warmup=4, decay=40), step) == pytest.approx(2.0 * share)


def test_two_layers_learn_one_text_by_heart(tmp_path: Path) -> None:
    base = frozen(tmp_path)
    net = net_for()
    run = Run(net, Plan(60, 5e-3, warmup=5), tmp_path / "run", {})
    run.fit(training(base, net, 1))
    losses = [line["loss"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl")]
    assert losses[0] > 5 and min(losses[-5:]) < 0.5, losses


def test_the_adapter_learns_one_text_by_heart(tmp_path: Path) -> None:
    base = frozen(tmp_path)
    torch.manual_seed(0)
    net = adapter_net.AdapterNet(CONFIG, 8)
    run = Run(net, Plan(60, 1e-2, warmup=5), tmp_path / "run", {})
    shortlist = everything(base)
    context = base.read(sequence(0), shortlist, READS)

    def micro_step(number: int) -> Measured:
        rng = np.random.default_rng(number)
        return adapter_loss(net, context, anchors(context, 24, SLOTS, rng), base.transformer.weights, shortlist, rng)

    run.fit(micro_step)
    losses = [line["loss"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl")]
    assert min(losses[-5:]) < 0.5 * losses[0], losses


def test_what_the_base_writes_is_read_as_if_it_had_stood_there_and_gets_the_blocks_first(tmp_path: Path) -> None:
    base = frozen(tmp_path)
    shortlist = everything(base)
    texts = [sequence(1, 30), sequence(2, 45)]
    for text, context in zip(texts, base.go_on(texts, 12, shortlist, READS), strict=True):
        ids = context.ids.tolist()
        assert ids[: len(text)] == text and context.written == len(ids) - len(text) == 12
        whole = base.read(ids, shortlist, READS)
        assert torch.equal(context.own, whole.own)
        torch.testing.assert_close(context.hidden, whole.hidden)
        for layer in READS:
            torch.testing.assert_close(context.keys[layer], whole.keys[layer])
            torch.testing.assert_close(context.values[layer], whole.values[layer])
        places = anchors(context, 10, 3, np.random.default_rng(0)).tolist()
        assert places == list(range(len(text) - 1, len(ids) - 3)), "from the last token that is given to a whole block"


@pytest.mark.parametrize("together", [1, 2, 4])
def test_a_context_serves_several_steps_and_which_one_depends_on_the_step_alone(together: int) -> None:
    read: list[int] = []

    def context(first: int, n: int) -> list[Context]:
        read.extend(range(first, first + n))
        return [context_of([number], [number]) for number in range(first, first + n)]

    replay = Replay(context, seed=3, group=4, times=3, together=together)
    used = [int(replay(step).ids[0]) for step in range(24)]
    assert sorted(used[:12]) == sorted([0, 1, 2, 3] * 3) and sorted(used[12:]) == sorted([4, 5, 6, 7] * 3)
    assert sorted(read) == list(range(8)), "the base runs once for each"
    assert len(replay.held) == 4
    resumed = Replay(context, seed=3, group=4, times=3, together=together)
    assert [int(resumed(step).ids[0]) for step in range(7, 24)] == used[7:]
    assert used[:4] != used[4:8] or used[4:8] != used[8:12]


def test_continuations_are_those_of_one_token_at_a_time(tmp_path: Path) -> None:
    base = Base(CONFIG, tiny.transformer("float32"), tiny.tokens(tmp_path), tmp_path)
    contexts = [sequence(1, 10), sequence(2, 25)]
    for context, written in zip(contexts, continued(base, contexts, 6), strict=True):
        assert len(written) == 6
        cache = base.transformer.new_cache()
        hidden = base.transformer.forward([Rows(torch.tensor([*context, *written]), cache, 0)])[0]
        logits = torch.cat([hidden @ tile.weight.T for tile in base.transformer.weights.lm_head], -1)  # pyright: ignore[reportAttributeAccessIssue]
        assert logits[len(context) - 1 : -1].argmax(-1).tolist() == written


def test_rounds_accept_the_equal_beginning_and_one_token_more(tmp_path: Path) -> None:
    base = frozen(tmp_path)
    text = Rollout(10, tuple(sequence(4, 10 + 40)))

    def right(n: int) -> Drafts:
        def drafts(cache: KVCache, last: int, before: Tensor) -> list[int]:
            del before
            at = cache.length
            assert text.ids[at] == last
            truth = list(text.ids[at + 1 : at + 1 + SLOTS])
            return [*truth[:n], *(token + 1 for token in truth[n:])]

        return drafts

    for n in (0, 3, SLOTS):
        report = rounds(base, right(n), [text]).report()
        assert report["accepted_per_round"] == n + 1
        assert report["slots"] == [100.0] * n + [0.0] * (SLOTS - n)


def probe_rows(n: int, base: Base, rng: random.Random) -> ProbeRows:
    """Middles of 2 to 6 tokens; a direction of the hidden state says where they end."""
    generator = torch.Generator().manual_seed(rng.randrange(1 << 30))
    h = CONFIG.hidden
    lengths = [rng.randrange(2, 7) for _ in range(n)]
    hidden = torch.randn(sum(lengths), h, generator=generator)
    of = torch.cat([torch.full((length,), i) for i, length in enumerate(lengths)])
    last = torch.cat([torch.arange(length) == length - 1 for length in lengths])
    hidden[:, 0] = torch.where(last, 6.0, -6.0) + 0.1 * hidden[:, 0]
    return ProbeRows(
        hidden,
        torch.randn(n, 2 * h, generator=generator) * 0.05,
        torch.zeros(sum(lengths), N_SIGNS),
        of,
        last,
        ("line",) * n,
    )


def test_the_probe_finds_ends_that_can_be_found(tmp_path: Path) -> None:
    base = frozen(tmp_path)
    train, held = probe_rows(200, base, random.Random(0)), probe_rows(60, base, random.Random(1))
    parts = fit(train, 0, 8)
    threshold = best_threshold(parts, held, range(60))
    result = measure(parts, held, range(60), threshold)
    assert result.found > 0.9 and result.cut <= 0.02
    assert measure(parts, held, range(60), 0.0).cut == 1.0
    probe = Probe(parts, base.transformer.weights.embed, 256, threshold)
    about = ending(base.tokens, base.transformer.weights.embed, "\n")
    hidden, n = held.hidden[held.of == 0], int((held.of == 0).sum())
    token, confidence = [7] * n, [0.5] * n
    texts = ["a"] * n
    extra = signs(hidden, probe.embed, about, texts, torch.tensor(token), torch.tensor(confidence), 256)
    expected = score(parts, hidden, about.vector[None], extra).sigmoid()
    assert probe.ends(hidden, about, texts, token, confidence) == pytest.approx(expected.tolist(), abs=1e-5)


def test_the_signs_of_an_end_are_probabilities_of_the_next_token(tmp_path: Path) -> None:
    base = frozen(tmp_path)
    embed, tokens = base.transformer.weights.embed, base.tokens
    about = ending(tokens, embed, "\n    return")
    assert about.left(0).tolist() == [10], "single bytes: only the first can open the suffix"
    assert about.left(1).tolist() == [32]
    assert ending(tokens, embed, "").left(0).tolist() == [tokens.end]
    assert openings(Merging(), ")\nab") == [1, 3]  # pyright: ignore[reportArgumentType]
    hidden = torch.randn(5, CONFIG.hidden) * 0.2
    p = (hidden @ embed.T).softmax(-1)
    token = p.argmax(-1)
    found = signs(hidden, embed, about, ["a", ")\n", "\n   ", "    ", "x"], token, p.amax(-1), tokens.end)
    # behind "\n   " one more space is left of the suffix's indent, behind ")\n" four
    opening = [10, 32, 32, 10, 10]
    torch.testing.assert_close(found[:, 0], p[range(5), opening].log() / 5)
    torch.testing.assert_close(found[:, 1], p[:, tokens.end].log() / 5)
    assert found[:, 3].tolist() == (token == torch.tensor(opening)).float().tolist()
    assert found[:, 4].tolist() == [0, 1, 1, 0, 0]
    torch.testing.assert_close(found[:, 5], torch.tensor([0.0, 1, 4, 0, 0]).log1p())


class Merging:
    """A vocabulary in which a bracket and the line feed behind it are one token."""

    fim_prefix, fim_middle, fim_suffix, end = 1, 2, 3, 0
    pieces = ("", ")\n", "\n", ")", "a", "b")

    def encode(self, text: str, /) -> list[int]:
        ids: list[int] = []
        while text:
            ids.append(next(i for i, piece in enumerate(self.pieces) if piece and text.startswith(piece)))
            text = text[len(self.pieces[ids[-1]]) :]
        return ids

    def decode(self, ids: Sequence[int], /) -> str:
        return "".join(self.pieces[i] for i in ids)


@pytest.mark.parametrize(
    ("middle", "suffix", "ids"), [("a)", "\nb", [4, 1]), ("a)", "b\n", [4, 3]), ("a", "", [4]), ("ab", "a", [4, 5])]
)
def test_a_middle_is_tokenised_as_it_is_written_before_its_suffix(middle: str, suffix: str, ids: list[int]) -> None:
    assert written_with(middle, suffix, Merging()) == ids


@pytest.mark.parametrize(
    ("text", "suffix", "n"),
    [("f(x)\n", "\n\n", 1), ("f(x)", "\n", 0), ("a\n\n", "\n\nb", 2), ("ab", "abc", 2), ("", "a", 0), ("a", "", 0)],
)
def test_what_reaches_into_the_suffix_is_counted(text: str, suffix: str, n: int) -> None:
    assert overlap(text, suffix) == n


def test_a_plot_shows_every_series_and_survives_a_single_point(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text("".join(json.dumps({"step": n, "loss": 9.0 / n}) + "\n" for n in range(1, 50)))
    drawing = curve(
        {"loss": [(line["step"], line["loss"]) for line in read_metrics(metrics)], "one": [(1.0, 2.0)]}, "step", "loss"
    )
    assert drawing.startswith("<svg") and drawing.count("<polyline") == 2 and "one" in drawing
