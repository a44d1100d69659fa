"""The CUDA driver through ctypes: loads PTX, launches, and encodes tensor maps."""

import ctypes as C


class DriverError(Exception):
    """A driver call that failed."""


class Crash(DriverError):
    """A kernel that the GPU stopped: nothing more runs in this process."""


class Map(C.Structure):
    """A CUtensorMap, which kernels take by value."""

    _fields_ = [("bytes", C.c_ubyte * 128)]
    _align_ = 64


class Gpu:
    """The first GPU and its primary context."""

    def __init__(self):
        self.cuda = C.CDLL("libcuda.so.1")
        device, context = C.c_int(), C.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", C.byref(device), 0)
        self.device = device.value
        self.call("cuDevicePrimaryCtxRetain", C.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *args):
        status = getattr(self.cuda, name)(*args)
        if status != 0:
            text = C.c_char_p()
            self.cuda.cuGetErrorString(status, C.byref(text))
            raise DriverError(f"{name}: {(text.value or b'?').decode()} ({status})")

    def about(self):
        name, version = C.create_string_buffer(96), C.c_int()
        self.call("cuDeviceGetName", name, 96, self.device)
        self.call("cuDriverGetVersion", C.byref(version))
        return {"device": name.value.decode(), "cuda": f"{version.value // 1000}.{version.value % 1000 // 10}"}

    def function(self, ptx):
        """The kernel `k` of a module; the JIT's log is in the error."""
        module, function, log = C.c_void_p(), C.c_void_p(), C.create_string_buffer(8192)
        # CU_JIT_ERROR_LOG_BUFFER and its size.
        options = (C.c_int * 2)(5, 6)
        values = (C.c_void_p * 2)(C.addressof(log), 8192)
        try:
            self.call("cuModuleLoadDataEx", C.byref(module), ptx.encode("ascii", "replace") + b"\0", 2, options, values)
        except DriverError as error:
            raise DriverError(f"{error}\n{log.value.decode()}") from None
        self.call("cuModuleGetFunction", C.byref(function), module, b"k")
        return function

    def alloc(self, size):
        address = C.c_uint64()
        self.call("cuMemAlloc_v2", C.byref(address), C.c_size_t(max(size, 16)))
        return address.value

    def free(self, address):
        self.call("cuMemFree_v2", C.c_uint64(address))

    def write(self, address, data):
        self.call("cuMemcpyHtoD_v2", C.c_uint64(address), bytes(data), C.c_size_t(len(data)))

    def read(self, address, size):
        data = C.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", data, C.c_uint64(address), C.c_size_t(size))
        return data.raw

    def launch(self, function, grid, block, args):
        """Runs a kernel and waits for it; `args` are ctypes values."""
        pointers = (C.c_void_p * len(args))(*[C.cast(C.pointer(a), C.c_void_p) for a in args])
        self.call("cuLaunchKernel", function, grid, 1, 1, block, 1, 1, 0, None, pointers, None)
        try:
            self.call("cuCtxSynchronize")
        except DriverError as error:
            raise Crash(str(error)) from None

    def tensor_map(self, m, address):
        """Encodes a map of a recording (see `recording`) over memory at `address`."""
        raw = C.create_string_buffer(256)
        base = (C.addressof(raw) + 63) & ~63
        rank = len(m["dims"])
        ints = lambda kind, values: (kind * max(len(values), 1))(*values)
        start = [C.c_void_p(base), m["element"], rank, C.c_void_p(address), ints(C.c_uint64, m["dims"]), ints(C.c_uint64, m["strides"])]
        # No interleaving, no L2 promotion.
        end = [ints(C.c_uint32, m["steps"]), 0, m["swizzle"], 0, int(m["nan_fill"])]
        if "im2col" in m:
            box = m["im2col"]
            corners = [ints(C.c_int, box["lower"]), ints(C.c_int, box["upper"]), box["channels"], box["pixels"]]
            self.call("cuTensorMapEncodeIm2col", *start, *corners, *end)
        else:
            self.call("cuTensorMapEncodeTiled", *start, ints(C.c_uint32, m["tile"]), *end)
        encoded = Map()
        C.memmove(C.addressof(encoded), base, 128)
        return encoded


class Runner:
    """Runs the rows of a recording."""

    def __init__(self, gpu, recording):
        self.gpu, self.recording = gpu, recording
        self.functions = {}
        self.inputs = {}
        for name, data in recording.buffers.items():
            self.inputs[name] = gpu.alloc(len(data))
            gpu.write(self.inputs[name], data)

    def run(self, row):
        """Output buffers of one launch, as bytes by name."""
        gpu, kernel = self.gpu, row["kernel"]
        if kernel not in self.functions:
            self.functions[kernel] = gpu.function(self.recording.kernels[kernel])
        outs = {name: gpu.alloc(size) for name, size in row["outs"].items()}
        for name, size in row["outs"].items():
            gpu.write(outs[name], bytes(size))
        memory = {**self.inputs, **outs}
        args = [self.argument(arg, memory) for arg in row["args"]]
        gpu.launch(self.functions[kernel], row["grid"], row["block"], args)
        results = {name: gpu.read(at, row["outs"][name]) for name, at in outs.items()}
        for at in outs.values():
            gpu.free(at)
        return results

    def argument(self, arg, memory):
        if "pointer" in arg:
            return C.c_uint64(memory[arg["pointer"]])
        if "map" in arg:
            return self.gpu.tensor_map(arg["map"], memory[arg["map"]["of"]])
        return C.c_uint32(arg["u32"]) if "u32" in arg else C.c_uint64(arg["u64"])
