# SPDX-License-Identifier: GPL-2.0
"""Running what is to be measured, and keeping it.

The state folder in the cache holds `samples.jsonl`, to which the guest appends, and `state.json`.
One folder belongs to one set of sources and one mode, so that numbers of different drivers never mix.
What an interrupted run measured is kept; the same command resumes it.
"""

import json
import os
import shutil
import subprocess
import sys
import time

from . import machine
from .figures import FIGURES

PAGES_MB = 420
ATTEMPTS = 3
# In a log, a progress line this often is enough.
LOG_SECONDS = 15
BOOT_SECONDS = {"uml": 4, "stock": 15}


class Problem(Exception):
    """Something the user has to know; one clear sentence."""


class Progress:
    """One line that says where the run is and how long it will take."""

    def __init__(self, total_seconds):
        self.left = total_seconds
        self.factor = 1.0
        self.spent = self.expected = 0.0
        self.terminal = sys.stderr.isatty()
        self.shown = 0.0

    def show(self, text):
        minutes = max(1, round(self.left * self.factor / 60))
        line = f"bench: {text}, about {minutes} min left"
        if self.terminal:
            sys.stderr.write(f"\r{line[:110]:<110}")
        elif time.monotonic() - self.shown > LOG_SECONDS:
            self.shown = time.monotonic()
            sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def done(self, expected, took):
        self.left = max(0.0, self.left - expected)
        self.spent += took
        self.expected += expected
        if self.expected > 20:
            self.factor = self.spent / self.expected

    def end(self):
        if self.terminal:
            sys.stderr.write("\n")


class Run:
    """One call of bench/run."""

    def __init__(self, ids, rounds, quick, build=True):
        self.ids = ids
        self.rounds = rounds
        self.quick = quick
        self.build = build
        self.built = set()
        self.notes = []
        self.kernels = {}
        mode = "quick" if quick else "full"
        if rounds:
            mode += f"-{rounds}"
        self.about = machine.describe()
        self.folder = machine.cache() / "bench" / f"{self.about['sources']}-{mode}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.samples_path = self.folder / "samples.jsonl"
        self.state_path = self.folder / "state.json"
        self.loads = []

    # --- state -----------------------------------------------------------------------------------

    def lines(self):
        """All samples so far; a line cut off by an interruption is left out."""
        found = []
        for text in machine.read(self.samples_path).splitlines():
            try:
                found.append(json.loads(text.strip("\0")))
            except ValueError:
                continue
        return found

    def show_latest(self):
        """For looking only: takes the newest samples of this mode if these sources have none."""
        if self.samples_path.exists():
            return
        mode = self.folder.name.split("-", 1)[1]
        others = self.folder.parent.glob(f"*-{mode}/samples.jsonl")
        others = sorted(others, key=lambda path: path.stat().st_mtime)
        if others:
            self.samples_path = others[-1]
            print(f"bench: these sources were not measured; showing {others[-1].parent.name}",
                  file=sys.stderr)

    def begin(self):
        """Resumes the last run if it was the same and did not end; else clears its figures."""
        try:
            state = json.loads(self.state_path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            state = {"ids": [], "ended": True}
        if not state["ended"] and set(self.ids) <= set(state["ids"]):
            self.ids = [name for name in FIGURES if name in state["ids"]]
            kept = sum(1 for line in self.lines() if line["id"] in self.ids)
            if kept:
                print(f"bench: resuming the interrupted run of {' '.join(self.ids)};"
                      f" {kept} measurements are there already", file=sys.stderr)
        else:
            self.keep([line for line in self.lines() if line["id"] not in self.ids])
        self.save(False)

    def keep(self, lines):
        new = self.samples_path.with_suffix(".new")
        new.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        os.replace(new, self.samples_path)

    def save(self, ended):
        state = {"ids": self.ids, "ended": ended, "about": self.about}
        self.state_path.write_text(json.dumps(state), encoding="utf-8")

    # --- what is to be done ----------------------------------------------------------------------

    def rounds_of(self, cell):
        return self.rounds or (cell.quick if self.quick else cell.rounds)

    def cells(self, figure):
        return [cell for cell in figure.cells if not (self.quick and cell.long)]

    def jobs(self, figure, boot):
        """All jobs of a figure in one boot, in order: group, round, cell, driver."""
        cells = [cell for cell in self.cells(figure) if cell.boot == boot]
        groups = list(dict.fromkeys(cell.group for cell in cells))
        for group in groups:
            members = [cell for cell in cells if cell.group == group]
            for number in range(max(self.rounds_of(cell) for cell in members)):
                for cell in members:
                    if number >= self.rounds_of(cell):
                        continue
                    # Turning the order around each time cancels what drifts.
                    kinds = cell.kinds if number % 2 == 0 else cell.kinds[::-1]
                    for kind in kinds:
                        yield cell, kind, number

    def missing(self, figure, boot):
        """The jobs that have no result yet."""
        have = set()
        for line in self.lines():
            if line["id"] == figure.id and line.get("boot") == boot.name:
                if "values" in line or "absent" in line:
                    have.add((line["cell"], line["kind"], int(line["round"])))
        return [job for job in self.jobs(figure, boot) if (job[0].name, job[1], job[2]) not in have]

    def boots(self, figure):
        return list(dict.fromkeys(cell.boot for cell in self.cells(figure)))

    def seconds(self, cell):
        quick = cell.quick_words.get("secs") if self.quick else None
        return quick + 2 if quick else cell.seconds

    def expected(self, figure):
        total = 0.0
        for boot in self.boots(figure):
            jobs = self.missing(figure, boot)
            total += BOOT_SECONDS[boot.kernel] if jobs else 0
            total += sum(self.seconds(cell) for cell, _, _ in jobs)
        return total

    def words(self, figure, boot, cell, kind, number):
        words = {"id": figure.id, "boot": boot.name, "cell": cell.name, "kind": kind, "round": number}
        words.update(cell.words)
        if self.quick:
            words.update(cell.quick_words)
        parameter = {"rzram-sync": "deferred_free=0", "rzram-batch": "deferred_free=1"}.get(kind)
        if parameter:
            words["param"] = parameter
        return " ".join(f"{key}={value}" for key, value in words.items())

    # --- guests ----------------------------------------------------------------------------------

    def in_root(self, *command, log="bench"):
        path = machine.cache() / "log" / f"{log}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            status = subprocess.call([machine.TOP / "tools/setup", "shell", "--", *command],
                                     stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        if status != 0:
            tail = "\n".join(machine.read(path).splitlines()[-15:])
            raise Problem(f"a step failed, see {path}:\n{tail}")

    def build_workloads(self):
        """Compiles bench/guest in the lab root and puts it where guests find it."""
        target = "bench/target"
        self.in_root("env", "CARGO_HOME=/cache/cargo", "CARGO_TERM_COLOR=never", "cargo", "build",
                     "--config", "/rzram/tools/lib/cargo.toml", "--release", "--locked", "--offline",
                     "--manifest-path", "/rzram/bench/guest/Cargo.toml", "--target-dir", f"/cache/{target}",
                     log="bench-build")
        shutil.copy2(machine.cache() / target / "release/rzbench", self.folder / "rzbench")

    def build_codecs(self, kernel):
        """Compiles bench/kmod for a lab kernel, in a copy below the cache."""
        copy = machine.cache() / "build" / f"bench-kmod-{kernel}"
        copy.mkdir(parents=True, exist_ok=True)
        for source in (machine.TOP / "bench/kmod").iterdir():
            target = copy / source.name
            if not target.exists() or target.read_bytes() != source.read_bytes():
                shutil.copy2(source, target)
        arch = ["ARCH=um"] if kernel == "uml" else []
        self.in_root("make", *arch, "-C", f"/cache/{machine.kernel_folder()}/{kernel}",
                     f"M=/cache/build/{copy.name}", "modules", log="bench-kmod")
        shutil.copy2(copy / "rzbench_codec.ko", self.folder / "rzbench_codec.ko")

    def share(self, name, make):
        """Puts a costly file into the state folder: made once in the cache, then linked."""
        kept = machine.cache() / "bench" / name
        if not kept.exists():
            make(kept)
        here = self.folder / name
        if not here.exists():
            os.link(kept, here)

    def make_pages(self, kept):
        print("bench: gathering real memory pages (once)", file=sys.stderr)
        plan = f"id=pages boot=- cell=- kind=- round=0 work=collect mb={PAGES_MB}\n"
        (self.folder / "plan").write_text(plan, encoding="utf-8")
        # The lines of this boot say nothing about drivers.
        self.boot_guest("uml", 2, "3G", 900, lambda line: None, "/mnt/host/pages.jsonl")
        made = self.folder / "pages.bin"
        if not made.exists():
            raise Problem(f"no real pages were gathered: {machine.read(self.folder / 'pages.jsonl')}")
        os.link(made, kept)

    def make_tree(self, kept):
        self.in_root("bash", "/rzram/bench/build-tree.sh", f"/cache/bench/{kept.name}", log="bench-tree")

    def boot_guest(self, kernel, cpus, mem, timeout, hear, output):
        """Boots one guest that runs the plan; returns tools/vm's exit status."""
        command = [machine.TOP / "tools/vm", "--kernel", kernel, "--cpus", str(cpus), "--mem", mem,
                   "--timeout", str(int(timeout)), "--dir", self.folder]
        # Tasks at nice 19 behind spinners hold up RCU for long; that is what is measured.
        command += ["--append", "rcupdate.rcu_cpu_stall_suppress=1"]
        if not self.build or kernel in self.built:
            command.append("--no-build")
        self.built.add(kernel)
        command += [self.folder / "rzbench", "run", "/mnt/host/plan", output]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                              errors="replace", start_new_session=True) as guest:
            try:
                for line in guest.stdout:
                    hear(line.strip())
                return guest.wait()
            except BaseException:
                # Only this guest's own group; tools/vm cleans up behind itself.
                os.killpg(guest.pid, 15)
                guest.wait()
                raise

    def measure(self, figure, boot, progress):
        """Measures what is missing of a figure in one boot; some rounds may not count."""
        for attempt in range(ATTEMPTS):
            jobs = self.missing(figure, boot)
            if not jobs:
                return
            plan = "".join(self.words(figure, boot, *job) + "\n" for job in jobs)
            (self.folder / "plan").write_text(plan, encoding="utf-8")
            expected = sum(self.seconds(cell) for cell, _, _ in jobs)
            clock = {"begin": time.monotonic()}
            costs = {(cell.name, kind, str(number)): self.seconds(cell) for cell, kind, number in jobs}

            def hear(line):
                words = line.split()
                if line.startswith("@start") and len(words) == 6:
                    clock["begin"] = time.monotonic()
                    cell = figure.cell(words[3])
                    rounds = self.rounds_of(cell) if cell else 0
                    number = f"{int(words[5]) + 1}/{rounds}"
                    progress.show(f"{figure.id} {words[3]} on {words[2]}, {words[4]}, round {number}")
                elif line.startswith("@done") and len(words) == 6:
                    self.loads.append([round(time.time()), machine.load()])
                    cost = costs.get((words[3], words[4], words[5]), 1.0)
                    progress.done(cost, time.monotonic() - clock["begin"])
                elif line.startswith("@kernel"):
                    self.kernels[boot.name] = line.split(" ", 1)[-1]
                elif line and not line.startswith("@"):
                    sys.stderr.write(f"{line}\n")

            timeout = 180 + 6 * expected + BOOT_SECONDS[boot.kernel]
            status = self.boot_guest(boot.kernel, boot.cpus, boot.mem, timeout, hear,
                                     "/mnt/host/samples.jsonl")
            if status != 0:
                note = {99: "the kernel complained", 124: "it took too long", 98: "the guest died"}
                text = note.get(status, f"status {status}")
                self.notes.append(f"{figure.id} on {boot.name}: {text} (attempt {attempt + 1})")
                print(f"\nbench: {self.notes[-1]}", file=sys.stderr)
                if status == 2:
                    raise Problem("tools/vm could not start; see above")

    def prepare(self, figures):
        """Makes what the guests need for these figures."""
        needs = {need for figure in figures for need in figure.needs}
        self.build_workloads()
        if "pages" in needs:
            self.share("pages.bin", self.make_pages)
        if "tree" in needs:
            self.share("tree.tar", self.make_tree)
        if "kmod" in needs:
            self.build_codecs("uml")

    def run(self):
        """Measures everything that was asked for."""
        self.begin()
        figures = [FIGURES[name] for name in self.ids]
        self.prepare(figures)
        progress = Progress(sum(self.expected(figure) for figure in figures))
        for figure in figures:
            for boot in self.boots(figure):
                self.measure(figure, boot, progress)
        progress.end()
        self.save(True)
