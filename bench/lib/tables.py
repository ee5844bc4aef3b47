# SPDX-License-Identifier: GPL-2.0
"""The same numbers as Markdown tables, in Documentation/benchmarks.md.

The page is written by hand except between `<!-- begin ID -->` and `<!-- end ID -->`: there stand the
method and the table of that figure, put in by `make bench`.
"""

import re
import textwrap

from .figures import FIGURES
from .judge import amount


def plain(text):
    return re.sub(r"\s+", " ", text).strip()


def table(rows):
    """One row of Markdown for each row of a figure, as results.json has it."""
    lines = ["| figure | rzram | C zram | floor | ratio (95 %) | target | |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        ratio = "-" if row["ratio"] is None else f"{row['ratio']:.3g}"
        low, high = row["interval"]
        if low is not None and low != high:
            ratio += f" ({low:.3g} to {high:.3g})"
        own = "absent" if row["verdict"] == "absent" else amount(row["rzram"], row["unit"])
        verdict = row["verdict"] + (f": {row['why']}" if row["why"] and row["verdict"] != "absent" else "")
        cells = [row["name"], own, amount(row["zram"], row["unit"]), amount(row["floor"], row["unit"]),
                 ratio, row["target"], verdict]
        lines.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    return "\n".join(lines)


def origin(results):
    """Where the numbers of a section come from: sections may be of different runs."""
    machine = results["machine"]
    kernels = ", ".join(sorted(set(results["kernels"].values()))) or "see results.json"
    mode = "quick" if results["quick"] else "full"
    return textwrap.fill(
        f"Measured at commit {machine['commit']} in {mode} mode on {machine['cpus']} CPUs"
        f" ({machine['cpu']}), guest kernels {kernels}.", 100)


def section(figure, rows, results):
    method = textwrap.fill(plain(figure.method), 100)
    if not rows:
        return f"{method}\n\nNot measured yet.\n"
    return f"{method}\n\n{table(rows)}\n\n{origin(results)}\n"


def fill(page, results):
    """Returns the page with the sections of the measured figures replaced."""
    for figure in FIGURES.values():
        rows = [row for row in results["figures"] if row["id"] == figure.id]
        pattern = re.compile(rf"(<!-- begin {figure.id} -->\n).*?(<!-- end {figure.id} -->)", re.S)
        if rows or f"<!-- begin {figure.id} -->\n<!-- end" in page:
            text = section(figure, rows, results)
            page = pattern.sub(lambda found: found.group(1) + text + found.group(2), page)
    return page
