"""Draws what a server held and did in the course of a soak, as one SVG on standard output.

usage: soak_graph.py SOAK_JSON CHANGES_TSV

The first file is what `nyala bench --json` wrote, the second what run.sh did meanwhile: seconds, 1 or 0 for whether it
went well, and the statement.
"""

import csv
import json
import math
import pathlib
import sys
from collections.abc import Iterable
from html import escape

WIDTH, HEIGHT = 480, 190
LEFT, RIGHT, TOP, BOTTOM = 56, 22, 30, 24
COLUMNS = 2
# Looks that are drawn of longer runs; more would not be seen, and the file is to stay small.
LOOKS = 360
# To be told apart by everyone (Okabe and Ito).
COLORS = ("#0072b2", "#d55e00")

Points = list[tuple[float, float]]


def held(course: list[dict], key: str, unit: float = 1) -> Points:
    return [(look["at_seconds"], look[key] / unit) for look in course if look[key] is not None]


def rates(course: list[dict]) -> Points:
    """Queries a second since the look before."""
    return [
        (now["at_seconds"], (now["ended"] - before["ended"]) / (now["at_seconds"] - before["at_seconds"]))
        for before, now in zip(course, course[1:])
    ]


def so_far(course: list[dict], times: list[float]) -> Points:
    """How many of the times, which ascend, had come at each look."""
    points, count = [], 0
    for look in course:
        while count < len(times) and times[count] <= look["at_seconds"]:
            count += 1
        points.append((look["at_seconds"], count))
    return points


def step_of(high: float) -> float:
    """A round distance that makes at most five of the height."""
    decade = 10 ** math.floor(math.log10(high / 5))
    return next(factor * decade for factor in (1, 2, 5, 10, 20) if factor * decade >= high / 5)


def panel(title: str, lines: dict[str, Points], seconds: float) -> str:
    """Lines from zero up, over the minutes of the run."""
    highest = max((value for points in lines.values() for _, value in points), default=0) or 1
    step = step_of(highest)
    high = step * math.ceil(highest / step)
    x = lambda at: LEFT + (WIDTH - LEFT - RIGHT) * at / seconds
    y = lambda value: HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / high
    parts = [f'<text x="{LEFT}" y="16" class="t">{escape(title)}</text>']
    for tick in range(round(high / step) + 1):
        level = y(tick * step)
        parts.append(f'<path class="g" d="M{LEFT} {level:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{level + 4:.1f}" text-anchor="end">{tick * step:,.10g}</text>')
    for sixth in range(7):
        minutes, place = seconds * sixth / 360, x(seconds * sixth / 6)
        parts.append(f'<text x="{place:.1f}" y="{HEIGHT - 6}" text-anchor="middle">{minutes:.3g} min</text>')
    for color, (name, points) in zip(COLORS, lines.items()):
        drawn = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in points)
        parts.append(f'<polyline stroke="{color}" points="{drawn}"><title>{escape(name)}</title></polyline>')
    if len(lines) > 1:
        names = zip(COLORS, lines)
        legend = " ".join(f'<tspan fill="{color}">{escape(name)}</tspan>' for color, name in names)
        parts.append(f'<text x="{WIDTH - RIGHT}" y="16" text-anchor="end">{legend}</text>')
    return "".join(parts)


def drawing(title: str, panels: Iterable[str]) -> str:
    panels = list(panels)
    width, height = COLUMNS * WIDTH, -(-len(panels) // COLUMNS) * HEIGHT + 28
    placed = "\n".join(
        f'<g transform="translate({place % COLUMNS * WIDTH} {place // COLUMNS * HEIGHT + 28})">{panel}</g>'
        for place, panel in enumerate(panels)
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">
<style>text{{font:11px sans-serif;fill:#444}}.t{{font:bold 13px sans-serif}}.g{{stroke:#d8dee4}}
polyline{{fill:none;stroke-width:1.5}}</style>
<rect width="100%" height="100%" fill="#fff"/><text x="{LEFT}" y="18" class="t">{escape(title)}</text>
{placed}
</svg>
"""


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(next(line for line in __doc__.splitlines() if line.startswith("usage")))
    report = json.loads(pathlib.Path(sys.argv[1]).read_text())
    run = report["runs"][0]
    course, total = run["course"], run["total"]
    if not course:
        sys.exit(f"`{sys.argv[1]}` has no course: give `--server-pid` and a `--duration` of 30s or more")
    course = course[:: math.ceil(len(course) / LOOKS)]
    with open(sys.argv[2], newline="") as file:
        changes = list(csv.DictReader(file, delimiter="\t"))
    times = lambda ok: [float(change["at_seconds"]) for change in changes if change["ok"] == ok]
    seconds = report["setup"]["duration_seconds"]
    panels = [
        ("Memory in MB", {
            "resident": held(course, "resident_bytes", 1e6),
            "proportional": held(course, "memory_bytes", 1e6),
        }),
        ("Queries per second", {"queries": rates(course)}),
        ("Threads", {"threads": held(course, "threads")}),
        ("Open files and sockets", {"open": held(course, "open_files")}),
        ("Statements that change cubes, so far", {"done": so_far(course, times("1"))}),
        ("Errors, so far", {"queries": held(course, "errors"), "changes": so_far(course, times("0"))}),
    ]
    title = (
        f"{report['setup']['workload']}, {run['clients']} clients, {report['date']}: {total['handled']:,} queries, "
        f"{total['errors']} errors; {len(changes):,} changes of cubes, {len(times('0'))} errors"
    )
    print(drawing(title, (panel(name, lines, seconds) for name, lines in panels)), end="")


if __name__ == "__main__":
    main()
