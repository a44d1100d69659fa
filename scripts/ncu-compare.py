#!/usr/bin/env python3
"""Compares the simulator's counts with what Nsight Compute counts on a GPU, schedule by schedule.

    scripts/ncu-compare.py target/release/examples/matmul [--size 512x512x512] [--schedule NAME ...] [--keep FOLDER]
    scripts/ncu-compare.py --recorded NAME.csv NAME.json      # ncu's metrics and a line of matmul's, from before

Runs the matmul example once on the simulator and once under ncu for each schedule (clocks are left alone), and prints for
each kind of access the requests, the sectors of global accesses and the wavefronts of shared ones. Exit status 1 if a sum
differs.

Global accesses are the L1 cache's own counters, shared loads and stores those of the machine instructions. What
asynchronous copies take in shared memory ncu tells in two ways, which contradict each other where ptxas predicates copies:
the instructions' wavefronts, and their bytes, 128 a wavefront, with the L1's bank conflicts. Both are printed where they
differ, and one must agree.

ncu counts machine instructions and the simulator those of the PTX: where ptxas merges several loads into a wide one, the
requests of shared loads differ, and wavefronts with them.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

L1 = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
WAVEFRONTS = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
INSTRUCTIONS = "smsp__sass_inst_executed_op_{}.sum"
COPIED = "smsp__sass_data_bytes_mem_shared_op_ldgsts.sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum"

# What is compared: the simulator's name, ncu's metrics of requests and of sectors or wavefronts.
KINDS = {
    "global load": ([L1.format("requests", "ld")], [L1.format("sectors", "ld")]),
    "global store": ([L1.format("requests", "st")], [L1.format("sectors", "st")]),
    "global atomic": ([L1.format("requests", "red")], [L1.format("sectors", "red")]),
    "shared load": ([INSTRUCTIONS.format("shared_ld")], [WAVEFRONTS.format("ld")]),
    "shared store": (["smsp__inst_executed_op_shared_st.sum", INSTRUCTIONS.format("ldgsts")], [WAVEFRONTS.format("st")]),
}
COPIES = WAVEFRONTS.format("ldgsts")
METRICS = sorted({m for pair in KINDS.values() for metrics in pair for m in metrics} | {COPIES, COPIED, CONFLICTS})


def of_ncu(text):
    """Requests and readings of the units by kind from ncu's metrics."""
    rows = list(csv.reader(text.splitlines()))
    head = next(i for i, row in enumerate(rows) if "Metric Name" in row)
    cells = [dict(zip(rows[head], row)) for row in rows[head + 1 :]]
    value = {c["Metric Name"]: int(float(c["Metric Value"].replace(",", ""))) for c in cells if c.get("Metric Name")}
    total = lambda metrics: sum(value[m] for m in metrics)
    counts = {kind: (total(requests), [total(units)]) for kind, (requests, units) in KINDS.items()}
    requests, [stores] = counts["shared store"]
    copies = {value[COPIES]} if COPIES in value else set()
    if COPIED in value:
        copies.add(value[COPIED] // 128 + value[CONFLICTS])
    counts["shared store"] = (requests, sorted(stores + copied for copied in copies))
    return counts


def of_simulator(counters):
    """The same from the simulator's counters."""
    counts = {kind: (0, 0) for kind in KINDS}
    for site in counters["sites"]:
        for buffer in site["global"]:
            # An arrival's count returns what was there: no `red`, and one a CTA.
            kind = f"global {buffer['access']}"
            if kind in counts and not (kind == "global atomic" and buffer["buffer"] == "scratch"):
                sums = counts[kind]
                counts[kind] = (sums[0] + buffer["requests"], sums[1] + buffer["sectors"])
    for kind in ["shared load", "shared store"]:
        sums = counters[kind.replace(" ", "_")]
        counts[kind] = (sums["requests"], sums["wavefronts"])
    return counts


def compare(schedule, ncu, simulator):
    """Lines of the table, and whether all sums agree."""
    lines, agree = [], True
    for kind in KINDS:
        (requests, readings), expected = ncu[kind], simulator[kind]
        if expected == (0, 0) and (requests, readings) == (0, [0]):
            continue
        same = requests == expected[0] and expected[1] in readings
        agree &= same
        read = " or ".join(map(str, readings))
        verdict = "equal" if same else "differs"
        lines.append(f"| {schedule} | {kind} | {requests} / {expected[0]} | {read} / {expected[1]} | {verdict} |")
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
    parser.add_argument("--keep", help="folder for what both counted")
    options = parser.parse_args()
    if options.recorded:
        page, line = (Path(file).read_text() for file in options.recorded)
        name = Path(options.recorded[0]).stem
        lines, agree = compare(name, of_ncu(page), of_simulator(json.loads(line)["counters"]))
        print("\n".join(lines))
        sys.exit(0 if agree else 1)
    schedules = options.schedule or [line.split()[0] for line in output(options.matmul, "--list").splitlines()]
    print("| schedule | access | requests: ncu / simulator | sectors or wavefronts: ncu / simulator | |")
    print("|---|---|---|---|---|")
    agree = True
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for schedule in schedules:
            run = [options.matmul, "--schedule", schedule, "--size", options.size, "--json", "--device"]
            counters = json.loads(output(*run, "sim"))["counters"]
            profile = ["ncu", "--csv", "--clock-control", "none", "--launch-count", "1", "--kernel-name", "regex:matmul"]
            page = output(*profile, "--metrics", ",".join(METRICS), *run, "cuda")
            (folder / f"{schedule}.csv").write_text(page)
            (folder / f"{schedule}.json").write_text(json.dumps({"counters": counters}, separators=(",", ":")))
            lines, same = compare(schedule, of_ncu(page), of_simulator(counters))
            print("\n".join(lines), flush=True)
            agree &= same
    sys.exit(0 if agree else 1)


if __name__ == "__main__":
    main()
