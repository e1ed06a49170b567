"""Draws series of points as SVG, by hand: the one way in which this project draws plots.

Readable on light and dark pages: text, lines and ground follow the reader's colour scheme, series differ by colour and
by the shape of their marks. It knows nothing about what the numbers mean.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape

Point = tuple[float, float] | tuple[float, float, float, float]
"""(x, y), or (x, y, low, high) with the spread of y."""

COLOURS = ("#2f81f7", "#e5484d", "#12a594", "#d97706", "#8e4ec6", "#d6409f", "#0e9bb3", "#7a9d0f")
WIDTH, HEIGHT, MARGIN = 720, 400, 48
LEGEND = 190
"""Room right of the plot for the names of the series: there they lie on no point."""
N_TICKS = 6
"""About so many per axis, at round numbers."""

STYLE = (
    "<style>text{fill:#1f2328}.ground{fill:#fff}.grid{stroke:#d8dee4}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.ground{fill:#0d1117}.grid{stroke:#30363d}}</style>"
)


def curve(
    series: Mapping[str, Sequence[Point]],
    x_name: str,
    y_name: str,
    *,
    lines: bool = True,
    marks: bool = False,
    log_x: bool = False,
    ticks: Mapping[float, str] | None = None,
) -> str:
    """An SVG picture of the series, each with its name. ValueError if there are no points at all.

    lines: join the points of a series. marks: draw the points themselves, with their spread. log_x: x grows by
    factors; all of them are above 0. ticks: places on the x axis and what stands there, instead of even ones.
    """
    points = [point for line in series.values() for point in line]
    if not points:
        raise ValueError("there is nothing to draw yet")
    scale = math.log if log_x else float
    across = [scale(point[0]) for point in points]
    up = [y for point in points for y in point[1:]]
    x_ticks = dict(ticks) if ticks else _log_ticks(across) if log_x else {x: _text(x) for x in _round_ticks(across)}
    across += map(scale, x_ticks)
    x_low, x_high = min(across), max(across)
    y_ticks = _round_ticks([0.0, *up])
    y_low, y_high = y_ticks[0], y_ticks[-1]
    right_edge = WIDTH - LEGEND

    def place(x: float, y: float) -> tuple[float, float]:
        right = MARGIN + 12 + (scale(x) - x_low) / ((x_high - x_low) or 1) * (right_edge - MARGIN - 24)
        return right, HEIGHT - MARGIN - (y - y_low) / ((y_high - y_low) or 1) * (HEIGHT - 2 * MARGIN)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
        f' font-size="12">{STYLE}',
        f'<rect width="{WIDTH}" height="{HEIGHT}" class="ground"/>',
        f'<text x="{(MARGIN + right_edge) // 2}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x_name)}</text>',
        f'<text x="12" y="{MARGIN - 20}">{escape(y_name)}</text>',
    ]
    for y in y_ticks:
        down = place(points[0][0], y)[1]
        parts.append(f'<line x1="{MARGIN}" x2="{right_edge}" y1="{down:.1f}" y2="{down:.1f}" class="grid"/>')
        parts.append(f'<text x="{MARGIN - 6}" y="{down + 4:.1f}" text-anchor="end">{_text(y)}</text>')
    for x, name in x_ticks.items():
        right = place(x, y_low)[0]
        parts.append(f'<text x="{right:.1f}" y="{HEIGHT - MARGIN + 16}" text-anchor="middle">{escape(name)}</text>')
    for n, (name, line) in enumerate(series.items()):
        colour = COLOURS[n % len(COLOURS)]
        if lines:
            path = " ".join(f"{right:.1f},{down:.1f}" for right, down in (place(p[0], p[1]) for p in line))
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        for point in line if marks else ():
            right, down = place(point[0], point[1])
            if len(point) == 4:
                low, high = place(point[0], point[2])[1], place(point[0], point[3])[1]
                parts.append(
                    f'<line x1="{right:.1f}" x2="{right:.1f}" y1="{low:.1f}" y2="{high:.1f}" stroke="{colour}"'
                    ' stroke-opacity="0.5"/>'
                )
            parts.append(_mark(n, right, down, colour))
        parts.append(_mark(n, right_edge + 14, MARGIN + 18 * n - 4, colour))
        parts.append(f'<text x="{right_edge + 24}" y="{MARGIN + 18 * n}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _round_ticks(values: Sequence[float]) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten from below the values to above them."""
    low, high = min(values), max(values)
    rough = (high - low) / (N_TICKS - 1) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    return [n * step for n in range(math.floor(low / step), math.ceil(high / step - 1e-9) + 1)]


def _log_ticks(logarithms: Sequence[float]) -> dict[float, str]:
    low, high = min(logarithms), max(logarithms)
    places = [math.exp(low + (high - low) * n / (N_TICKS - 1)) for n in range(N_TICKS)]
    return {x: f"{x:.3g}" for x in places}


def _text(value: float) -> str:
    return f"{value:,.6g}"


def _mark(n: int, right: float, down: float, colour: str) -> str:
    """A small circle, square, triangle or diamond around a place."""
    if n % 4 == 0:
        return f'<circle cx="{right:.1f}" cy="{down:.1f}" r="4" fill="{colour}"/>'
    corners = (
        ((-4, -4), (4, -4), (4, 4), (-4, 4)),
        ((0, -5), (5, 4), (-5, 4)),
        ((0, -5), (5, 0), (0, 5), (-5, 0)),
    )[n % 4 - 1]
    path = " ".join(f"{right + x:.1f},{down + y:.1f}" for x, y in corners)
    return f'<polygon points="{path}" fill="{colour}"/>'
