#!/usr/bin/env python3
"""Measures how long a load from device memory takes that nothing else waits with: a chain of dependent loads by one thread.

    scripts/record-latency.py > docs/measurements/latency.json

Needs libcuda alone. The chain is one cycle through all 128-byte lines of a buffer, in random order, so that no load finds its line
in a cache that is smaller than the buffer."""

import ctypes, json, random, array, sys

PTX = b"""
.version 7.8
.target sm_80
.address_size 64
.visible .entry chase(.param .u64 chain, .param .u32 loads, .param .u64 out)
{
    .reg .b64 %rd<8>; .reg .b32 %r<6>; .reg .pred %p;
    ld.param.u64 %rd1, [chain];
    ld.param.u32 %r1, [loads];
    ld.param.u64 %rd2, [out];
    mov.u32 %r2, 0;
    mov.u64 %rd3, %globaltimer;
    mov.u64 %rd4, %clock64;
again:
    mul.wide.u32 %rd5, %r2, 128;
    add.s64 %rd5, %rd5, %rd1;
    ld.volatile.global.u32 %r2, [%rd5];
    sub.u32 %r1, %r1, 1;
    setp.ne.u32 %p, %r1, 0;
    @%p bra again;
    mov.u64 %rd6, %clock64;
    mov.u64 %rd7, %globaltimer;
    sub.s64 %rd6, %rd6, %rd4;
    sub.s64 %rd7, %rd7, %rd3;
    st.global.u64 [%rd2], %rd6;
    st.global.u64 [%rd2+8], %rd7;
    st.global.u32 [%rd2+16], %r2;
    ret;
}
\0"""

# Bytes of the buffer, and loads. What is loaded of the second is several times what L2 holds, so that no round finds what the last left.
BUFFERS = {"l2": (8 << 20, 100_000), "memory": (512 << 20, 2_000_000)}

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *args):
    status = getattr(cuda, name)(*args)
    if status:
        sys.exit(f"{name}: CUDA error {status}")


def u64(n=0):
    return ctypes.c_uint64(n)


call("cuInit", 0)
device, context, module, function = (ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p())
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
name = ctypes.create_string_buffer(100)
call("cuDeviceGetName", name, 100, device)
driver = ctypes.c_int()
call("cuDriverGetVersion", ctypes.byref(driver))
call("cuModuleLoadData", ctypes.byref(module), PTX)
call("cuModuleGetFunction", ctypes.byref(function), module, b"chase")
result = {"gpu": name.value.decode(), "driver": driver.value}
for where, (size, loads) in BUFFERS.items():
    lines = size // 128
    order = list(range(1, lines))
    random.Random(1).shuffle(order)
    host = array.array("I", bytes(size))
    at = 0
    for following in order:
        host[at * 32] = following
        at = following
    chain, out = u64(), u64()
    call("cuMemAlloc_v2", ctypes.byref(chain), ctypes.c_size_t(size))
    call("cuMemAlloc_v2", ctypes.byref(out), ctypes.c_size_t(24))
    address, _ = host.buffer_info()
    call("cuMemcpyHtoD_v2", chain, ctypes.c_void_p(address), ctypes.c_size_t(size))
    count = ctypes.c_uint32(loads)
    params = (ctypes.c_void_p * 3)(*(ctypes.addressof(x) for x in (chain, count, out)))
    best = None
    for _ in range(4):
        call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, params, None)
        call("cuCtxSynchronize")
        back = (ctypes.c_uint64 * 3)()
        call("cuMemcpyDtoH_v2", back, out, ctypes.c_size_t(24))
        each = (back[1] / loads, back[0] / loads)
        best = min(best or each, each)
    result[where] = {"ns": round(best[0], 1), "cycles": round(best[1], 1)}
    call("cuMemFree_v2", chain)
    call("cuMemFree_v2", out)
print(json.dumps(result))
