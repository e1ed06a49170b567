"""Draw a run's curve as SVG: the loss over the steps, or accuracies over the slots.

    python model/train/plot.py .cache/train/drafter/metrics.jsonl --out loss.svg

This module knows nothing about training.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from loop import read_metrics

from mercury_lsp.evaluation.charts import curve


def smoothed(points: Sequence[tuple[float, float]], n: int) -> list[tuple[float, float]]:
    """The mean of each n points that follow one another."""
    groups = [points[at : at + n] for at in range(0, len(points), n)]
    return [(group[-1][0], sum(y for _, y in group) / len(group)) for group in groups]


def main() -> int:
    parser = argparse.ArgumentParser(description="Draw a run's loss.")
    parser.add_argument("metrics", type=Path, nargs="+", help="metrics.jsonl files, each a series")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--smooth", type=int, default=20, help="steps per point")
    options = parser.parse_args()
    series = {
        path.parent.name: smoothed([(line["step"], line["loss"]) for line in read_metrics(path)], options.smooth)
        for path in options.metrics
    }
    options.out.write_text(curve(series, "step", "loss, nats"), encoding="utf-8")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ValueError, OSError) as error:
        sys.exit(f"plot.py: {error}")
