# SPDX-License-Identifier: GPL-2.0
"""From samples to met, short or undecided.

The rounds of a cell are independent samples of a noisy machine. A ratio of two medians comes with a
95 % interval from resampling both sides (bootstrap, fixed seed). If all of the interval is on one
side of the target, the figure is decided; else it is not, and the interval says why.
"""

import random
import statistics
from dataclasses import dataclass

RESAMPLES = 2000
LEAST_ROUNDS = 3

PUT_TOGETHER = {
    "median": statistics.median,
    "mean": statistics.fmean,
    "max": max,
    "sum": sum,
}


@dataclass
class Verdict:
    """What is printed of a row."""

    word: str
    why: str = ""
    value: float = None
    zram: float = None
    floor: float = None
    ratio: float = None
    low: float = None
    high: float = None
    samples: list = None


class Samples:
    """All samples of a figure, from the guest's lines."""

    def __init__(self, lines):
        self.values = {}
        self.absent = {}
        self.failed = {}
        for line in lines:
            where = (line["cell"], line["kind"])
            if "values" in line:
                self.values.setdefault(where, {})[int(line["round"])] = line["values"]
            elif "absent" in line:
                self.absent[where] = line["absent"]
            else:
                why = line.get("premise") or line.get("error") or "?"
                self.failed.setdefault(where, []).append(why)

    def of(self, cell, kind, key):
        rounds = self.values.get((cell, kind), {})
        found = [values[key] for _, values in sorted(rounds.items()) if values.get(key) is not None]
        return [float(value) for value in found]


def interval(above, below, by, offset_above=0.0, offset_below=0.0, invert=False):
    """Returns the ratio and its 95 % interval; `below` None stands for 1."""
    put = PUT_TOGETHER[by]

    def ratio(a, b):
        top = put(a) - offset_above
        bottom = (put(b) - offset_below) if b is not None else 1.0
        if invert:
            top, bottom = bottom, top
        return top / bottom if bottom > 0 else float("inf")

    middle = ratio(above, below)
    rng = random.Random(1)
    tries = sorted(
        ratio(rng.choices(above, k=len(above)), rng.choices(below, k=len(below)) if below else below)
        for _ in range(RESAMPLES)
    )
    return middle, tries[int(RESAMPLES * 0.025)], tries[int(RESAMPLES * 0.975) - 1]


def judge(row, samples):
    """Judges one row of a figure."""
    put = PUT_TOGETHER[row.by]
    get = lambda cell, kind, key: [value * row.scale for value in samples.of(cell, kind, key)]
    own = get(row.cell, row.kind, row.key)
    zram = get(row.cell, "zram", row.key)
    floor = get(row.cell, "ram", row.key)
    verdict = Verdict("undecided", samples=own)
    verdict.zram = put(zram) if zram else None
    verdict.floor = put(floor) if floor else None
    if not own:
        where = (row.cell, row.kind)
        if where in samples.absent:
            verdict.word, verdict.why = "absent", samples.absent[where]
        elif where in samples.failed:
            verdict.why = "no round counted: " + samples.failed[where][-1]
        else:
            verdict.why = "not measured"
        return verdict
    verdict.value = put(own)
    if row.test == "tail":
        return judge_tail(row, verdict, own, floor)
    if row.test == "count":
        return judge_count(verdict, own, floor)
    if row.test == "looser":
        return judge_looser(row, verdict, own, get)
    minus = 0.0
    if row.minus is not None:
        bare = get(row.minus.cell, row.minus.kind, row.minus.key)
        if not bare:
            verdict.why = "the bare codec was not timed"
            return verdict
        minus = statistics.median(bare)
        verdict.value -= minus
        verdict.zram = verdict.zram - minus if zram else None
    if row.over is None:
        below = None
    elif isinstance(row.over, str):
        below = zram if row.over == "zram" else get(row.cell, row.over, row.key)
    else:
        below = get(row.over.cell, row.over.kind, row.over.key)
    if below is not None and not below:
        verdict.why = "nothing to compare with"
        return verdict
    verdict.ratio, verdict.low, verdict.high = interval(
        own, below, row.by, minus, minus, row.invert
    )
    decide(row, verdict, min(len(own), len(below) if below is not None else len(own)))
    if row.over is None and verdict.zram:
        # The target is a plain amount; the ratio is still what people want to see.
        verdict.low = verdict.high = None
        verdict.ratio = verdict.value / verdict.zram
    return verdict


def decide(row, verdict, rounds):
    if row.target is None:
        verdict.word = "measured"
        return
    # Two equal results are no accident; two that differ say little.
    if rounds < 2 or (rounds < LEAST_ROUNDS and verdict.low != verdict.high):
        verdict.why = f"only {rounds} round{'s' if rounds > 1 else ''}"
        return
    ends = [row.target.holds(verdict.low), row.target.holds(verdict.high)]
    if all(ends):
        verdict.word = "met"
    elif not any(ends):
        verdict.word = "short"
    else:
        verdict.why = f"95 % interval {verdict.low:.3g} to {verdict.high:.3g} holds the target"


def judge_tail(row, verdict, own, floor):
    """The slowest round within the limit times the median, or as near as the floor's own."""
    tail = lambda values: max(values) / statistics.median(values)
    verdict.ratio = verdict.low = verdict.high = tail(own)
    allowed = max(row.target.limit, tail(floor) if floor else 0)
    if len(own) < 5:
        verdict.why = f"only {len(own)} rounds"
    elif verdict.ratio <= allowed:
        verdict.word = "met"
    else:
        # One disturbance of the host makes one round slow: it takes two to say that we are.
        second = sorted(own)[-2] / statistics.median(own)
        verdict.word = "short" if second > allowed else "undecided"
        verdict.why = "" if second > allowed else "one round alone was slow"
    return verdict


def judge_count(verdict, own, floor):
    """Counts of rare events: no more than the floor has."""
    if not floor:
        verdict.why = "nothing to compare with"
        return verdict
    mine, theirs = sum(own), sum(floor) * len(own) / len(floor)
    verdict.ratio = mine / theirs if theirs else None
    # Two counts of rare events differ by twice this in one of twenty pairs.
    noise = 2 * (mine + theirs) ** 0.5
    if mine <= theirs:
        verdict.word = "met"
    elif mine > theirs + noise:
        verdict.word = "short"
    else:
        verdict.why = "the difference is within the noise of counting"
    return verdict


def judge_looser(row, verdict, own, get):
    """The median against the loosest of several limits."""
    sides = [(get(row.cell, kind, row.key), limit) for kind, limit in row.over]
    sides = [(values, limit) for values, limit in sides if values]
    if len(sides) < len(row.over):
        verdict.why = "nothing to compare with"
        return verdict
    rng = random.Random(1)
    again = lambda values: rng.choices(values, k=len(values))

    def ratio(pick):
        allowed = max(limit * statistics.median(pick(values)) for values, limit in sides)
        return statistics.median(pick(own)) / allowed

    verdict.ratio = ratio(lambda values: values)
    tries = sorted(ratio(again) for _ in range(RESAMPLES))
    verdict.low, verdict.high = tries[int(RESAMPLES * 0.025)], tries[int(RESAMPLES * 0.975) - 1]
    decide(row, verdict, len(own))
    return verdict


def amount(value, unit):
    """A number as people read it."""
    if value is None:
        return "-"
    size = abs(value)
    if size >= 1e6:
        text = f"{value / 1e6:.3g}M" if size < 1e9 else f"{value / 1e9:.3g}G"
    elif size >= 1000:
        text = f"{value:.0f}"
    else:
        text = f"{value:.3g}"
    return text + unit


def line(figure, row, verdict):
    """The printed line: ID name rzram=... zram=... ratio=... target=... word."""
    own = "absent" if verdict.word == "absent" else amount(verdict.value, row.unit)
    parts = [figure.id, row.name, f"rzram={own}", f"zram={amount(verdict.zram, row.unit)}"]
    if verdict.floor is not None:
        parts.append(f"floor={amount(verdict.floor, row.unit)}")
    ratio = "-" if verdict.ratio is None else f"{verdict.ratio:.3g}"
    if verdict.low is not None and verdict.low != verdict.high:
        ratio += f"[{verdict.low:.3g}..{verdict.high:.3g}]"
    parts.append(f"ratio={ratio}")
    parts.append(f"target={row.target if row.target else 'none'}")
    parts.append(verdict.word)
    if verdict.why:
        parts.append(f"({verdict.why})")
    return " ".join(parts)
