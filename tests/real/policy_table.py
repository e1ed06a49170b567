"""Policies and efforts of the embedded model over benchmark lines, as the server would show them.

    python -m tests.real.policy_table FILE.jsonl.gz [N]

Each task's line is taken out of its file, the cursor put behind its indentation, and the region, the request and the
checked edit are those of an inline completion. Printed per row: forwards per token, exact lines, the share of raw
texts that parse no worse (without and with judge rounds), and the share of places where something valid is shown.
"""

import dataclasses
import sys
from pathlib import Path

from mercury_lsp.edit import completion_edit
from mercury_lsp.evaluation.humaneval import Task, choose, load_tasks
from mercury_lsp.region import Budget, completion_region, request_for
from mercury_lsp.text import Document
from mercury_model import Infiller, load
from mercury_model.draft import Effort

ROWS: tuple[tuple[str, Effort], ...] = (
    ("greedy", "medium"),
    ("check", "instant"),
    ("check", "medium"),
    ("check", "high"),
    ("threshold", "instant"),
    ("threshold", "medium"),
    ("threshold", "high"),
    ("entropy_bound", "medium"),
)


def main(data: Path, n: int) -> None:
    model = load()
    tasks = choose(load_tasks(data), n, 0)
    print("| policy | effort | judged | forwards per token | exact | raw valid | shown | shown valid |")
    print("|---|---|---|---|---|---|---|---|")
    for policy, effort in ROWS:
        for judged in (False, True):
            if judged and effort == "instant":
                continue  # no rounds
            print(row(model, tasks, policy, effort, judged), flush=True)


def row(model: Infiller, tasks: tuple[Task, ...] | list[Task], policy: str, effort: Effort, judged: bool) -> str:
    forwards = tokens = exact = raw = shown = valid = 0
    for task in tasks:
        line = task.canonical
        indent = line[: len(line) - len(line.lstrip())]
        before = task.prompt + indent
        document = Document("file:///task.py", 1, "python", before + "\n" + task.suffix)
        region = completion_region(document, len(before), Budget(500, 120), model.count_tokens)
        if region is None:
            continue
        request = request_for(region, policy=policy, effort=effort, max_tokens=48)
        judge = request.judge
        if not judged:
            request = dataclasses.replace(request, judge=None)
        last = None
        for draft in model(request):
            last = draft if draft.done or last is None else last
        assert last is not None and judge is not None
        forwards += last.forwards
        tokens += last.n_tokens
        raw += not judge(last.text)
        exact += last.text.split("\n")[0].strip() == line.strip()
        edit = completion_edit(region, last.text)
        shown += edit is not None
        valid += edit is not None and edit.valid is not False
    n = len(tasks)
    share = valid / max(shown, 1)
    return (
        f"| {policy} | {effort} | {'yes' if judged else 'no'} | {forwards / max(tokens, 1):.2f} | {exact / n:.0%} "
        f"| {raw / n:.1%} | {shown / n:.0%} | {share:.1%} |"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100)
