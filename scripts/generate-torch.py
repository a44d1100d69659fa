#!/usr/bin/env python3
"""The model of `examples/generate` in PyTorch, eager and compiled: prefill and decode of a 1B Llama with random weights.

    scripts/generate-torch.py [--tokens 128] [--prompt 2048] [--only eager|compiled]

Prints a row for each: milliseconds of the prefill, and of a token that is decoded greedily at batch 1. Eager keeps a cache that is a
view; compiled code has a cache of fixed length and a mask, and its decode step is captured in a CUDA graph by `reduce-overhead`.
Medians of five, after warm-up.
"""
import argparse
import statistics
import time

import torch
import torch.nn.functional as F

LAYERS, HIDDEN, FFN, HEADS, KV, HEAD, VOCAB, THETA, EPS = 16, 2048, 8192, 32, 8, 64, 128256, 500000.0, 1e-5


class Layer(torch.nn.Module):
    def __init__(self, places):
        super().__init__()
        weight = lambda rows, columns: torch.nn.Parameter(torch.randn(rows, columns) * columns**-0.5)
        self.qkv, self.out = weight((HEADS + 2 * KV) * HEAD, HIDDEN), weight(HIDDEN, HEADS * HEAD)
        self.gate_up, self.down = weight(2 * FFN, HIDDEN), weight(HIDDEN, FFN)
        self.norms = torch.nn.ParameterList(torch.ones(HIDDEN) for _ in range(2))
        for name in ("k", "v"):
            self.register_buffer(name, torch.zeros(1, KV, places, HEAD))

    def forward(self, x, at, cos, sin, mask, upto):
        tokens = x.shape[1]
        q, k, v = F.linear(F.rms_norm(x, (HIDDEN,), self.norms[0], EPS), self.qkv).split(
            [HEADS * HEAD, KV * HEAD, KV * HEAD], -1)
        heads = lambda y: y.view(1, tokens, -1, HEAD).transpose(1, 2)
        turned = lambda y: y * cos + torch.cat([-y[..., HEAD // 2:], y[..., : HEAD // 2]], -1) * sin
        q, k, v = turned(heads(q)), turned(heads(k)), heads(v)
        self.k.index_copy_(2, at, k)
        self.v.index_copy_(2, at, v)
        keys, values = (self.k, self.v) if upto is None else (self.k[:, :, :upto], self.v[:, :, :upto])
        if mask is None:
            o = F.scaled_dot_product_attention(q, keys, values, is_causal=tokens > 1, enable_gqa=True)
        else:
            o = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True)
        x = x + F.linear(o.transpose(1, 2).reshape(1, tokens, -1), self.out)
        gate, up = F.linear(F.rms_norm(x, (HIDDEN,), self.norms[1], EPS), self.gate_up).split(FFN, -1)
        return x + F.linear(F.silu(gate) * up, self.down)


class Model(torch.nn.Module):
    def __init__(self, places):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(VOCAB, HIDDEN) * HIDDEN**-0.5)
        self.layers = torch.nn.ModuleList(Layer(places) for _ in range(LAYERS))
        self.norm = torch.nn.Parameter(torch.ones(HIDDEN))
        angles = torch.arange(places)[:, None] * THETA ** (-torch.arange(0, HEAD, 2) / HEAD)
        angles = torch.cat([angles, angles], -1)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.register_buffer("places", torch.arange(places))

    def forward(self, tokens, at, masked, upto):
        x = F.embedding(tokens, self.table)
        mask = (self.places[None, :] <= at[:, None])[None, None] if masked else None
        for layer in self.layers:
            x = layer(x, at, self.cos[at], self.sin[at], mask, upto)
        logits = F.linear(F.rms_norm(x[:, -1], (HIDDEN,), self.norm, EPS), self.table)
        return logits.argmax(-1)


def seconds(run):
    torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - start


@torch.no_grad()
def main():
    flags = argparse.ArgumentParser()
    flags.add_argument("--tokens", type=int, default=128)
    flags.add_argument("--prompt", type=int, default=2048)
    flags.add_argument("--only", choices=["eager", "compiled"])
    flags = flags.parse_args()
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16)
    torch.set_default_device("cuda")
    model = Model(flags.prompt + flags.tokens)
    prompt = torch.randint(VOCAB, (1, flags.prompt))
    first = torch.arange(flags.prompt)
    print(torch.cuda.get_device_name(), torch.__version__, flush=True)

    for name in ["eager", "compiled"]:
        if flags.only not in (None, name):
            continue
        compiled = name == "compiled"
        prefill = torch.compile(model, fullgraph=True) if compiled else model
        step = torch.compile(model, mode="reduce-overhead", fullgraph=True) if compiled else model

        def decode():
            token, at = prompt[0, -1:].view(1, 1), torch.full((1,), flags.prompt)
            for n in range(flags.tokens):
                upto = None if compiled else flags.prompt + n + 1
                token = step(token, at, compiled, upto).view(1, 1).clone()
                at = at + 1

        begin = lambda: prefill(prompt, first, False, flags.prompt)
        times = []
        for run in (begin, decode):
            for _ in range(3):
                run()
            times.append(statistics.median(seconds(run) for _ in range(5)) * 1e3)
        print(f"{name}: prefill {times[0]:.2f} ms, decode {times[1] / flags.tokens:.3f} ms a token", flush=True)


main()
