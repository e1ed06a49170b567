"""`mercury-lsp eval`: HumanEval-Infilling by running its tests, next edits beside a recorded peer.

Only figures go to standard output; progress and messages go to standard error.
"""

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from mercury_lsp import loading
from mercury_lsp.cli.progress import progress
from mercury_lsp.errors import UsageError
from mercury_lsp.evaluation import humaneval, next_edit, recorded_peer, report
from mercury_lsp.next_edits.next_edit import predict
from mercury_lsp.settings import Settings
from mercury_model.draft import AUTO, Effort, Infiller

EFFORTS = ("instant", "low", "medium", "high")
INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it: 128 and the signal's number."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="WHAT")
    defaults = Settings()

    infill = kinds.add_parser("humaneval-infill", help="pass@1 by running the tests, exact match, speed")
    infill.add_argument("--data", type=Path, required=True, metavar="FILE.jsonl.gz", help="the tasks")
    infill.add_argument("--limit", type=_count, metavar="N", help="the first N shuffled tasks (default: all)")
    infill.add_argument("--seed", type=int, default=0, help="what the shuffle starts from (default: 0)")
    infill.add_argument(
        "--policy", default=defaults.inline.policy, help="how slots become visible (default: %(default)s)"
    )
    infill.add_argument("--effort", default=defaults.inline.effort, choices=EFFORTS, help="default: %(default)s")
    infill.add_argument("--greedy", action="store_true", help="one-at-a-time decoding of the same weights beside it")
    infill.add_argument(
        "--resume", type=Path, metavar="FILE", help="keep finished tasks in FILE, and take those it has from it"
    )

    edits = kinds.add_parser("next-edit", help="predicted edits: score, show rate, quiet rate, beside a recorded peer")
    edits.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of .txtar scenarios")
    edits.add_argument("--peer-only", action="store_true", help="score the recorded peer alone, without a model")

    for kind in (infill, edits):
        kind.add_argument("--model", default=defaults.model.name, help="which model (default: %(default)s)")
        kind.add_argument("--json", action="store_true", help="print one JSON object instead of a table")


def run(args: argparse.Namespace) -> int:
    """Exit status. Raises MercuryError for bad input and failures."""
    return COMMANDS[args.kind](args)


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def _humaneval(args: argparse.Namespace) -> int:
    tasks = humaneval.choose(humaneval.load_tasks(args.data), args.limit, args.seed)
    store = humaneval.RowFile(args.resume) if args.resume else None
    infiller = _load(args.model)
    policy = infiller.info.policy if args.policy == AUTO else args.policy
    decoding = humaneval.Decoding(policy, cast("Effort", args.effort))
    # the effort means nothing to it: one row serves them all
    greedy = humaneval.Decoding(humaneval.GREEDY_POLICY)
    if args.greedy and policy == greedy.policy:
        raise UsageError(f"--policy {policy} is what --greedy compares with; leave one of them out")
    decodings = [decoding, greedy] if args.greedy else [decoding]
    rows: dict[str, list[humaneval.Row]] = {kind.policy: [] for kind in decodings}
    with _bar() as bars:
        bar = bars.add_task("answers", total=len(tasks) * len(decodings))
        answers = humaneval.evaluate(
            tasks, decodings, infiller, store.rows if store else (), store.append if store else _forget
        )
        try:
            for row in answers:
                rows[row.policy].append(row)
                bars.advance(bar)
        except KeyboardInterrupt:
            remedy = f"the same command with --resume {store.path} goes on" if store else "--resume FILE keeps them"
            print(f"stopped after {sum(map(len, rows.values()))} answers; {remedy}", file=sys.stderr)
            return INTERRUPTED
    figures = (
        report.comparison(rows[decoding.policy], rows[greedy.policy])
        if args.greedy
        else report.summary(rows[decoding.policy])
    )
    _show(figures, args.json, f"HumanEval-Infilling, {args.data.name}", "greedy")
    return 0


def _next_edit(args: argparse.Namespace) -> int:
    if not args.data.is_dir():
        raise UsageError(f"{args.data} is no folder; give --data the folder of the .txtar scenarios")
    scenarios = next_edit.load_scenarios(args.data)
    peer = next_edit.figures(list(recorded_peer.peer_outcomes(args.data)))
    if args.peer_only:
        figures: dict[str, Any] = {"peer": peer}
    else:
        predict = _predictor(args.model)
        with _bar() as bars:
            bar = bars.add_task("scenarios", total=len(scenarios))
            outcomes: list[next_edit.Outcome] = []
            for outcome in next_edit.run(scenarios, predict):
                outcomes.append(outcome)
                bars.advance(bar)
        figures = {**next_edit.figures(outcomes), "peer": peer}
    _show(figures, args.json, f"Next edits, {args.data.name}", "peer")
    return 0


def _predictor(model: str) -> next_edit.Predictor:
    """The server's own predictions, with the model loaded."""
    infiller = _load(model)
    return lambda scenario: predict(infiller, scenario)


def _load(model: str) -> Infiller:
    settings = Settings()
    settings = dataclasses.replace(settings, model=dataclasses.replace(settings.model, name=model))
    with progress() as report:
        return loading.load_infiller(settings, report)


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )


def _show(figures: Mapping[str, Any], as_json: bool, title: str, beside: str) -> None:
    """The figures as one JSON object or as a table, those under the key `beside` in a column of their own."""
    if as_json:
        print(json.dumps(figures))
        return
    own = {key: value for key, value in figures.items() if key != beside}
    columns: dict[str, Mapping[str, Any]] = {str(own.get("policy", "here")): own} if own else {}
    if beside in figures:
        columns[beside] = cast("Mapping[str, Any]", figures[beside])
    Console().print(report.table(title, columns))


def _forget(row: humaneval.Row) -> None:
    """Without --resume rows live as long as the run."""


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "humaneval-infill": _humaneval,
    "next-edit": _next_edit,
}
