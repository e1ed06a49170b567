"""What a folder of gpu_check.sh's results says, in one page: the table, and the figures that have a goal beside it.

    python kernels/gpu_summary.py FOLDER

A figure that was not measured is not printed. It measures nothing itself.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import bench

Report = dict[str, Any]
UNMASK_TIMES, UNMASK_SHARE, GREEDY_TIMES, TOKENS_PER_S = 3.0, 0.70, 4.0, 1009.0
"""Goals at 32 rows; a policy's tokens per second over one at a time; single-stream tokens per second."""


def kernels(report: Report) -> Iterator[str]:
    """Goals of the vocabulary reduction."""
    for row in report["rows"]:
        if row["op"] == "unmask" and row["shape"].startswith("32x"):
            yield goal("unmask, 32 rows: times the torch reference", row["reference_ms"] / row["ours_ms"], UNMASK_TIMES)
            if "share" in row:
                yield goal("unmask, 32 rows: share of the bandwidth", row["share"], UNMASK_SHARE)


def tokens(report: Report) -> Iterator[str]:
    """Goals of decoding; with random weights there are none, only times."""
    rows = {row["policy"]: row for row in report["rows"] if row["path"] == "graph"}
    for policy in [name for name in ("check", "threshold") if name in rows]:
        row = rows[policy]
        if report["weights"] == "random":
            yield f"{policy}: {row['ms_per_forward']:.3f} ms a pass with random weights"
            continue
        yield goal(f"{policy}: times one token at a time", row["times_greedy"], GREEDY_TIMES)
        yield goal(f"{policy}: tokens per second", row["tokens_per_s"], TOKENS_PER_S)
    if "check" in rows and report["weights"] != "random":
        yield goal("check: share of texts equal to one token at a time", rows["check"]["same_as_greedy"], 1.0)


def goal(what: str, value: float, wanted: float) -> str:
    return f"{'reached' if value >= wanted else 'MISSED '}  {what}: {value:.2f} (goal {wanted:g})"


def read(path: Path) -> Report | None:
    """None where there is no such file, or a stage that failed left it empty."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def main(arguments: Sequence[str]) -> None:
    folder = Path(arguments[0])
    if (report := read(folder / "bench.json")) is not None:
        print({key: value for key, value in report.items() if key != "rows"})
        print(bench.text(report["rows"]))
        print("\n".join(kernels(report)))
    if (report := read(folder / "tokens.json")) is not None:
        print({key: value for key, value in report.items() if key != "rows"})
        print("\n".join(tokens(report)))


if __name__ == "__main__":
    main(sys.argv[1:])
