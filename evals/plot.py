"""Draws the comparison as an SVG: per kind of case, how much was wrongly merged by which system.

matplotlib draws it; the file is the same for the same figures (fixed hash salt, no date).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from evals.score import SYSTEMS

COLOURS = {"agent": "#b45309", "team": "#6d28d9", "workflow": "#047857"}
WIDTH = 0.27


def draw(kinds: Mapping[str, Mapping[str, list[int]]], place: Path) -> None:
    """Write the plot; `kinds` holds resolved, wrongly merged and cases per kind and system."""
    mpl.rcParams["svg.hashsalt"] = "ultracode"
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.subplots()
    for offset, name in enumerate(SYSTEMS):
        places = [number + (offset - 1) * WIDTH for number in range(len(kinds))]
        heights = [counts[name][1] for counts in kinds.values()]
        bars = axes.bar(places, heights, WIDTH, label=name, color=COLOURS[name])
        axes.bar_label(bars)
    labels = [f"{kind}\n({max(c[2] for c in counts.values())})" for kind, counts in kinds.items()]
    axes.set_xticks(range(len(kinds)), labels)
    axes.set_ylabel("wrongly merged")
    axes.set_title("What landed and should not have, by who is hostile (number of cases)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(place, format="svg", metadata={"Date": None})
