"""HumanEval-Infilling: which tasks, what the model is asked, how an answer is scored.

The raw draft is scored, before any of the filters an editor's suggestion passes. Knows nothing about how the
model decodes: an Infiller, a policy and an effort come in, rows come out. The model is seen only through
Request and Draft, so tests plug a scripted Infiller in.

Data: https://github.com/openai/human-eval-infilling (MIT), one JSON object a line.
"""

import gzip
import json
import random
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

from mercury_lsp import syntax
from mercury_lsp.errors import FailureError, UsageError
from mercury_lsp.evaluation.middle_end import line_end, middle_end
from mercury_lsp.evaluation.sandbox import DEFAULT_LIMITS, Limits, run_program
from mercury_model.draft import Draft, Effort, Infiller, Request

LANGUAGE = "python"
GREEDY_POLICY = "greedy"
"""One-at-a-time decoding of the same weights: what every other policy is held against."""

SINGLE_LINE_TOKENS = 64
LONG_TOKENS = 256
"""The longest middle of the data has 859 characters. One number for all tasks: the length is not given away."""


@dataclass(frozen=True, slots=True)
class Task:
    """One hole in a solved HumanEval problem. canonical: the text that stood in the hole."""

    task_id: str
    entry_point: str
    prompt: str
    suffix: str
    canonical: str
    test: str

    @property
    def single_line(self) -> bool:
        return self.task_id.startswith("SingleLine")


@dataclass(frozen=True, slots=True)
class Decoding:
    """How to decode. `policy` and `effort` as in Request."""

    policy: str = "check"
    effort: Effort = "medium"


@dataclass(frozen=True, slots=True)
class Row:
    """One answered and scored task, as it is kept in the resume file.

    text: what was scored, the middle after the benchmark's cut. tokens, forwards, prefilled, ended: of the last
    Draft. seconds: wall clock from the request to the last Draft. reason: why the tests did not pass.
    """

    model: str
    policy: str
    effort: str
    task: str
    text: str
    passed: bool
    exact: bool
    valid: bool
    tokens: int
    forwards: float
    prefilled: int
    seconds: float
    ended: str
    reason: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.model, self.policy, self.effort, self.task


def load_tasks(path: Path) -> list[Task]:
    """Tasks of a .jsonl or .jsonl.gz file in its order. Raises UsageError for what is no such file."""
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}; give a HumanEval-Infilling .jsonl.gz file") from error
    tasks: list[Task] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            item: dict[str, str] = json.loads(line)
            tasks.append(
                Task(
                    task_id=item["task_id"],
                    entry_point=item["entry_point"],
                    prompt=item["prompt"],
                    suffix=item["suffix"],
                    canonical=item["canonical_solution"],
                    test=item["test"],
                )
            )
        except (ValueError, TypeError, KeyError) as error:
            raise UsageError(f"{path} line {number} is not a HumanEval-Infilling task: {error!r}") from error
    if not tasks:
        raise UsageError(f"{path} holds no tasks; give a HumanEval-Infilling .jsonl.gz file")
    return tasks


def choose(tasks: Sequence[Task], limit: int | None, seed: int) -> list[Task]:
    """All tasks shuffled under the seed, the first `limit` of them: a larger limit only adds tasks."""
    chosen = list(tasks)
    random.Random(seed).shuffle(chosen)
    return chosen if limit is None else chosen[:limit]


def request_for(task: Task, decoding: Decoding) -> Request:
    """What the model is asked. No document name: nothing is reused between tasks, each pays its own prefill."""
    return Request(
        prefix=task.prompt,
        suffix=task.suffix,
        path="solution.py",
        max_tokens=SINGLE_LINE_TOKENS if task.single_line else LONG_TOKENS,
        policy=decoding.policy,
        effort=decoding.effort,
        end=rule_of(task),
    )


def rule_of(task: Task) -> Callable[[str], int | None]:
    """What ends the task's middle, whoever writes it."""
    if task.single_line:
        return first_line
    return line_end(task.suffix) if task.task_id.startswith("MultiLine") else middle_end(task.suffix)


def first_line(text: str) -> int | None:
    """The benchmark's end of a single-line middle: the first line break, which is kept."""
    stop = text.find("\n")
    return stop + 1 if stop >= 0 else None


def cut(task: Task, text: str) -> str:
    """The text that is scored: one line with its break for single-line tasks, else the text as it came."""
    return text.partition("\n")[0] + "\n" if task.single_line else text


def program(task: Task, text: str) -> str:
    """Solution and tests as one Python source, which runs to its end exactly when the tests pass."""
    return f"{task.prompt}{text}{task.suffix}\n{task.test}\ncheck({task.entry_point})\n"


def parses_no_worse(task: Task, text: str) -> bool:
    """Whether the solution has no more syntax errors than the canonical one."""
    ours = syntax.n_errors(f"{task.prompt}{text}{task.suffix}", LANGUAGE)
    canonical = syntax.n_errors(f"{task.prompt}{task.canonical}{task.suffix}", LANGUAGE)
    return ours is not None and canonical is not None and ours <= canonical


def answer(task: Task, decoding: Decoding, infiller: Infiller, limits: Limits = DEFAULT_LIMITS) -> Row:
    """Asks, drains the drafts, runs the tests. Raises FailureError where the model gives no Draft at all."""
    started = time.perf_counter()
    last: Draft | None = None
    for draft in infiller(request_for(task, decoding)):
        last = draft
    seconds = time.perf_counter() - started
    if last is None:
        raise FailureError(f"the model answered {task.task_id} with nothing; run `mercury-lsp doctor`")
    text = cut(task, last.text)
    verdict = run_program(program(task, text), limits)
    return Row(
        model=model_name(infiller),
        policy=decoding.policy,
        effort=decoding.effort,
        task=task.task_id,
        text=text,
        passed=verdict.passed,
        exact=text == task.canonical,
        valid=parses_no_worse(task, text),
        tokens=last.n_tokens,
        forwards=last.forwards,
        prefilled=last.prefilled,
        seconds=seconds,
        ended=last.ended,
        reason=verdict.reason,
    )


def model_name(infiller: Infiller) -> str:
    """The checkpoint and, where there is one, its adapter: what a row was measured with."""
    info = infiller.info
    return f"{info.name}+{info.adapter}" if info.adapter else info.name


def evaluate(
    tasks: Sequence[Task],
    decodings: Sequence[Decoding],
    infiller: Infiller,
    finished: Sequence[Row] = (),
    keep: Callable[[Row], None] = lambda row: None,
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[Row]:
    """One row per task and decoding, the decodings of a task in turn; a row in `finished` is not asked again.

    keep: called with each new row before it is yielded, so that what is paid for is on disk.
    """
    known = {row.key: row for row in finished}
    name = model_name(infiller)
    for task in tasks:
        for decoding in decodings:
            row = known.get((name, decoding.policy, decoding.effort, task.task_id))
            if row is None:
                row = answer(task, decoding, infiller, limits)
                keep(row)
            yield row


class RowFile:
    """Finished rows as JSON lines. Each row is one write, so an interruption costs at most the row in work."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = self._load()

    def append(self, row: Row) -> None:
        with self.path.open("ab") as file:
            file.write(json.dumps({f.name: getattr(row, f.name) for f in fields(Row)}).encode() + b"\n")

    def _load(self) -> list[Row]:
        try:
            raw = self.path.read_bytes() if self.path.exists() else b""
            whole = raw[: raw.rfind(b"\n") + 1]
            rows = [self._parse(number, line) for number, line in enumerate(whole.splitlines(), 1)]
            if len(whole) < len(raw):
                # The last row was cut off by a crash. Drop it, or the next one would be glued to it; but only
                # from a file that is ours beyond doubt.
                if not raw[len(whole) :].startswith(b'{"model": '):
                    raise self._foreign(len(rows) + 1)
                with self.path.open("r+b") as file:
                    file.truncate(len(whole))
            self.path.open("ab").close()
        except OSError as error:
            raise UsageError(f"cannot keep results in {self.path}: {error}") from error
        return rows

    def _parse(self, number: int, line: bytes) -> Row:
        try:
            return Row(**cast("dict[str, Any]", json.loads(line)))
        except (ValueError, TypeError) as error:
            raise self._foreign(number) from error

    def _foreign(self, number: int) -> UsageError:
        return UsageError(
            f"{self.path} line {number} is no finished task: give --resume a new file or one that eval wrote"
        )
