# SPDX-License-Identifier: GPL-2.0
"""What the results need to say about where they come from."""

import hashlib
import os
import pathlib
import re
import subprocess

TOP = pathlib.Path(__file__).resolve().parents[2]


def cache():
    """The lab's cache folder, found as tools/lib/common.sh finds it."""
    chosen = os.environ.get("RZRAM_CACHE")
    if not chosen:
        base = os.environ.get("XDG_CACHE_HOME") or str(pathlib.Path.home() / ".cache")
        chosen = f"{base}/rzram"
    return pathlib.Path(chosen).resolve()


def read(path, default=""):
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return default


def output(*command):
    try:
        return subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def kernel_folder():
    """The lab kernel's folder in the cache, named as tools/lib/kernel.sh names it."""
    for line in read(cache() / "kernel.selected").splitlines():
        if line.startswith("VERSION="):
            return "linux-" + re.sub(r"[^A-Za-z0-9.+-]", "_", line.split("=", 1)[1])
    return "linux"


def load():
    """The machine's load now."""
    return float(read("/proc/loadavg", "0").split()[0])


def cpu():
    for line in read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def commit():
    """The commit, with a mark if the checkout has more than it."""
    name = output("git", "rev-parse", "--short=12", "HEAD") or "unknown"
    return name + ("+" if output("git", "status", "--porcelain", "-uno") else "")


def sources():
    """A hash of everything that a measured number depends on: driver, workloads, kernel."""
    digest = hashlib.sha256()
    skip = {"selftests", "tools", "Documentation", ".git"}
    for folder, folders, names in os.walk(TOP):
        folders[:] = sorted(name for name in folders if name not in skip and name != "target")
        place = pathlib.Path(folder)
        if place == TOP / "bench":
            folders[:] = [name for name in folders if name in ("guest", "kmod")]
            continue
        for name in sorted(names):
            if name.endswith((".rs", ".h", ".lock")) or name == "Kbuild":
                if not name.endswith("_generated.rs"):
                    digest.update(str((place / name).relative_to(TOP)).encode())
                    digest.update((place / name).read_bytes())
    digest.update(read(cache() / "kernel.selected").encode())
    digest.update((TOP / "tools/lib/uml.config").read_bytes())
    return digest.hexdigest()[:16]


def describe():
    memory = read("/proc/meminfo").splitlines()[:1]
    return {
        "commit": commit(),
        "sources": sources(),
        "cpu": cpu(),
        "cpus": os.cpu_count(),
        "memory": memory[0].split(":", 1)[1].strip() if memory else "",
        "host_kernel": os.uname().release,
        "lab_kernel": read(cache() / "kernel.selected"),
    }
