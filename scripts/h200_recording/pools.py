"""Pools of operand values, by element type and kind of case.

A kernel takes every element from a pool of 256 words by a hash of its position, so that a recording holds pools and results
and no operands.
"""

import random

from .recording import words

SIZE = 256
KINDS = ["ordinary", "edges", "nonfinite", "large", "small"]

# exponent bits, mantissa bits; e4m3 has no infinities.
FORMATS = {"f16": (5, 10), "bf16": (8, 7), "tf32": (8, 10), "f32": (8, 23), "e4m3": (4, 3), "e5m2": (5, 2)}


class Format:
    """Bits of a floating type."""

    def __init__(self, name):
        self.name = name
        self.exponents, self.mantissa = FORMATS[name]
        self.bias = (1 << self.exponents - 1) - 1
        self.sign = 1 << self.exponents + self.mantissa
        # What the instruction ignores: the low bits of a tf32.
        self.shift = 13 if name == "tf32" else 0

    def bits(self, rng, sign, exponent, mantissa):
        plain = (self.sign if sign else 0) | exponent << self.mantissa | mantissa
        return plain << self.shift | (rng.getrandbits(self.shift) if self.shift else 0)

    def near(self, rng, low, high):
        """A normal number of exponent `low` to `high`, or as close as the type gets."""
        top = (1 << self.exponents) - (1 if self.name == "e4m3" else 2)
        exponent = min(max(rng.randint(low, high) + self.bias, 1), top)
        mantissa = rng.getrandbits(self.mantissa)
        if self.name == "e4m3" and exponent == 15 and mantissa == 7:
            mantissa = 6
        return self.bits(rng, rng.getrandbits(1), exponent, mantissa)

    def special(self, rng, finite):
        """Zeros, subnormals, the smallest and largest normal numbers; or infinities and NaN."""
        full, ones = (1 << self.exponents) - 1, (1 << self.mantissa) - 1
        sign = rng.getrandbits(1)
        if finite:
            largest = (full, ones - 1) if self.name == "e4m3" else (full - 1, ones)
            subnormals = [(0, 1), (0, ones), (0, rng.getrandbits(self.mantissa))]
            return self.bits(rng, sign, *rng.choice([(0, 0), (0, 0), largest, (1, 0), *subnormals]))
        if self.name == "e4m3":
            return self.bits(rng, sign, full, ones)
        nan = rng.choice([1, ones, 1 << self.mantissa - 1, max(1, rng.getrandbits(self.mantissa))])
        # Half of them infinite.
        return self.bits(rng, sign, full, rng.choice([0, nan]))


def spread(name, kind, accumulator):
    """Smallest and largest exponents of the ordinary values of a pool."""
    narrow = name in ("e4m3", "e5m2", "f16")
    if kind == "large":
        return {"f32": (126, 127), "f16": (13, 15) if accumulator else (4, 7), "e4m3": (5, 8), "e5m2": (5, 9)}.get(name, (60, 63))
    if kind == "small":
        return {"f32": (-149, -120), "f16": (-15, -13) if accumulator else (-14, -9), "e4m3": (-9, -4), "e5m2": (-16, -9)}.get(
            name, (-76, -60)
        )
    if accumulator:
        return (-6, 10) if name == "f16" else (-8, 12)
    return (-5, 5) if narrow else (-9, 9)


def pool(name, kind, k, accumulator=False):
    """256 words; `k` products are summed, which sets how rare infinities and NaN must be for sums without them to occur."""
    form, rng = Format(name), random.Random(f"{name} {kind} {accumulator}")
    low, high = spread(name, kind, accumulator)
    values = [form.near(rng, low, high) for _ in range(SIZE)]
    if kind == "edges":
        share = 40
    elif kind == "nonfinite":
        share = 16 if accumulator else 64 // k
    else:
        share = 6 if kind == "small" else 0
    for i in range(share):
        values[i] = form.special(rng, kind != "nonfinite")
    if kind == "large" and accumulator:
        for i in range(24):
            values[i] = form.special(rng, True)
    return words(values)


def integers(kind):
    """Bytes; the accumulators are near the ends of 32 bits."""
    rng = random.Random(f"int {kind}")
    if kind == "accumulator":
        ends = [rng.choice([0x7FFFFFFF, 0x80000000]) + rng.randrange(-30000, 30000) for _ in range(SIZE // 2)]
        return words(ends + [rng.getrandbits(32) for _ in range(SIZE // 2)])
    return words(rng.getrandbits(8) for _ in range(SIZE))


def pick(register, index, pool_register, low=0, width=32):
    """PTX that takes the word of pool `pool_register` (an address) for the position in register `index`.

    `%h`, `%e` and `%z` are scratch; bits `low` and up of the word go into `register` when `width` is below 32.
    """
    return f"""mad.lo.u32 %h, {index}, 0x9E3779B1, {0x85EBCA6B + 0x632BE5AB * low & 0xFFFFFFFF:#x}; shr.u32 %e, %h, 15; xor.b32 %h, %h, %e;
 mul.lo.u32 %h, %h, 0x2C1B3C6D; shr.u32 %h, %h, 24; mul.wide.u32 %z, %h, 4; add.s64 %z, %z, {pool_register}; ld.global.u32 %h, [%z];
 """ + (
        f"mov.b32 {register}, %h;" if width == 32 else f"bfi.b32 {register}, %h, {register}, {low}, {width};"
    )


def fill(register, index, pool_register, bits):
    """PTX that fills a register with elements of `bits` each; floating 32-bit registers take words."""
    if bits == 32:
        return pick(register, index, pool_register)
    start = f"mov.b32 {register}, 0;\n "
    return start + "\n ".join(pick(register, index, pool_register, low, bits) for low in range(0, 32, bits))


