"""Progress on stderr: bars in a terminal, one line per stage elsewhere, nothing with --quiet."""

import contextlib
import sys
from collections.abc import Callable, Generator

Report = Callable[[str, float], None]


@contextlib.contextmanager
def progress(*, quiet: bool = False) -> Generator[Report]:
    """A report(message, fraction) to hand down; a new message begins a new stage."""
    if quiet:
        yield lambda message, fraction: None
    elif sys.stderr.isatty():
        with bars() as report:
            yield report
    else:
        yield lines()


def lines() -> Report:
    last = ""

    def report(message: str, fraction: float) -> None:
        nonlocal last
        if message != last:
            print(message, file=sys.stderr, flush=True)
            last = message

    return report


@contextlib.contextmanager
def bars() -> Generator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), TextColumn("{task.percentage:>3.0f}%"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as drawn:
        tasks: dict[str, TaskID] = {}

        def report(message: str, fraction: float) -> None:
            if message not in tasks:
                for task in tasks.values():  # one bar at a time: the stage before is over
                    drawn.update(task, visible=False)
                tasks[message] = drawn.add_task(message, total=1.0)
            drawn.update(tasks[message], completed=fraction, visible=True)

        yield report
