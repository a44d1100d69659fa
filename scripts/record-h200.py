#!/usr/bin/env python3
"""Records what a Hopper GPU does, for the tests of the simulator (`ptx-sim/tests/data/h200`).

    scripts/record-h200.py write FOLDER [SET ...]      the kernels and inputs alone, without a GPU
    scripts/record-h200.py record FOLDER [SET ...]     runs them; each set in a process of its own
    scripts/record-h200.py check FILE [--times N]      runs a recording again and reports what differs
    scripts/record-h200.py parse FOLDER LOG            adds Nsight Compute's log to the counters

The mutation test of the simulator writes `mutants.json.gz` into Cargo's folder for temporary files, for `check` too.
Needs the NVIDIA driver, which compiles the PTX, and for the set `counters` Nsight Compute (`ncu`); no CUDA toolkit and no
Python package. The format of the files is in `h200_recording/recording.py`.
"""

import argparse
import csv
import datetime
import importlib
import subprocess
import sys
import time
from pathlib import Path

# No cache files beside the modules.
sys.dont_write_bytecode = True

from h200_recording.recording import Recording

# Exit status of a process whose GPU context is lost.
GO_ON = 75
SETS = ["masks", "matrices", "mma", "wgmma", "tensors", "counters"]


def build(name):
    return importlib.import_module(f"h200_recording.{name}").build()


def gpu():
    # The driver is needed where something runs.
    from h200_recording import driver

    return driver


def about(machine):
    """Where and when something was recorded."""
    facts = {**machine.about(), "date": f"{datetime.date.today()}"}
    version = Path("/proc/driver/nvidia/version")
    if version.exists():
        facts["driver"] = next((w for w in version.read_text().split() if w[:1].isdigit() and "." in w), "?")
    return facts


def record(folder, name):
    """Runs the rows of a set that have no outcome yet; rows that the GPU refuses keep its words in place of a result.

    Returns whether a kernel was stopped, after which another process has to go on.
    """
    path, driver = folder / f"{name}.json.gz", gpu()
    recording = Recording.load(path) if path.exists() else build(name)
    machine = driver.Gpu()
    recording.about = about(machine)
    runner = driver.Runner(machine, recording)
    crashed = False
    for i, row in enumerate(recording.rows):
        if "result" in row or "error" in row:
            continue
        try:
            row["result"] = runner.run(row)
        except driver.DriverError as error:
            row["error"] = str(error)
            crashed = isinstance(error, driver.Crash)
            print(f"{name}: row {i}, {row['kernel']}: {error}", flush=True)
            if crashed:
                break
    recording.save(path)
    failed = sum("error" in row for row in recording.rows)
    print(f"{name}: {i + 1} of {len(recording.rows)} rows, {failed} failed", flush=True)
    return crashed


def launches(name):
    """All rows of a set once, for the profiler to watch."""
    recording, driver = build(name), gpu()
    runner = driver.Runner(driver.Gpu(), recording)
    for row in recording.rows:
        runner.run(row)


def profile(folder):
    """Counts the set `counters` under Nsight Compute. The clocks are left alone."""
    from h200_recording import counters

    log = folder / "counters.csv"
    metrics = ",".join(counters.METRICS.values())
    options = ["--csv", "--log-file", log, "--clock-control", "none", "--cache-control", "none", "--metrics", metrics]
    subprocess.run(["ncu", *options, sys.executable, __file__, "launches", "counters"], check=True)
    parse(folder, log, about(gpu().Gpu()))


def parse(folder, log, facts):
    """Gives each row of `counters` the counts that the profiler's log has for its launch."""
    from h200_recording import counters

    recording = build("counters")
    recording.about = facts
    by_launch = {}
    lines = Path(log).read_text().splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith('"ID"'))
    for cell in csv.DictReader(lines[head:]):
        if cell["Metric Name"]:
            by_launch.setdefault(int(cell["ID"]), {})[cell["Metric Name"]] = float(cell["Metric Value"].replace(",", ""))
    for i, row in enumerate(recording.rows):
        row["counts"] = counters.counts_of(row["kernel"], by_launch[i])
    recording.save(folder / "counters.json.gz")
    print(f"counters: {len(recording.rows)} rows", flush=True)


def check(file, times):
    """Whether this GPU gives the recorded results every time."""
    recording, driver = Recording.load(file), gpu()
    runner = driver.Runner(driver.Gpu(), recording)
    wrong = 0
    for i, row in enumerate(recording.rows):
        if "result" not in row:
            continue
        differing = sum(runner.run(row) != row["result"] for _ in range(times))
        wrong += differing > 0
        if differing or "mutant" in row:
            print(f"{row.get('mutant') or (i, row['kernel'])}: {differing} of {times} runs differ", flush=True)
    print(f"{Path(file).name}: {len(recording.rows)} rows, {times} runs each, {wrong} rows differ")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["write", "record", "one", "launches", "check", "parse"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--limit", type=int, default=120, help="seconds for one set")
    options = parser.parse_args()
    sets = options.sets or SETS
    if options.what in ("write", "record"):
        options.folder.mkdir(parents=True, exist_ok=True)
    if options.what == "write":
        for name in sets:
            build(name).save(options.folder / f"{name}.json.gz")
    elif options.what == "record":
        failed = 0
        for name in sets:
            start = time.time()
            (options.folder / f"{name}.json.gz").unlink(missing_ok=True)
            one = [sys.executable, __file__, "one", options.folder, name]
            try:
                while subprocess.run(one, timeout=options.limit).returncode == GO_ON:
                    pass
            except subprocess.TimeoutExpired as error:
                failed += 1
                print(f"{name}: {error}", flush=True)
            print(f"{name}: {time.time() - start:.1f} s", flush=True)
        sys.exit(failed)
    elif options.what == "one":
        if sets == ["counters"]:
            profile(options.folder)
        elif record(options.folder, sets[0]):
            sys.exit(GO_ON)
    elif options.what == "launches":
        launches(options.folder.name)
    elif options.what == "parse":
        parse(options.folder, sets[0], {})
    else:
        sys.exit(check(options.folder, options.times) > 0)


if __name__ == "__main__":
    main()
