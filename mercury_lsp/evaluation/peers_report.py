"""docs/benchmarks.md and its plots from what was measured side by side. Values in, texts out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mercury_lsp.evaluation.aggregate import spread, wilson
from mercury_lsp.evaluation.charts import Point, curve
from mercury_lsp.evaluation.humaneval import Row
from mercury_lsp.evaluation.peers import Timed, pairs
from mercury_lsp.evaluation.peers_verdicts import Verdict, of_ranges, of_rates, of_ratios, percent

EFFORTS = ("instant", "low", "medium", "high")
OURS = "check, medium"
"""What the server does without settings; the one that is held against the others in words."""
GREEDY = "greedy, same weights"
PEER = "llama-cpp-python"

MEMORY_CONTEXT = 2048
"""Tokens for which llama.cpp, which wants to know beforehand, makes room where memory is measured."""

QUALITY_PLOT = "bench-quality.svg"
FORWARDS_PLOT = "bench-forwards.svg"
CONTEXT_PLOT = "bench-context.svg"
FILE_PLOT = "bench-file.svg"

HEAD = """\
# Benchmarks

Made by `mercury-lsp bench peers` (`make benchmarks`); not edited by hand.

The contestants, asked the same questions in turn in one run, the first one changing from question to question:

- **check** (instant, low, medium, high): this project's default policy, a draft in parallel and one causal pass that
  keeps what the model itself would have written; medium is what the server does without settings.
- **threshold, medium**: pure diffusion, no causal pass has a say.
- **greedy, same weights**: one token at a time, the same code and the same weights.
- **llama-cpp-python**: llama.cpp in a process of its own, greedy, with the published q4_k_m file that our 8-bit weights
  are made from, as many threads as ours, and the prompt that llama-server makes of what llama.vim sends
  (prefix, suffix, middle). `make benchmarks` compiles it for this machine, without AMX. The same rule ends its middles
  as ends ours. Its Python binding reuses the longest common beginning of two prompts; the `--cache-reuse` of
  llama-server, which also moves what stands behind it, is not in the binding, so here it reads the suffix again at
  every key.

Times are medians, with the quartiles in parentheses (half of all values lie between them); rates have 95% Wilson
intervals. Ratios are taken question by question, so that a machine that slows down does not count. It does where its
cores are busy with other work (a load average well above 1 before the run): the threads of llama.cpp spin while they
wait for each other, ours sleep, so there `--threads 1` is the fair choice.
"""


@dataclass
class Found:
    """What was measured; an empty part was not.

    quality: data set -> contestant -> rows. server: lines of the file -> seconds per key. memory: contestant -> bytes,
    a value per process. machines: part -> what it was measured on. notes: what was left out, and why.
    """

    quality: dict[str, dict[str, list[Row]]] = field(default_factory=dict[str, dict[str, list[Row]]])
    typing: list[Timed] = field(default_factory=list[Timed])
    context: list[Timed] = field(default_factory=list[Timed])
    server: dict[int, list[float]] = field(default_factory=dict[int, list[float]])
    memory: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    machines: dict[str, str] = field(default_factory=dict[str, str])
    notes: list[str] = field(default_factory=list[str])
    seed: int = 0


def page(found: Found, images: str) -> str:
    """The markdown page; `images`: the folder of the plots as the page links to it."""
    drawn = plots(found)

    def shown(*names: str) -> list[str]:
        return [f"![{drawn[name][0]}]({images}/{name})" for name in names if name in drawn]

    parts = [HEAD, *(f"> {note}" for note in found.notes), *_words(found)]
    if found.quality:
        parts += [
            "## Quality and speed",
            "HumanEval-Infilling: solved problems with a hole; the answer passes if the problem's tests do. Raw answers"
            " are scored, before any of the filters that an editor's suggestion passes. Forwards are full-depth passes,"
            " but for the one that reads the prompt and says the first token; seconds are those of a whole answer, its"
            " prompt read from nothing. Forwards per token are those of a task, median and quartiles over the tasks.",
            f"Measured on: {found.machines.get('quality', '')}; seed {found.seed}.",
        ]
        for name, rows in found.quality.items():
            parts += [f"### {name}", _quality_table(rows)]
        parts += shown(QUALITY_PLOT, FORWARDS_PLOT)
    if found.typing:
        parts += [
            "## From key to suggestion",
            "While code is typed, the model's part of the latency: at the same keys all are asked what the server would"
            " ask there, with their own caches kept from key to key. Ours also mends what the parser objects to;"
            " nobody has a deadline.",
            f"Measured on: {found.machines.get('typing', '')}; at most {found.typing[0].context} tokens of context.",
            _timed_table(found.typing, "read per key, tokens"),
        ]
    if found.context:
        sizes = sorted({value.context for value in found.context})
        parts += [
            "## Cost as the context grows",
            "Until the first text that stays, nothing read before. The server shows the model no more than the device"
            f" reads in about a second, so the sizes end there, or at 4096: here at {sizes[-1]} tokens.",
            f"Measured on: {found.machines.get('context', '')}.",
        ]
        for size in sizes:
            chosen = [value for value in found.context if value.context == size]
            parts += [f"### At most {size} tokens of code", _timed_table(chosen, "read, tokens")]
        parts += shown(CONTEXT_PLOT)
    if found.server:
        rows = [(f"{n:,}", _ms(times), str(len(times))) for n, times in found.server.items()]
        parts += [
            "## Cost as the file grows",
            "The server's own time from a key to its answer, in a real process, with a model that answers at once."
            " A line has 40 characters.",
            f"Measured on: {found.machines.get('server', '')}.",
            _table(("lines of the file", "ms per key", "keys"), rows),
            *shown(FILE_PLOT),
        ]
    if found.memory:
        rows = [
            ("this project" if name == OURS else name, _megabytes(held), str(len(held)))
            for name, held in found.memory.items()
        ]
        parts += [
            "## Memory",
            "The most that a process held which has loaded the model and answered once, files that are mapped"
            f" included: median, least and most. llama.cpp has room for {MEMORY_CONTEXT:,} tokens.",
            f"Measured on: {found.machines.get('memory', '')}.",
            _table(("", "MB", "processes"), rows),
        ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def plots(found: Found) -> dict[str, tuple[str, str]]:
    """File name -> what it shows, the SVG. Only of what was measured."""
    drawn: dict[str, tuple[str, str]] = {}
    if found.quality:
        drawn[QUALITY_PLOT] = (
            "pass@1 of all tasks against median seconds of an answer, with 95% intervals",
            curve(_quality_points(found.quality), "median seconds of an answer", "pass@1, %", lines=False, marks=True),
        )
        drawn[FORWARDS_PLOT] = (
            "forwards per token against effort",
            curve(
                _forwards_points(found.quality),
                "effort",
                "forwards per token",
                marks=True,
                ticks={float(n): effort for n, effort in enumerate(EFFORTS)},
            ),
        )
    if found.context:
        sizes = sorted({value.context for value in found.context})
        drawn[CONTEXT_PLOT] = (
            "milliseconds to the first text against the context's tokens, with quartiles",
            curve(
                {name: _context_points(found.context, name, sizes) for name in _names(found.context)},
                "tokens of context",
                "ms to the first text",
                marks=True,
                log_x=True,
                ticks={float(size): str(size) for size in sizes},
            ),
        )
    if found.server:
        spreads = {n: spread([1000 * s for s in times]) for n, times in found.server.items()}
        points: list[Point] = [(n, s.median, s.low, s.high) for n, s in spreads.items()]
        drawn[FILE_PLOT] = (
            "the server's own milliseconds per key against the lines of the file, with quartiles",
            curve(
                {"server, no model": points},
                "lines of the file",
                "ms per key",
                marks=True,
                log_x=True,
                ticks={float(n): f"{n:,}" for n in spreads},
            ),
        )
    return drawn


# --- words ------------------------------------------------------------------------------------------------------


def _words(found: Found) -> list[str]:
    parts = ["## Where this project stands"]
    for other, name in ((PEER, "llama-cpp-python"), (GREEDY, "one-at-a-time decoding of the same weights")):
        verdicts = against(found, other)
        if not verdicts:
            continue
        parts.append(f"### `{OURS}` beside {name}")
        for side, title in (("behind", "Behind"), ("tie", "Level"), ("ahead", "Ahead")):
            lines = [f"- {verdict.text}" for verdict in verdicts if verdict.side == side]
            parts.append(f"**{title}**" + (":\n\n" + "\n".join(lines) if lines else " in nothing that was measured."))
        if undecided := [f"- {verdict.text}" for verdict in verdicts if verdict.side == "open"]:
            parts.append("**Measured too little to say**:\n\n" + "\n".join(undecided))
    return parts if len(parts) > 1 else []


def against(found: Found, other: str) -> list[Verdict]:
    """Every comparison of OURS with `other` that was measured."""
    verdicts: list[Verdict] = []
    for name, rows in found.quality.items():
        both = _both(rows.get(OURS, []), rows.get(other, []))
        if not both:
            continue
        written = [(a, b) for a, b in both if a.tokens and b.tokens]
        forwards = [(a.forwards / a.tokens) / (b.forwards / b.tokens) for a, b in written]
        verdicts += [
            of_rates(f"{name}, pass@1", [a.passed for a, _ in both], [b.passed for _, b in both]),
            of_rates(f"{name}, exact match", [a.exact for a, _ in both], [b.exact for _, b in both]),
            of_rates(f"{name}, syntax-valid", [a.valid for a, _ in both], [b.valid for _, b in both]),
            of_ratios(f"{name}, seconds of an answer", [a.seconds / b.seconds for a, b in both]),
            of_ratios(f"{name}, forwards per token", forwards),
        ]
    if keys := pairs(found.typing, OURS, other):
        verdicts.append(of_ratios("key to suggestion, the model's part", [a.seconds / b.seconds for a, b in keys]))
    for size in sorted({value.context for value in found.context}):
        chosen = pairs([value for value in found.context if value.context == size], OURS, other)
        if chosen:
            what = f"first text with {size} tokens of context, nothing read before"
            verdicts.append(of_ratios(what, [a.seconds / b.seconds for a, b in chosen]))
    if OURS in found.memory and other in found.memory:
        ours_mb, other_mb = ([size / 1e6 for size in found.memory[name]] for name in (OURS, other))
        verdicts.append(of_ranges("memory of a process", "MB", ours_mb, other_mb))
    return verdicts


def _both(ours: Sequence[Row], other: Sequence[Row]) -> list[tuple[Row, Row]]:
    """The rows of the tasks that both have answered."""
    theirs = {row.task: row for row in other}
    return [(row, theirs[row.task]) for row in ours if row.task in theirs]


def _per_token(rows: Iterable[Row]) -> list[float]:
    """Forwards per token of each answer that has tokens."""
    return [row.forwards / row.tokens for row in rows if row.tokens]


# --- tables -----------------------------------------------------------------------------------------------------


def _quality_table(rows: Mapping[str, Sequence[Row]]) -> str:
    yardstick = PEER if rows.get(PEER) else GREEDY
    head = ("", "tasks", "pass@1", "exact match", "syntax-valid", "forwards per token", "seconds")
    lines: list[tuple[str, ...]] = []
    for name, answers in rows.items():
        ratios = [a.seconds / b.seconds for a, b in _both(answers, rows.get(yardstick, []))]
        lines.append(
            (
                name,
                str(len(answers)),
                percent(sum(row.passed for row in answers), len(answers)),
                percent(sum(row.exact for row in answers), len(answers)),
                percent(sum(row.valid for row in answers), len(answers)),
                _spread(_per_token(answers), 2),
                _spread([row.seconds for row in answers], 2),
                _spread(ratios, 2),
            )
        )
    return _table((*head, f"seconds, times those of {yardstick}"), lines)


def _timed_table(values: Sequence[Timed], read: str) -> str:
    names = _names(values)
    yardstick = PEER if PEER in names else GREEDY
    lines: list[tuple[str, ...]] = []
    for name in names:
        own = [value for value in values if value.contestant == name]
        ratios = [a.seconds / b.seconds for a, b in pairs(values, name, yardstick)]
        prefilled = _spread([value.prefilled for value in own], 0)
        lines.append((name, str(len(own)), _ms([v.seconds for v in own]), _spread(ratios, 2), prefilled))
    return _table(("", "answers", "ms", f"ms, times those of {yardstick}", read), lines)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *("---:" for _ in head[1:])], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _spread(values: Sequence[float], digits: int) -> str:
    if not values:
        return ""
    found = spread(values)
    return f"{found.median:.{digits}f} ({found.low:.{digits}f}–{found.high:.{digits}f})"


def _ms(seconds: Sequence[float]) -> str:
    return _spread([1000 * value for value in seconds], 1 if spread(seconds).median < 0.1 else 0)


def _megabytes(sizes: Sequence[int]) -> str:
    return f"{spread(sizes).median / 1e6:.0f} ({min(sizes) / 1e6:.0f}–{max(sizes) / 1e6:.0f})"


# --- plots ------------------------------------------------------------------------------------------------------


def _quality_points(quality: Mapping[str, Mapping[str, Sequence[Row]]]) -> dict[str, list[Point]]:
    """One point per contestant, over the tasks of all data sets."""
    points: dict[str, list[Point]] = {}
    for name in dict.fromkeys(name for rows in quality.values() for name in rows):
        answers = [row for rows in quality.values() for row in rows.get(name, ())]
        n_passed = sum(row.passed for row in answers)
        low, high = wilson(n_passed, len(answers))
        middle = spread([row.seconds for row in answers]).median
        points[name] = [(middle, 100 * n_passed / max(1, len(answers)), 100 * low, 100 * high)]
    return points


def _forwards_points(quality: Mapping[str, Mapping[str, Sequence[Row]]]) -> dict[str, list[Point]]:
    """A line per data set for `check`; what knows no effort is a level line over the tasks of all of them."""
    points: dict[str, list[Point]] = {}
    for name, sets in quality.items():
        found = [_per_token(sets.get(f"check, {effort}", ())) for effort in EFFORTS]
        spreads = [(float(n), spread(values)) for n, values in enumerate(found) if values]
        points[f"check, {name}"] = [(n, s.median, s.low, s.high) for n, s in spreads]
    for name in (GREEDY, PEER):
        values = _per_token(row for sets in quality.values() for row in sets.get(name, ()))
        if values:
            points[name] = [(float(n), spread(values).median) for n in range(len(EFFORTS))]
    return {name: line for name, line in points.items() if line}


def _context_points(values: Sequence[Timed], name: str, sizes: Sequence[int]) -> list[Point]:
    points: list[Point] = []
    for size in sizes:
        times = [1000 * v.seconds for v in values if v.contestant == name and v.context == size]
        found = spread(times)
        points.append((float(size), found.median, found.low, found.high))
    return points


def _names(values: Sequence[Timed]) -> list[str]:
    """The contestants by the order in which they first appear in a sorted list: the peer last."""
    return sorted({value.contestant for value in values}, key=lambda name: (name == PEER, name))
