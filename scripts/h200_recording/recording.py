"""The format of a recording: kernels, input buffers and launches, and what each launch left in its output buffers.

A file is gzipped JSON:

    {"device": …, "driver": …, "kernels": {name: PTX}, "buffers": {name: hex}, "rows": [row, …]}
    row = {"kernel": name, "grid": CTAs, "block": threads, "args": [arg, …], "outs": {name: bytes}, "result": {name: hex}, …}
    arg = {"pointer": buffer or output} | {"u32": value} | {"u64": value} | {"map": map}
    map = {"of": buffer or output, "element": index, "dims": […], "strides": […], "steps": […], "swizzle": 0…3,
           "nan_fill": bool, and "tile": […] or "im2col": {"lower": […], "upper": […], "channels": n, "pixels": n}}

Output buffers hold zeros before a launch. Bytes are little-endian hexadecimal. Every kernel is called `k`. What else a row
holds says which case it is, or what a profiler counted.
"""

import gzip
import json

HEADER = ".version 8.4\n.target sm_90a\n.address_size 64\n"


class Recording:
    """Kernels, inputs and launches of one set."""

    def __init__(self, name):
        self.name = name
        self.about = {}
        self.kernels = {}
        self.buffers = {}
        self.rows = []

    def kernel(self, name, parameters, body, version="8.4"):
        """Adds a kernel with these parameters (`.u64 a, .u32 b`), unless there is one of that name."""
        if name not in self.kernels:
            declared = ", ".join(f".param {p.strip()}" for p in parameters.split(","))
            head = HEADER.replace("8.4", version)
            self.kernels[name] = f"{head}.visible .entry k({declared})\n{body.strip()}\n"
        return name

    def buffer(self, name, data):
        self.buffers[name] = bytes(data)
        return {"pointer": name}

    def row(self, kernel, args, outs, grid=1, block=32, **about):
        row = {"kernel": kernel, "grid": grid, "block": block, "args": args, "outs": outs, **about}
        self.rows.append(row)
        return row

    def save(self, path):
        whole = {
            **self.about,
            "kernels": self.kernels,
            "buffers": {name: data.hex() for name, data in self.buffers.items()},
            "rows": [
                {**row, "result": {n: d.hex() for n, d in row["result"].items()}} if "result" in row else row
                for row in self.rows
            ],
        }
        with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as out:
            out.write(json.dumps(whole, separators=(",", ":")).encode())

    @staticmethod
    def load(path):
        with gzip.open(path) as file:
            whole = json.load(file)
        recording = Recording(str(path))
        recording.kernels = whole.pop("kernels")
        recording.buffers = {name: bytes.fromhex(data) for name, data in whole.pop("buffers").items()}
        recording.rows = whole.pop("rows")
        for row in recording.rows:
            if "result" in row:
                row["result"] = {n: bytes.fromhex(d) for n, d in row["result"].items()}
        recording.about = whole
        return recording


def pointer(name):
    return {"pointer": name}


def u32(value):
    return {"u32": value & 0xFFFFFFFF}


def u64(value):
    return {"u64": value}


def words(values):
    """Little-endian bytes of 32-bit words."""
    return b"".join((v & 0xFFFFFFFF).to_bytes(4, "little") for v in values)


def halves(values):
    """Little-endian bytes of 16-bit words."""
    return b"".join((v & 0xFFFF).to_bytes(2, "little") for v in values)


def registers(prefix, count, first=0):
    """`{%f0,%f1}`."""
    return "{" + ",".join(f"%{prefix}{first + i}" for i in range(count)) + "}"
