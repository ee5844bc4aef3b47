# SPDX-License-Identifier: GPL-2.0
"""Words of the bench: boots, cells, rows, figures.

A *figure* has the id that people ask for (P1). It is measured in *cells*: one workload with its
numbers, run for several *kinds* (drivers) in several rounds, all in one *boot*. *Rows* are what is
printed: a value out of a cell, compared with something, against a target.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Boot:
    """A guest: everything measured in one is comparable."""

    kernel: str = "uml"
    cpus: int = 2
    mem: str = "3G"

    @property
    def name(self):
        return f"{self.kernel}-{self.cpus}-{self.mem}"


@dataclass(frozen=True)
class Cell:
    """One workload. `words` go into the plan as they are."""

    name: str
    words: dict
    kinds: tuple = ("zram", "rzram", "ram")
    boot: Boot = Boot()
    # Rounds; `quick` of them with --quick. A figure that cannot vary needs few.
    rounds: int = 10
    quick: int = 5
    # Expected seconds of one job, until better is known.
    seconds: float = 3.0
    # Cells of one group share filled disks, so a group's rounds are run before the next group's.
    group: str = ""
    # Left out by --quick.
    long: bool = False
    # Words that --quick changes.
    quick_words: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Series:
    """The samples of one value: of a cell, a kind, and the key in the guest's line."""

    cell: str
    kind: str
    key: str


@dataclass(frozen=True)
class Target:
    """`ratio sense limit`; `slack` is the part by which noise may touch the limit."""

    sense: str
    limit: float
    text: str = ""

    def __str__(self):
        return self.text or f"{self.sense}{self.limit:g}"

    def holds(self, ratio):
        return ratio <= self.limit if self.sense == "<=" else ratio >= self.limit


@dataclass(frozen=True)
class Row:
    """One printed line.

    The ratio is value / over, or the inverse of it. `over` is "zram" or "ram" (the same cell and
    key), a Series, or None: then the value itself is held against the target. `minus` is taken off
    both sides first.
    """

    name: str
    cell: str
    key: str
    unit: str = ""
    over: object = "zram"
    invert: bool = False
    target: object = None
    minus: object = None
    # How the rounds are put together: median, mean, max, sum.
    by: str = "median"
    # For a floor that may stand in for the limit: the slowest round of P1.
    kind: str = "rzram"
    # A test of its own: "tail" compares slowest/median with the floor's.
    test: str = "ratio"
    scale: float = 1.0


@dataclass(frozen=True)
class Figure:
    """One id."""

    id: str
    title: str
    cells: tuple
    rows: tuple
    method: str
    # What the report draws: list of (kind of plot, title, arguments).
    plots: tuple = field(default=())
    # What has to be there before: "pages" are the real memory pages.
    needs: tuple = ()

    def cell(self, name):
        return next((cell for cell in self.cells if cell.name == name), None)
