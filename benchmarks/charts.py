"""Line charts as SVG that a document can show; lines are labelled at their ends."""

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, floor, log10
from pathlib import Path

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 380, 78, 190, 46, 52
COLOURS = ("#0b6e99", "#b3261e", "#3a7d22", "#7b4bb7", "#a65e00", "#555555", "#00796b")

Points = Sequence[tuple[float, float]]


def line_chart(
    file: Path, title: str, x_label: str, y_label: str, lines: Mapping[str, Points], log: bool
) -> None:
    """Draw the lines; on a logarithmic axis zeros stand at its lower end."""
    xs = [x for points in lines.values() for x, _ in points]
    ys = [y for points in lines.values() for _, y in points if y > 0 or not log]
    low, high = (10 ** floor(log10(min(ys))), 10 ** ceil(log10(max(ys)))) if log else (0, max(ys))

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - min(xs)) / (max(xs) - min(xs))
        up = log10(max(y, low) / low) / log10(high / low) if log else y / high
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * plot_height()

    ticks = decades(low, high) if log else [high * i / 4 for i in range(5)]
    parts = [head(title), *axes(x_label, y_label)]
    parts += [tick(LEFT - 8, place(min(xs), y)[1] + 4, f"{y:.3g}", "end") for y in ticks]
    parts += [grid(place(min(xs), y)[1]) for y in ticks]
    parts += [tick(place(x, low)[0], HEIGHT - BOTTOM + 18, f"{x:,.0f}") for x in sorted(set(xs))]
    ends = spread([place(*points[-1])[1] for points in lines.values()])
    for (name, points), end, colour in zip(lines.items(), ends, COLOURS, strict=False):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
        parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{path}"/>'
            f'<text x="{WIDTH - RIGHT + 8}" y="{end + 4:.1f}" fill="{colour}">{escape(name)}</text>'
        )
    file.write_text("\n".join([*parts, "</svg>\n"]), encoding="utf-8")


def plot_height() -> int:
    return HEIGHT - TOP - BOTTOM


def decades(low: float, high: float) -> list[float]:
    return [10.0**i for i in range(round(log10(low)), round(log10(high)) + 1)]


def spread(heights: Sequence[float], gap: float = 16) -> list[float]:
    """Heights of labels, moved apart where they would overlap; in the order given."""
    placed: dict[int, float] = {}
    last = -gap
    for i in sorted(range(len(heights)), key=heights.__getitem__):
        last = placed[i] = max(heights[i], last + gap)
    return [placed[i] for i in range(len(heights))]


def head(title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="12" role="img">\n<title>{escape(title)}</title>\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>\n'
        f'<text x="{LEFT}" y="24" font-size="14" fill="#222222">{escape(title)}</text>'
    )


def axes(x_label: str, y_label: str) -> list[str]:
    middle = (LEFT + WIDTH - RIGHT) / 2
    return [
        f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle" fill="#222222">'
        f"{escape(x_label)}</text>",
        f'<text transform="translate(16,{HEIGHT / 2}) rotate(-90)" text-anchor="middle" '
        f'fill="#222222">{escape(y_label)}</text>',
    ]


def tick(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#444444">{text}</text>'


def grid(y: float) -> str:
    right = WIDTH - RIGHT
    return f'<line x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>'
