#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
#
# The gates: what a line of code must know about its room. Rules that no compiler checks.
# Prints FILE:LINE: GATE: what is wrong, and one TAP line a gate. Run by tools/lint from the top folder.

import os
import re
import subprocess
import sys

MAX_LINES = 600
CAST_REACH = 8  # how many lines above an `as` its CAST: may stand

ROOMS = ("rzram.rs", "registry.rs", "kapi", "backends", "zsmalloc", "zcomp", "device")

# Room -> rooms it may name. Everything may name itself.
ARROWS = {
    "rzram.rs": {"registry", "device", "zcomp", "zsmalloc", "backends", "kapi"},
    "registry": {"device", "zcomp", "zsmalloc", "kapi"},
    "device": {"zcomp", "zsmalloc", "kapi"},
    "zcomp": {"backends", "kapi"},
    "zsmalloc": {"kapi"},
    "backends": {"kapi"},
    "kapi": set(),
}

# Pure files: `core`, other pure files, and what the host crate replaces: the facade over atomics
# and the lossless casts.
PURE = {
    "zsmalloc/geometry.rs", "zsmalloc/object.rs", "zsmalloc/fullness.rs", "zsmalloc/batch.rs",
    "device/slot_word.rs", "device/range.rs", "device/blocks.rs", "device/parse.rs",
    "device/candidates.rs", "device/word.rs", "device/targets.rs", "device/seal.rs",
    "device/request.rs",
}
PURE_MAY_NAME = {p[:-3].replace("/", "::") for p in PURE} | {"kapi::atomic", "kapi::num"}

NUMBER = r"(?:u8|u16|u32|u64|u128|usize|i8|i16|i32|i64|i128|isize|f32|f64|c_u?(?:char|short|int|long|longlong))"
CONTEXT_NEEDED = re.compile(
    r"\.(?:try_)?lock\(|\.lock_\w+\(|\.wait(?:_\w+)?\(|GFP_|\bgfp::|\b(?:KBox|KVec|Arc|UniqueArc)::(?:new|pin_init|init|with_capacity)"
    r"|\bmight_sleep|\bmsleep|\bsynchronize_rcu|\.flush\(")

findings = {}


def report(gate, path, line, text):
    findings.setdefault(gate, []).append(f"{path}:{line}: {gate}: {text}")


def blank(text):
    """The same text with comments, strings and characters replaced by blanks; line breaks stay."""
    out = list(text)
    i, n = 0, len(text)

    def wipe(a, b):
        for k in range(a, min(b, n)):
            if out[k] != "\n":
                out[k] = " "

    while i < n:
        two = text[i:i + 2]
        if two == "//":
            end = text.find("\n", i)
            end = n if end < 0 else end
            wipe(i, end)
            i = end
        elif two == "/*":
            depth, k = 1, i + 2
            while k < n and depth:
                if text[k:k + 2] == "/*":
                    depth, k = depth + 1, k + 2
                elif text[k:k + 2] == "*/":
                    depth, k = depth - 1, k + 2
                else:
                    k += 1
            wipe(i, k)
            i = k
        elif (m := re.match(r'(?:b|c|br|cr)?r(#*)"', text[i:i + 12])) and not re.match(r"\w", text[i - 1:i] or " "):
            end = text.find('"' + m.group(1), i + m.end())
            end = n if end < 0 else end + 1 + len(m.group(1))
            wipe(i, end)
            i = end
        elif text[i] == '"':
            k = i + 1
            while k < n and text[k] != '"':
                k += 2 if text[k] == "\\" else 1
            wipe(i + 1, k)
            i = k + 1
        elif m := re.match(r"'(?:\\.[^']*|[^\\'])'", text[i:i + 14]):
            wipe(i, i + m.end())
            i += m.end()
        else:
            i += 1
    return "".join(out)


def close_of(code, start):
    """Where the brace that opens first at or after `start` closes."""
    depth, seen = 0, False
    for k in range(start, len(code)):
        if code[k] == "{":
            depth, seen = depth + 1, True
        elif code[k] == "}":
            depth -= 1
            if seen and depth == 0:
                return k
        elif code[k] == ";" and not seen:
            return k
    return len(code)


def test_lines(code):
    """The numbers of the lines inside test modules."""
    lines = set()
    for m in re.finditer(r"#\[(?:cfg\((?:all\()?test|kunit_tests)|\bmod tests\s*\{", code):
        first = code.count("\n", 0, m.start()) + 1
        last = code.count("\n", 0, close_of(code, m.start())) + 1
        lines.update(range(first, last + 1))
    return lines


def line_of(code, at):
    return code.count("\n", 0, at) + 1


def tracked():
    """Files under version control or about to be."""
    git = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard"],
                         check=False, capture_output=True, text=True)
    if git.returncode == 0:
        paths = git.stdout.splitlines()
    else:  # an unpacked archive
        paths = [os.path.relpath(os.path.join(folder, name)) for folder, _, names in os.walk(".") for name in names]
    return sorted(p for p in paths if os.path.isfile(p))


def gate_files(paths):
    for path in paths:
        if path.endswith((".lock", ".json", ".png", ".svg", ".proptest-regressions")):
            continue
        text = open(path, encoding="utf-8", errors="replace").read()
        lines = text.splitlines()
        if not any("SPDX-License-Identifier: GPL-2.0" in line for line in lines[:3]):
            report("spdx", path, 1, "no SPDX line")
        if len(lines) > MAX_LINES and not path.startswith("Documentation/"):
            report("length", path, MAX_LINES + 1, f"{len(lines)} lines, at most {MAX_LINES}")
        if path.endswith(".rs") and not any(line.startswith("//!") for line in lines[:8]):
            report("header", path, 1, "no //! header")
        for number, line in enumerate(lines, 1):
            if re.search(r"(?<![\w$}/])/(?:work|tmp/bash_jobs)/", line):
                report("paths", path, number, "names a folder of one machine")
            if path.startswith(("tools/", ".ci/", "Makefile")) and re.search(r"https?://[a-z0-9]", line):
                report("paths", path, number, "names a host; mirrors come from the machine's own configuration")


def room_of(path):
    head = path.split("/")[0]
    return head if "/" in path or head == "rzram.rs" else head[:-3]


def named_rooms(code, path):
    """(offset, crate path) of everything the code names from the crate's root."""
    for m in re.finditer(r"\bcrate::(\w+(?:::\w+)*)", code):
        yield m.start(), m.group(1)
    for m in re.finditer(r"\bcrate::\s*\{", code):
        body = code[m.end():close_of(code, m.start())]
        for name in re.finditer(r"(?:^|,)\s*(\w+(?:::\w+)*)", body):
            yield m.start(), name.group(1)
    if path.count("/") == 1 and not path.endswith("/mod.rs"):
        for m in re.finditer(r"\bsuper::super::(\w+(?:::\w+)*)", code):
            yield m.start(), m.group(1)


def gate_room(path, text, code, tests):
    room = room_of(path)
    may_unsafe = room in ("kapi", "backends") or path == "zsmalloc/mem.rs"
    lines = text.splitlines()
    if room != "kapi":
        for m in re.finditer(r"\bbindings\s*::|::\s*bindings\b", code):
            report("bindings", path, line_of(code, m.start()), "only kapi/ names bindings")
    if not may_unsafe:
        for m in re.finditer(r"\bunsafe\b", code):
            report("unsafe", path, line_of(code, m.start()), "unsafe outside kapi/, backends/ and zsmalloc/mem.rs")
    for at, name in named_rooms(code, path):
        first = name.split("::")[0]
        if first in ARROWS and first != room and first not in ARROWS[room]:
            report("arrows", path, line_of(code, at), f"{room} may not name {first}")
        if path in PURE and not any(name == p or name.startswith(p + "::") for p in PURE_MAY_NAME):
            report("pure", path, line_of(code, at), f"a pure file may not name crate::{name}")
    if path in PURE:
        for m in re.finditer(r"^\s*(?:pub(?:\([^)]*\))? )?use\s+(?!core::|crate::|super::|self::)(\w+)|\bkernel::", code, re.M):
            number = line_of(code, m.start())
            if number not in tests:
                report("pure", path, number, "a pure file may use core and pure files only")
    for m in re.finditer(r"\.(?:unwrap|expect)\s*\(|\b(?:panic|todo|unimplemented|unreachable)!", code):
        number = line_of(code, m.start())
        if number not in tests:
            report("panic", path, number, f"{m.group(0).strip('.( ')} outside tests")
    for m in re.finditer(rf"\bas\s+(?:\w+::)*{NUMBER}\b", code):
        number = line_of(code, m.start())
        if number in tests:
            continue
        if not any("CAST:" in line for line in lines[max(0, number - 1 - CAST_REACH):number]):
            report("cast", path, number, f"`{m.group(0)}` without a CAST: comment above")
    for m in re.finditer(r"^[ \t]*pub(?:\((?:crate|super|in [^)]*)\))?\s+(?:const\s+|unsafe\s+|extern\s+\S+\s+)*fn\s+(\w+)", code, re.M):
        number = line_of(code, m.start() + len(m.group(0)) - len(m.group(0).lstrip()))
        end = close_of(code, m.end())
        body = code[code.find("{", m.end()):end] if "{" in code[m.end():end] else ""
        if path in PURE or path == "kapi/gfp.rs" or number in tests or not CONTEXT_NEEDED.search(body):
            continue
        k = number - 2
        docs = []
        while k >= 0 and re.match(r"\s*(///|#\[|#!\[|\)|//)", lines[k]):
            docs.append(lines[k])
            k -= 1
        if not any("# Context" in line for line in docs):
            report("context", path, number, f"{m.group(1)}() locks, sleeps or allocates, and has no # Context")


def main():
    paths = tracked()
    gate_files(paths)
    count = 0
    for path in paths:
        if not path.endswith(".rs") or path.split("/")[0] not in ROOMS:
            continue
        count += 1
        text = open(path, encoding="utf-8").read()
        code = blank(text)
        gate_room(path, text, code, test_lines(code))
    gates = ("spdx", "header", "length", "paths", "bindings", "unsafe", "arrows", "pure", "panic", "cast", "context")
    for gate in gates:
        for line in findings.get(gate, []):
            print(line)
    for gate in gates:
        bad = len(findings.get(gate, []))
        print(f"{'not ok' if bad else 'ok'} - gate {gate}" + (f": {bad} findings" if bad else f", {count} files"))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
