"""Next-edit scenarios: read them, score predicted buffers, and score a recorded peer on the same files.

A scenario is a `.txtar` file: a header (`row` 1-based, `col` 0-based), a `buffer.txt`, recent edits under
`history`, and the ideal buffer under `expected`; without that section silence is right. Scenarios, metric and
gate follow the public cursortab.nvim evaluation. Knows nothing about models: a Predictor comes in.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mercury_lsp.errors import UsageError
from mercury_lsp.evaluation.aggregate import rate, seconds

CHRF_ORDERS = range(1, 7)
CHRF_BETA = 2.0


@dataclass(frozen=True, slots=True)
class RecentEdit:
    """A change the user made a moment ago: whole lines before and after, without a trailing line break."""

    path: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """What an editor knows when it asks for the next edit, and what would be right.

    row: 1-based. col: 0-based. history: oldest first. expected: the ideal buffer, None where silence is right.
    modified: False where the user has not touched the buffer yet.
    """

    name: str
    path: str
    language: str
    buffer: str
    row: int
    col: int
    history: tuple[RecentEdit, ...] = ()
    expected: str | None = None
    modified: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """One scenario answered. quality: chrF of the changed lines, 0 to 100; None where silence is right."""

    name: str
    shown: bool
    quality: float | None
    seconds: float


Predictor = Callable[[Scenario], str | None]
"""The whole buffer after the predicted edit, or None for silence."""


def load_scenarios(folder: Path) -> list[Scenario]:
    """The scenarios of a folder by file name, one per cursor position. Raises UsageError for a bad file."""
    paths = sorted(folder.glob("*.txtar"))
    if not paths:
        raise UsageError(f"{folder} holds no .txtar scenarios; give --data the folder that does")
    return [scenario for path in paths for scenario in read_scenario(path)]


def read_scenario(path: Path) -> list[Scenario]:
    """The scenario of a file, and the same once more for each of its further `cursor-positions`."""
    try:
        header, sections = _sections(path.read_text(encoding="utf-8"))
        first = Scenario(
            name=header.get("id", path.stem),
            path=header["file"],
            language=header["language"],
            buffer=_one_final_break(sections["buffer.txt"]),
            row=int(header["row"]),
            col=int(header["col"]),
            history=tuple(_history(sections.get("history", ""))),
            expected=_one_final_break(sections["expected"]) if "expected" in sections else None,
            modified=header.get("modified", "true") == "true",
        )
        places = [tuple(map(int, place.split(":"))) for place in header.get("cursor-positions", "").split(",") if place]
        further = [replace(first, name=f"{first.name}@{row}:{col}", row=row, col=col) for row, col in places]
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error}") from error
    except KeyError as error:
        raise UsageError(f"{path} is no next-edit scenario: {error} is missing") from error
    except ValueError as error:
        raise UsageError(f"{path} is no next-edit scenario: {error}") from error
    return [first, *further]


def _sections(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """The `key: value` lines before the first `-- name --` line, and each section's text."""
    header: dict[str, str] = {}
    sections: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in text.split("\n"):
        if line.startswith("-- ") and line.rstrip().endswith(" --"):
            current = sections.setdefault(line.strip()[3:-3].strip(), [])
        elif current is not None:
            current.append(line)
        else:
            key, colon, value = line.partition(": ")
            if colon and " " not in key:
                header[key] = value.strip()
    return header, {name: "\n".join(lines) for name, lines in sections.items()}


def _history(section: str) -> Iterator[RecentEdit]:
    for entry in section.split("<|file|>")[1:]:
        path, _, rest = entry.partition("\n")
        old, mark, new = rest.partition("<|new|>\n")
        if not mark:
            raise ValueError("an entry of its history has no <|new|> part")
        yield RecentEdit(path.strip(), old.removeprefix("<|old|>\n").rstrip("\n"), new.rstrip("\n"))


def _one_final_break(text: str) -> str:
    """Blank lines at the end of a section separate it from what follows; they are no part of the buffer.

    The public evaluation counts them, which makes every line down to the end of the file a changed one: read
    that way the recorded Mercury has a delta_chrf of 61.1 on our half (64.4 published for the whole), and 71.7
    read this way.
    """
    return text.rstrip("\n") + "\n"


def chrf(candidate: str, reference: str) -> float:
    """chrF, 0 to 100: the mean over orders 1 to 6 of the character n-gram F-score, recall weighted by beta 2.

    Orders for which neither text is long enough do not count; two empty texts are the same, 100.
    Popović 2015, https://aclanthology.org/W15-3049; whitespace counts, as indentation is part of an edit.
    """
    scores: list[float] = []
    for order in CHRF_ORDERS:
        ours, right = _ngrams(candidate, order), _ngrams(reference, order)
        if not ours and not right:
            continue
        common = (ours & right).total()
        precision = common / ours.total() if ours else 0.0
        recall = common / right.total() if right else 0.0
        weighted = CHRF_BETA**2 * precision + recall
        scores.append((1 + CHRF_BETA**2) * precision * recall / weighted if weighted else 0.0)
    return 100 * sum(scores) / len(scores) if scores else 100.0


def _ngrams(text: str, order: int) -> Counter[str]:
    return Counter(text[i : i + order] for i in range(len(text) - order + 1))


def changed_lines(before: str, after: str) -> str:
    """The lines of `after` between the first and the last difference; unchanged text earns nothing."""
    old, new = before.rstrip("\n").split("\n"), after.rstrip("\n").split("\n")
    shortest = min(len(old), len(new))
    head = next((i for i in range(shortest) if old[i] != new[i]), shortest)
    room = shortest - head
    tail = next((i for i in range(room) if old[-1 - i] != new[-1 - i]), room)
    return "\n".join(new[head : len(new) - tail])


def judge(scenario: Scenario, predicted: str | None, elapsed: float) -> Outcome:
    """A prediction that leaves the buffer as it is counts as silence; silence earns 0 where an edit was due."""
    shown = predicted is not None and predicted.rstrip("\n") != scenario.buffer.rstrip("\n")
    if scenario.expected is None:
        quality = None
    elif predicted is None or not shown:
        quality = 0.0
    else:
        quality = chrf(changed_lines(scenario.buffer, predicted), changed_lines(scenario.buffer, scenario.expected))
    return Outcome(scenario.name, shown, quality, elapsed)


def run(scenarios: Sequence[Scenario], predict: Predictor) -> Iterator[Outcome]:
    """Asks once per scenario; seconds are wall clock."""
    for scenario in scenarios:
        started = time.perf_counter()
        predicted = predict(scenario)
        yield judge(scenario, predicted, time.perf_counter() - started)


def figures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """score = delta_chrf / 100 x the harmonic mean of show and quiet rate: neither chatter nor silence pays.

    delta_chrf: mean quality where an edit is due, silence counting 0. A rate over no scenarios is 1, so that a
    selection without silent scenarios is scored by its edits alone.
    """
    edits = [outcome for outcome in outcomes if outcome.quality is not None]
    silent = [outcome for outcome in outcomes if outcome.quality is None]
    quality = [outcome.quality for outcome in edits if outcome.quality is not None]
    delta_chrf = sum(quality) / len(quality) if quality else 0.0
    show = rate([outcome.shown for outcome in edits]) if edits else 1.0
    quiet = rate([not outcome.shown for outcome in silent]) if silent else 1.0
    gate = 2 * show * quiet / (show + quiet) if show + quiet else 0.0
    return {
        "n": len(outcomes),
        "score": delta_chrf / 100 * gate,
        "delta_chrf": delta_chrf,
        "show_rate": show,
        "quiet_rate": quiet,
        "seconds": seconds([outcome.seconds for outcome in outcomes]),
    }
