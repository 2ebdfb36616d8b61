"""Line charts as SVG, for light and dark pages. The horizontal axis is logarithmic, the vertical one starts at 0."""

from __future__ import annotations

import math
from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 56, 52
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f; }
.title { font-weight: 600; font-size: 15px; }
.grid { stroke: #d0d7de; } .line { fill: none; stroke-width: 2.5; }
.s0 { stroke: #0969da; } .f0 { fill: #0969da; } .s1 { stroke: #bc4c00; } .f1 { fill: #bc4c00; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; } .grid { stroke: #30363d; }
.s0 { stroke: #58a6ff; } .f0 { fill: #58a6ff; } .s1 { stroke: #ffa657; } .f1 { fill: #ffa657; }
}"""


def short(number: float) -> str:
    """1000000 as "1M"."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:g}{unit}"
    return f"{number:g}"


def ticks(most: float) -> list[float]:
    """Four to eight round steps from 0 to at least `most`."""
    power = 10 ** math.floor(math.log10(most))
    step = next(part * power for part in (0.2, 0.5, 1, 2) if most / (part * power) <= 7)
    return [index * step for index in range(math.ceil(most / step) + 1)]


def draw_chart(file: Path, title: str, across: str, up: str, lines: dict[str, list[tuple[float, float]]]) -> None:
    """One or two labelled lines through points of size and value."""
    sizes = sorted({size for points in lines.values() for size, _ in points})
    steps = ticks(max(max(value for points in lines.values() for _, value in points), 1e-9))
    low, high = math.log10(sizes[0]), math.log10(sizes[-1])

    def x(size: float) -> float:
        return LEFT + (math.log10(size) - low) / ((high - low) or 1) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - value / steps[-1] * (HEIGHT - TOP - BOTTOM)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">']
    parts += [f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", text(LEFT, 20, title, "start", "title")]
    for step in steps:
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(step):.1f}" y2="{y(step):.1f}"/>')
        parts.append(text(LEFT - 8, y(step) + 4, f"{step:g}", "end"))
    for size in sizes:
        parts.append(text(x(size), HEIGHT - BOTTOM + 20, short(size), "middle"))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, across, "middle"))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(f'<text x="16" y="{middle}" text-anchor="middle" transform="rotate(-90 16 {middle})">{escape(up)}</text>')
    for index, (label, points) in enumerate(lines.items()):
        path = " ".join(f"{x(size):.1f},{y(value):.1f}" for size, value in points)
        parts.append(f'<polyline class="line s{index}" points="{path}"/>')
        parts += [f'<circle class="f{index}" cx="{x(size):.1f}" cy="{y(value):.1f}" r="4"/>' for size, value in points]
        begin = LEFT + index * (WIDTH - LEFT - RIGHT) / 2
        parts.append(f'<circle class="f{index}" cx="{begin + 4}" cy="36" r="4"/>')
        parts.append(text(begin + 14, 40, label, "start"))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join([*parts, "</svg>"]) + "\n")


def text(x: float, y: float, said: str, anchor: str, kind: str = "label") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(said)}</text>'
