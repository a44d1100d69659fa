#!/usr/bin/env python3
"""Compares the simulator's counts with what Nsight Compute counts on a GPU, schedule by schedule.

    scripts/ncu-compare.py target/release/examples/matmul [--size 512x512x512] [--schedule NAME ...] [--keep FOLDER]
    scripts/ncu-compare.py --recorded NAME.csv NAME.json      # ncu's source page and a line of matmul's, from before

Runs the matmul example once on the simulator and once under ncu for each schedule (clocks are left alone), and prints for
each kind of access the requests, the sectors of global accesses and the wavefronts of shared ones, and how the requests of
global accesses spread over sectors per request, by which the tensors tell themselves apart. Exit status 1 if a sum differs.

ncu counts machine instructions and the simulator those of the PTX: where ptxas merges several loads into a wide one, the
requests of shared loads differ, and wavefronts with them.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

KINDS = ["global load", "global store", "shared load", "shared store"]


def kinds(space, operation):
    """Kinds of an access as ncu names it: a copy is a global load and a shared store."""
    pairs = zip(space.split(","), operation.split(","))
    return [f"{space.lower()} {operation.lower()}" for space, operation in pairs]


def of_ncu(text):
    """Counts by kind from ncu's source page: requests, units, and requests by units a request."""
    rows = list(csv.reader(text.splitlines()))
    head = next(i for i, row in enumerate(rows) if row and row[0] == "Address")
    counts = {kind: {"requests": 0, "units": 0, "spread": Counter()} for kind in KINDS}
    for row in rows[head + 1 :]:
        cell = dict(zip(rows[head], row))
        number = lambda name: int(float((cell.get(name) or "0").replace(",", "")))
        for kind in kinds(cell.get("Address Space", ""), cell.get("Access Operation", "")):
            requests = number("Instructions Executed")
            if kind not in counts:
                continue
            units = number("L2 Theoretical Sectors Global" if kind.startswith("global") else "L1 Wavefronts Shared")
            add(counts[kind], requests, units)
    return counts


def of_simulator(counters):
    """The same from the simulator's counters."""
    counts = {kind: {"requests": 0, "units": 0, "spread": Counter()} for kind in KINDS}
    for site in counters["sites"]:
        for buffer in site["global"]:
            kind = f"global {buffer['access']}"
            if kind in counts:
                add(counts[kind], buffer["requests"], buffer["sectors"])
    for kind in ["shared load", "shared store"]:
        sums = counters[kind.replace(" ", "_")]
        add(counts[kind], sums["requests"], sums["wavefronts"])
    return counts


def add(count, requests, units):
    if requests == 0:
        return
    count["requests"] += requests
    count["units"] += units
    count["spread"][round(units / requests, 2)] += requests


def spread(count):
    return ", ".join(f"{per:g}: {requests}" for per, requests in sorted(count["spread"].items()))


def compare(schedule, ncu, simulator):
    """Lines of the table, and whether all sums agree."""
    lines, agree = [], True
    for kind in KINDS:
        a, b = ncu[kind], simulator[kind]
        if a["requests"] == b["requests"] == 0:
            continue
        same = a["units"] == b["units"]
        agree &= same
        per = f"{spread(a)} / {spread(b)}" if kind.startswith("global") else ""
        lines.append(
            f"| {schedule} | {kind} | {a['requests']} / {b['requests']} | {a['units']} / {b['units']} "
            f"| {per} | {'equal' if same else 'differs'} |"
        )
    return lines, agree


def output(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("matmul", nargs="?", default="target/release/examples/matmul")
    parser.add_argument("--recorded", nargs=2, metavar=("CSV", "JSON"))
    parser.add_argument("--size", default="512x512x512")
    parser.add_argument("--schedule", nargs="*", help="default: all of the ladder")
    parser.add_argument("--keep", help="folder for ncu's reports")
    options = parser.parse_args()
    if options.recorded:
        page, line = (Path(file).read_text() for file in options.recorded)
        name = Path(options.recorded[0]).stem
        lines, agree = compare(name, of_ncu(page), of_simulator(json.loads(line)["counters"]))
        print("\n".join(lines))
        sys.exit(0 if agree else 1)
    schedules = options.schedule or [line.split()[0] for line in output(options.matmul, "--list").splitlines()]
    print("| schedule | access | requests: ncu / simulator | sectors or wavefronts | requests by sectors a request | |")
    print("|---|---|---|---|---|---|")
    agree = True
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for schedule in schedules:
            run = [options.matmul, "--schedule", schedule, "--size", options.size, "--json", "--device"]
            counters = json.loads(output(*run, "sim"))["counters"]
            report = str(folder / schedule)
            profile = ["-f", "-o", report, "--clock-control", "none", "--launch-count", "1", "--kernel-name", "regex:matmul"]
            output("ncu", *profile, "--section", "SourceCounters", *run, "cuda")
            page = output("ncu", "--import", report + ".ncu-rep", "--page", "source", "--print-source", "sass", "--csv")
            lines, same = compare(schedule, of_ncu(page), of_simulator(counters))
            print("\n".join(lines), flush=True)
            agree &= same
    sys.exit(0 if agree else 1)


if __name__ == "__main__":
    main()
