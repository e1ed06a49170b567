"""Draw a run's curve as SVG, by hand: the loss over the steps, or accuracies over the slots.

    python model/train/plot.py .cache/train/drafter/metrics.jsonl --out loss.svg

This module knows nothing about training.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from loop import read_metrics

COLOURS = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed")
WIDTH, HEIGHT, MARGIN = 720, 400, 48

Point = tuple[float, float]


def curve(series: Mapping[str, Sequence[Point]], x_name: str, y_name: str) -> str:
    """An SVG picture of the series, each with its name. ValueError if there are no points at all."""
    points = [point for line in series.values() for point in line]
    if not points:
        raise ValueError("there is nothing to draw yet")
    x_low, x_high = min(x for x, _ in points), max(x for x, _ in points)
    y_low, y_high = min(0.0, *(y for _, y in points)), max(y for _, y in points)

    def place(x: float, y: float) -> str:
        right = MARGIN + (x - x_low) / ((x_high - x_low) or 1) * (WIDTH - 2 * MARGIN)
        down = HEIGHT - MARGIN - (y - y_low) / ((y_high - y_low) or 1) * (HEIGHT - 2 * MARGIN)
        return f"{right:.1f},{down:.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
        ' font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{WIDTH // 2}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x_name)}</text>',
        f'<text x="12" y="{MARGIN - 16}">{escape(y_name)}</text>',
    ]
    for n in range(6):
        x, y = x_low + (x_high - x_low) * n / 5, y_low + (y_high - y_low) * n / 5
        left, bottom = place(x_low, y).split(",")[1], place(x, y_low).split(",")[0]
        parts.append(f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{left}" y2="{left}" stroke="#e5e7eb"/>')
        parts.append(f'<text x="{MARGIN - 6}" y="{left}" text-anchor="end">{y:.3g}</text>')
        parts.append(f'<text x="{bottom}" y="{HEIGHT - MARGIN + 16}" text-anchor="middle">{x:.4g}</text>')
    for n, (name, line) in enumerate(series.items()):
        colour = COLOURS[n % len(COLOURS)]
        path = " ".join(place(x, y) for x, y in line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(f'<text x="{WIDTH - MARGIN - 150}" y="{MARGIN + 16 * n}" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def smoothed(points: Sequence[Point], n: int) -> list[Point]:
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
