# SPDX-License-Identifier: GPL-2.0
"""The report's plots, as SVG text. Needs matplotlib; only the report does."""

import io
import statistics

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

COLORS = {"zram": "#c2504d", "rzram": "#2f6fb0", "ram": "#8a8f94",
          "rzram-sync": "#7fb2e5", "rzram-batch": "#4f8fce", "codec": "#6a9a58"}
LABELS = {"ram": "RAM disk", "rzram-sync": "rzram, frees at once", "rzram-batch": "rzram, batches"}

plt.rcParams.update({
    "font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.alpha": 0.3, "legend.frameon": False, "svg.fonttype": "none", "svg.hashsalt": "rzram",
})


def svg(figure):
    """The finished plot, without the XML header, so that it can stand in HTML."""
    out = io.StringIO()
    figure.savefig(out, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    text = out.getvalue()
    return text[text.index("<svg"):]


def kinds_in(lines):
    found = {line["kind"] for line in lines if "values" in line}
    return [kind for kind in COLORS if kind in found]


def values(lines, cell, kind, key):
    return [line["values"][key] for line in lines
            if line["cell"] == cell and line["kind"] == kind and key in line.get("values", {})
            and line["values"][key] is not None]


def draw_bars(axis, lines, cells, key, labels=None):
    """Grouped bars of medians; the whisker goes from the least to the most."""
    kinds = [kind for kind in kinds_in(lines) if any(values(lines, cell, kind, key) for cell in cells)]
    width = 0.8 / max(1, len(kinds))
    for number, kind in enumerate(kinds):
        for place, cell in enumerate(cells):
            found = values(lines, cell, kind, key)
            if not found:
                continue
            middle = statistics.median(found)
            at = place + (number - (len(kinds) - 1) / 2) * width
            axis.bar(at, middle, width * 0.94, color=COLORS[kind],
                     label=LABELS.get(kind, kind) if place == 0 else None)
            axis.errorbar(at, middle, [[middle - min(found)], [max(found) - middle]],
                          color="#222222", capsize=2, linewidth=0.8)
    axis.set_xticks(range(len(cells)), labels or cells)


def cells_with(lines, key):
    return list(dict.fromkeys(line["cell"] for line in lines if key in line.get("values", {})))


def legend(axis):
    handles, labels = axis.get_legend_handles_labels()
    first = dict(zip(labels[::-1], handles[::-1]))
    axis.legend(list(first.values())[::-1], list(first)[::-1], loc="best")


def bars(lines, title, key, unit, log):
    cells = cells_with(lines, key)
    if not cells:
        return ""
    figure, axis = plt.subplots(figsize=(max(5, 1.4 * len(cells) + 2), 3.6))
    draw_bars(axis, lines, cells, key)
    if log:
        axis.set_yscale("log")
    axis.set_ylabel(unit or key)
    axis.set_title(title)
    legend(axis)
    return svg(figure)


def curves(lines, title, cell, unit):
    """The share of the pool that is still there, every round as a thin line."""
    figure, axis = plt.subplots(figsize=(7.5, 3.8))
    drawn = set()
    for line in lines:
        if line["cell"] != cell or not line.get("series"):
            continue
        points, kind = line["series"], line["kind"]
        full = max(point[1] for point in points) or 1
        axis.plot([max(0, point[0]) for point in points], [100 * point[1] / full for point in points],
                  color=COLORS.get(kind, "#000000"), linewidth=0.8, alpha=0.7,
                  label=None if kind in drawn else LABELS.get(kind, kind))
        drawn.add(kind)
    if not drawn:
        plt.close(figure)
        return ""
    ends = [line["values"]["t99_ms"] for line in lines if "t99_ms" in line.get("values", {})]
    axis.set_xlim(0, 3 * statistics.median(ends) if ends else None)
    axis.set_xlabel(f"{unit} since the start of munmap")
    axis.set_ylabel("pool, per cent")
    axis.set_title(title)
    axis.legend()
    return svg(figure)


def tail(pairs):
    """Latency against the share of operations that took longer."""
    total = sum(count for _, count in pairs)
    left, x, y = total, [], []
    for end, count in sorted(pairs):
        x.append(end / 1e6)
        left -= count
        y.append(max(left, 0.5) / total)
    return x, y


def latency(lines, title, _key, _unit):
    """For each cell, how often an operation takes longer than so much; the longest is marked."""
    cells = list(dict.fromkeys(line["cell"] for line in lines if line.get("histogram")))
    if not cells:
        return ""
    columns = min(2, len(cells))
    rows = -(-len(cells) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(5.4 * columns, 3.4 * rows), squeeze=False)
    for axis, cell in zip(axes.flat, cells):
        for kind in kinds_in(lines):
            joined = {}
            for line in lines:
                if line["cell"] == cell and line["kind"] == kind:
                    for end, count in line.get("histogram", []):
                        joined[end] = joined.get(end, 0) + count
            if not joined:
                continue
            x, y = tail(joined.items())
            axis.plot(x, y, color=COLORS[kind], label=LABELS.get(kind, kind))
            longest = max(values(lines, cell, kind, "longest_ms"))
            axis.plot([longest], [y[-1]], "o", color=COLORS[kind], markersize=5)
            axis.annotate(f"{longest:.3g} ms", (longest, y[-1]), textcoords="offset points",
                          xytext=(0, 6), ha="right", fontsize=8, color=COLORS[kind])
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("ms")
        axis.set_ylabel("share that took longer")
        axis.set_title(cell)
        axis.legend(fontsize=8)
    for axis in list(axes.flat)[len(cells):]:
        axis.set_visible(False)
    figure.suptitle(title)
    figure.tight_layout()
    return svg(figure)


def grid(lines, title, key, unit):
    """One panel for each codec and set of data; cells are named codec-data-phase-jobs."""
    cells = [cell for cell in cells_with(lines, key)]
    panels = {}
    for cell in cells:
        codec, data, phase, jobs = split(cell)
        panels.setdefault(f"{codec}, {data}", []).append((cell, f"{phase}\n{jobs}"))
    if not panels:
        return ""
    figure, axes = plt.subplots(len(panels), 1, squeeze=False, figsize=(11, 3.1 * len(panels)))
    for axis, (name, members) in zip(axes.flat, panels.items()):
        draw_bars(axis, lines, [cell for cell, _ in members], key, [label for _, label in members])
        axis.tick_params(axis="x", labelsize=7)
        axis.set_ylabel(unit)
        axis.set_title(name, fontsize=10)
        legend(axis)
    figure.suptitle(title)
    figure.tight_layout()
    return svg(figure)


def split(cell):
    """Takes codec-data-phase-jobs apart; codec and phase may have a dash themselves."""
    for data in ("real", "const", "c11"):
        if f"-{data}-" in cell:
            codec, rest = cell.split(f"-{data}-", 1)
            phase, jobs = rest.rsplit("-", 1)
            return codec, data, phase, jobs
    return cell, "", "", ""


DRAW = {"bars": bars, "curves": curves, "latency": latency, "grid": grid}
