#!/usr/bin/env python3
"""Tensors of PyTorch, or of NumPy, go through a kernel where they are: `examples/torch` by DLPack, ctypes and PyCapsule.

    cargo build --release --example dlpack
    scripts/check-torch.py target/release/examples/libdlpack.so --device cuda       # PyTorch on a GPU
    scripts/check-torch.py target/release/examples/libdlpack.so --device sim        # the simulator: NumPy >= 1.22
    scripts/check-torch.py ... --device sim --library torch                         # the simulator: PyTorch's CPU tensors

Asserts that pointers stay the same, that the values are right, that nothing beside a view is written, and which variant ran:
rows of 4096 columns with a pitch of 4100 (exact), and one element further on (general).
"""
import argparse
import ctypes
import gc
import sys

VARIANTS = ["exact", "aligned", "general"]
python = ctypes.pythonapi
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Result:
    """A tensor that comes back, as `from_dlpack` takes it: it is consumed once."""

    def __init__(self, pointer, device):
        self.pointer, self.device = pointer, device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **_):
        return python.PyCapsule_New(self.pointer, b"dltensor", None)


class Kernel:
    def __init__(self, path, ordinal):
        self.library = library = ctypes.CDLL(path)
        library.tilewright_error.restype = ctypes.c_char_p
        library.tilewright_open.restype = ctypes.c_void_p
        library.tilewright_stream.restype = ctypes.c_void_p
        library.tilewright_stream.argtypes = [ctypes.c_void_p]
        library.tilewright_close.argtypes = [ctypes.c_void_p]
        library.tilewright_scale.restype = ctypes.c_void_p
        library.tilewright_scale.argtypes = [
            ctypes.c_void_p, ctypes.c_int, ctypes.c_float, ctypes.c_void_p, ctypes.c_void_p]
        self.ordinal = ordinal
        self.stream = library.tilewright_open(ordinal)
        if not self.stream:
            raise RuntimeError(library.tilewright_error().decode())

    def capsule(self, tensor):
        handle = self.library.tilewright_stream(self.stream)
        return tensor.__dlpack__(stream=handle) if handle else tensor.__dlpack__()

    def scale(self, factor, x, y, bits=32):
        """y = factor * x; returns what comes back and the name of the variant."""
        capsules = [self.capsule(tensor) for tensor in (x, y)]
        pointers = [python.PyCapsule_GetPointer(capsule, b"dltensor") for capsule in capsules]
        tensors, variant = (ctypes.c_void_p * 2)(*pointers), ctypes.c_int(-1)
        out = self.library.tilewright_scale(
            self.stream, bits, factor, ctypes.byref(tensors), ctypes.byref(variant))
        for capsule, left in zip(capsules, tensors):
            if not left:
                # It was taken over: the capsule's destructor leaves it alone.
                python.PyCapsule_SetName(capsule, TAKEN_NAME)
        if not out:
            raise RuntimeError(self.library.tilewright_error().decode())
        device = (2, self.ordinal) if self.ordinal >= 0 else (1, 0)
        return Result(out, device), VARIANTS[variant.value]

    def close(self):
        self.library.tilewright_close(self.stream)


# A capsule keeps the pointer to its name.
TAKEN_NAME = ctypes.c_char_p(b"used_dltensor")


class NumPy:
    def __init__(self):
        import numpy
        self.np, self.name = numpy, "NumPy " + numpy.__version__
        self.half = numpy.float16

    def numbers(self, rows, columns, dtype=None):
        return (self.np.arange(rows * columns) % 251 - 125).reshape(rows, columns).astype(dtype or self.np.float32)

    def zeros(self, shape, dtype=None):
        return self.np.zeros(shape, dtype or self.np.float32)

    def aligned(self, count):
        """Zeros whose first element is at a multiple of 64 bytes."""
        room = self.np.zeros(count + 16, self.np.float32)
        skip = -(room.ctypes.data // 4) % 16
        return room[skip:skip + count]

    def back(self, result):
        return self.np.from_dlpack(result)

    def pointer(self, x):
        return x.__array_interface__["data"][0]

    def equal(self, x, y):
        return bool((x == y).all())

    def sync(self):
        pass


class Torch:
    def __init__(self, device):
        import torch
        self.torch, self.device = torch, device
        self.name = f"PyTorch {torch.__version__} on {torch.cuda.get_device_name(device) if device != 'cpu' else 'cpu'}"
        self.half = torch.float16

    def numbers(self, rows, columns, dtype=None):
        x = (self.torch.arange(rows * columns, device=self.device) % 251 - 125).reshape(rows, columns)
        return x.to(dtype or self.torch.float32)

    def zeros(self, shape, dtype=None):
        return self.torch.zeros(shape, dtype=dtype or self.torch.float32, device=self.device)

    def aligned(self, count):
        x = self.zeros((count,))
        assert x.data_ptr() % 16 == 0
        return x

    def back(self, result):
        return self.torch.from_dlpack(result)

    def pointer(self, x):
        return x.data_ptr()

    def equal(self, x, y):
        return self.torch.equal(x, y)

    def sync(self):
        if self.device != "cpu":
            self.torch.cuda.synchronize()


def check(kernel, lib):
    def run(x, y, expected_variant, bits=32):
        before = lib.pointer(y)
        result, variant = kernel.scale(2.0, x, y, bits)
        out = lib.back(result)
        assert lib.pointer(out) == before, f"{lib.pointer(out):#x} is not {before:#x}: it was copied"
        assert tuple(out.shape) == tuple(y.shape)
        assert lib.equal(out, x * 2), "wrong values"
        assert lib.equal(y, out), "y does not see what was written"
        assert variant == expected_variant, f"{variant}, not {expected_variant}"
        return out

    # As it comes, 32 and 16 bits; the memory is used on when only what came back is left.
    x, y = lib.numbers(64, 1024), lib.zeros((64, 1024))
    out = run(x, y, "exact")
    expected = x * 2
    del x, y
    gc.collect()
    lib.sync()
    assert lib.equal(out, expected), "freed too early"
    run(lib.numbers(8, 512, lib.half), lib.zeros((8, 512), lib.half), "exact", bits=16)
    print("  in place: the same pointers, float32 and float16")

    # A pitch of 4100 for 4096 columns, from the first element and from the second.
    for offset, variant in [(0, "exact"), (1, "general")]:
        x = lib.numbers(16, 4096)
        whole = lib.aligned(16 * 4100).reshape(16, 4100)
        inside = whole[:, offset:offset + 4096]
        assert lib.pointer(inside) == lib.pointer(whole) + 4 * offset
        run(x, inside, variant)
        beside = [whole[:, :offset], whole[:, offset + 4096:]]
        assert all(lib.equal(b, b * 0) for b in beside), "something beside the view was written"
        print(f"  pitch 4100, offset {offset}: right, variant {variant}")

    # What cannot be taken stays the caller's, and says why.
    x, y = lib.numbers(4, 512), lib.zeros((4, 513))
    try:
        kernel.scale(2.0, x, y)
        raise AssertionError("shapes that differ were accepted")
    except RuntimeError as error:
        assert "512" in str(error) and "513" in str(error), error
    try:
        kernel.scale(2.0, x, lib.zeros((4, 512), lib.half))
        raise AssertionError("another element type was accepted")
    except RuntimeError as error:
        assert str(error) == "the DLPack tensor has elements of float16, and a buffer of float32 was asked for", error
    print("  errors arrive as text")

    # Tensors come and go.
    for n in range(200):
        run(lib.numbers(2, 512), lib.zeros((2, 512)), "exact")
    gc.collect()
    print("  200 more, each deleted by its owner")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", help="libdlpack.so")
    parser.add_argument("--device", choices=["cuda", "sim"], default="cuda")
    parser.add_argument("--library", choices=["torch", "numpy"])
    args = parser.parse_args()
    name = args.library or ("torch" if args.device == "cuda" else "numpy")
    if args.device == "cuda" and name == "numpy":
        sys.exit("check-torch: NumPy has no tensors on a GPU")
    lib = Torch("cuda:0" if args.device == "cuda" else "cpu") if name == "torch" else NumPy()
    kernel = Kernel(args.path, 0 if args.device == "cuda" else -1)
    print(f"check-torch: {lib.name}, kernels on the {'GPU' if args.device == 'cuda' else 'simulator'}")
    check(kernel, lib)
    kernel.close()
    print("check-torch: passed")


if __name__ == "__main__":
    main()
