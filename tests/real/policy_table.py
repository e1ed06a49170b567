"""Policies and efforts of the embedded model over benchmark lines, as the server would show them.

    python -m tests.real.policy_table FILE.jsonl.gz [N]

Each task's line is taken out of its file, the cursor put behind its indentation, and the region, the request and the
checked edit are those of an inline completion. Printed per row: forwards per token, exact lines, the share of raw
texts that parse no worse (without and with judge rounds), and the share of places where something valid is shown.
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from mercury_lsp.edit import completion_edit
from mercury_lsp.evaluation.humaneval import Task, choose, load_tasks
from mercury_lsp.region import Budget, completion_region, request_for
from mercury_lsp.text import Document
from mercury_model import Infiller, load
from mercury_model.draft import Effort

ROWS: tuple[tuple[str, Effort, bool], ...] = (
    ("greedy", "medium", False),
    ("check", "medium", False),
    ("check", "instant", True),
    ("check", "low", True),
    ("check", "medium", True),
    ("check", "high", True),
    ("threshold", "instant", False),
    ("threshold", "medium", False),
    ("threshold", "low", True),
    ("threshold", "medium", True),
    ("threshold", "high", True),
    ("entropy_bound", "medium", False),
)


@dataclass
class Sums:
    places: int = 0
    forwards: float = 0
    tokens: int = 0
    exact: int = 0
    raw: int = 0
    shown: int = 0
    valid: int = 0

    def row(self, policy: str, effort: str, judged: bool) -> str:
        n = max(self.places, 1)
        return (
            f"| {policy} | {effort} | {'yes' if judged else 'no'} | {self.forwards / max(self.tokens, 1):.2f} "
            f"| {self.exact / n:.0%} | {self.raw / n:.1%} | {self.shown / n:.0%} "
            f"| {self.valid / max(self.shown, 1):.1%} |"
        )


def main(data: Path, n: int) -> None:
    """All rows for one task before the next task: they share its prefilled context."""
    model = load()
    sums = [Sums() for _ in ROWS]
    tasks = choose(load_tasks(data), n, 0)
    for done, task in enumerate(tasks, 1):
        for total, (policy, effort, judged) in zip(sums, ROWS, strict=True):
            add(total, model, task, policy, effort, judged)
        if done % 10 == 0 or done == len(tasks):
            print(f"\n{done} tasks, {sums[0].places} places\n")
            print("| policy | effort | judged | forwards per token | exact | raw valid | shown | shown valid |")
            print("|---|---|---|---|---|---|---|---|")
            for total, (policy, effort, judged) in zip(sums, ROWS, strict=True):
                print(total.row(policy, effort, judged), flush=True)


def add(total: Sums, model: Infiller, task: Task, policy: str, effort: Effort, judged: bool) -> None:
    line = task.canonical
    before = task.prompt + line[: len(line) - len(line.lstrip())]
    document = Document("file:///task.py", 1, "python", before + "\n" + task.suffix)
    region = completion_region(document, len(before), Budget(300, 80), model.count_tokens)
    if region is None:
        return
    request = request_for(region, policy=policy, effort=effort, max_tokens=32)
    judge = request.judge
    assert judge is not None
    last = [draft for draft in model(request if judged else replace(request, judge=None)) if draft.done][-1]
    edit = completion_edit(region, last.text)
    total.places += 1
    total.forwards += last.forwards
    total.tokens += last.n_tokens
    total.raw += not judge(last.text)
    total.exact += last.text.split("\n")[0].strip() == line.strip()
    total.shown += edit is not None
    total.valid += edit is not None and edit.valid is not False


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100)
