//! Times of all functions: `cargo run --release -p tilewright-kernels --example bench`, or of some: `.. --example bench -- attention pages`.
//!
//! A line a function: milliseconds, the median of several launches back to back, and what they are in bytes or operations a second.
//! Bytes are those of the tensors, each once.
//! Tensors are larger than a GPU's L2 cache, where nothing else is said.
//! Without a GPU each function runs once, at small sizes, on the simulator; no time is taken.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use tile_bench::{Rounds, figures::tflops, stats::median, table::aligned};
use tilewright::{
    Buffer, Device, Element, Error, Float, Stream,
    prelude::{bf16, f8},
};
use tilewright_kernels as kernels;

/// Launches between two looks at the clock.
const TOGETHER: usize = 4;

/// What a function moves and computes.
struct Work {
    bytes: usize,
    flops: usize,
}

impl Work {
    fn bytes(bytes: usize) -> Self {
        Work { bytes, flops: 0 }
    }
}

struct Bench {
    device: Device,
    stream: Stream,
    lines: Vec<Vec<String>>,
}

impl Bench {
    /// Normal random numbers, a million of which are drawn.
    fn random<T: Float>(&self, shape: &[usize]) -> Result<Buffer<T>, Error> {
        let mut rng = ChaCha8Rng::seed_from_u64(shape.iter().sum::<usize>() as u64);
        let len: usize = shape.iter().product();
        let drawn: Vec<T> =
            (0..len.min(1 << 20)).map(|_| T::from_f64(StandardNormal.sample(&mut rng))).collect();
        let data: Vec<T> = drawn.iter().copied().cycle().take(len).collect();
        Buffer::from_slice(&self.device, &data, shape)
    }

    fn integers(&self, len: usize, of: impl Fn(usize) -> usize) -> Result<Buffer<i32>, Error> {
        let data: Vec<i32> = (0..len).map(|n| of(n) as i32).collect();
        Buffer::from_slice(&self.device, &data, &[len])
    }

    fn empty<T: Element>(&self, shape: &[usize]) -> Result<Buffer<T>, Error> {
        Buffer::zeros(&self.device, shape)
    }

    /// A line of the table: the median of several rounds on a GPU, one launch on the simulator.
    fn time<T: Element>(
        &mut self,
        name: &str,
        size: &[usize],
        work: Work,
        mut launch: impl FnMut(&Stream) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let stream = self.stream.clone();
        let mut round = || -> Result<Option<f64>, Error> {
            let start = stream.timestamp()?;
            (0..TOGETHER).try_for_each(|_| launch(&stream))?;
            Ok(stream.timestamp()?.ms_since(&start)?.map(|ms| ms / TOGETHER as f64))
        };
        let times = match self.device.is_gpu() {
            true => Rounds::new(10).play(1, |_| round())?.times.concat(),
            false => {
                launch(&stream)?;
                Vec::new()
            }
        };
        let time = median(&times);
        let cell = |known: bool, digits: usize, of: &dyn Fn(f64) -> f64| match time.filter(|_| known) {
            Some(ms) => format!("{:.digits$}", of(ms)),
            None => "-".into(),
        };
        let size = size.iter().map(|n| n.to_string()).collect::<Vec<_>>().join("×");
        let line = vec![
            name.to_string(),
            T::DTYPE.name().to_string(),
            size,
            cell(true, 4, &|ms| ms),
            cell(true, 0, &|ms| work.bytes as f64 / ms / 1e6),
            cell(work.flops > 0, 1, &|ms| tflops(work.flops as f64, ms)),
        ];
        self.lines.push(line);
        Ok(())
    }

    /// One of two sizes: on a GPU, on the simulator.
    fn size<const N: usize>(&self, gpu: [usize; N], sim: [usize; N]) -> [usize; N] {
        if self.device.is_gpu() { gpu } else { sim }
    }
}

/// Tables, caches, positions.
fn tokens<T: Float>(bench: &mut Bench) -> Result<(), Error> {
    let each = size_of::<T>();
    let [s, v, d] = bench.size([1 << 14, 1 << 17, 1 << 12], [5, 9, 64]);
    let (ids, table) = (bench.integers(s, |n| n * 7919 % v)?, bench.random::<T>(&[v, d])?);
    let mut y = bench.empty::<T>(&[s, d])?;
    let work = Work::bytes(2 * s * d * each);
    bench.time::<T>("embedding", &[s, v, d], work, |on| kernels::embedding(on, &ids, &table, &mut y))?;

    // Every second row, each once; then sums of the same.
    let at = bench.integers(s, |n| n * 2 % v)?;
    let (x, mut sums) = (bench.random::<T>(&[s, d])?, bench.empty::<f32>(&[v, d])?);
    let mut to = bench.empty::<T>(&[v, d])?;
    let work = Work::bytes(2 * s * d * each);
    bench.time::<T>("scatter_rows", &[s, v, d], work, |on| kernels::scatter_rows(on, &at, &x, &mut to))?;
    let work = Work::bytes(s * d * (each + 8));
    bench.time::<T>("embedding_gradient", &[s, v, d], work, |on| {
        kernels::embedding_gradient(on, &ids, &x, &mut sums)
    })?;

    let [s, l, h, d] = bench.size([1 << 15, 1 << 16, 8, 128], [3, 7, 2, 16]);
    let (k, v) = (bench.random::<T>(&[s, h, d])?, bench.random::<T>(&[s, h, d])?);
    let (mut kc, mut vc) = (bench.empty::<T>(&[l, h, d])?, bench.empty::<T>(&[l, h, d])?);
    // Every second slot, each once.
    let slots = bench.integers(s, |n| n * 2 % l)?;
    let work = Work::bytes(4 * s * h * d * each);
    bench.time::<T>("kv_append", &[s, l, h, d], work, |on| {
        kernels::kv_append(on, &k, &v, &slots, &mut kc, &mut vc)
    })?;

    let [s, h, d] = bench.size([1 << 14, 32, 128], [3, 2, 16]);
    let (cos, sin) = (bench.random::<f32>(&[s, d / 2])?, bench.random::<f32>(&[s, d / 2])?);
    let (at, mut x) = (bench.integers(s, |n| n)?, bench.random::<T>(&[s, h, d])?);
    let work = || Work::bytes(2 * s * h * d * each + 4 * s * d);
    bench.time::<T>("rope", &[s, h, d], work(), |on| kernels::rope(on, &at, &cos, &sin, &mut x))?;
    bench.time::<T>("rope_interleaved", &[s, h, d], work(), |on| {
        kernels::rope_interleaved(on, &at, &cos, &sin, &mut x)
    })
}

/// A mixture of experts of one token, of a few, and of a prompt: where they go, their blocks, and the product.
fn experts<T: Float>(bench: &mut Bench) -> Result<(), Error> {
    let each = size_of::<T>();
    let [e, c, k, n] = bench.size([64, 2, 4096, 2048], [5, 2, 72, 136]);
    let w = bench.random::<T>(&[e, k, n])?;
    let tokens: &[usize] = if bench.device.is_gpu() { &[1, 64, 4096, 32768] } else { &[1, 9] };
    for &s in tokens {
        let (logits, x) = (bench.random::<T>(&[s, e])?, bench.random::<T>(&[s, k])?);
        let (mut expert, mut gate) = (bench.empty::<i32>(&[s, c])?, bench.empty::<f32>(&[s, c])?);
        let (mut value, mut y) = (bench.empty::<T>(&[s, c])?, bench.empty::<T>(&[s, n])?);
        let rows = kernels::choose::block_rows(s * c, e);
        let mut blocks = kernels::Blocks::uninit(&bench.device, [s, c], e, rows)?;
        let work = Work::bytes(s * (e * each + 8 * c));
        bench.time::<T>("route", &[s, e, c], work, |on| {
            kernels::route(on, &logits, true, &mut expert, &mut gate)
        })?;
        let work = Work::bytes(s * (e + c) * each + 4 * s * c);
        let mut place = bench.empty::<i32>(&[s, c])?;
        bench
            .time::<T>("top_k", &[s, e, c], work, |on| kernels::top_k(on, &logits, &mut value, &mut place))?;
        let work = Work::bytes(4 * (2 * s * c + blocks.token.shape()[0] * (rows + 1)));
        bench.time::<T>("expert_blocks", &[s, c, e], work, |on| {
            kernels::expert_blocks(on, &expert, e, &mut blocks)
        })?;
        // Matrices of all experts, where there are slots enough.
        let bytes = (s * (k + n) + e.min(s * c) * k * n) * each;
        let work = Work { bytes, flops: 2 * s * c * k * n };
        bench.time::<T>("experts", &[s, c, e, k, n], work, |on| {
            kernels::experts(on, &x, &w, &gate, &blocks, &mut y)
        })?;
    }
    Ok(())
}

/// Attention to pages: many sequences, and one.
fn pages<T: Float>(bench: &mut Bench) -> Result<(), Error> {
    let [g, r, l, d] = bench.size([8, 4, 1024, 128], [2, 2, 3, 16]);
    for b in [1, bench.size([16], [2])[0]] {
        let (q, mut o) = (bench.random::<T>(&[b, g * r, d])?, bench.empty::<T>(&[b, g * r, d])?);
        let cache = [b * l, 16, g, d];
        let (k, v) = (bench.random::<T>(&cache)?, bench.random::<T>(&cache)?);
        let (pages, len) = (bench.integers(b * l, |n| n * 7919 % (b * l))?, bench.integers(b, |_| 16 * l)?);
        let (pages, scale) = (pages.reshaped(&[b, l])?, 1.0 / (d as f32).sqrt());
        let keys = 16 * b * l * g * d;
        let work = Work { bytes: (2 * keys + 2 * b * g * r * d) * size_of::<T>(), flops: 4 * keys * r };
        bench.time::<T>("paged_attention", &[b, g * r, g, 16 * l, d], work, |on| {
            kernels::paged_attention(on, &q, [&k, &v], &pages, &len, scale, &mut o)
        })?;
    }
    Ok(())
}

/// Rows of a warp and of a CTA, and of logits.
fn rows<T: Float>(bench: &mut Bench) -> Result<(), Error> {
    let each = size_of::<T>();
    for [r, n] in [bench.size([1 << 16, 1 << 10], [3, 33]), bench.size([1 << 14, 1 << 12], [2, 1030])] {
        let (x, w, b) = (bench.random::<T>(&[r, n])?, bench.random::<T>(&[n])?, bench.random::<T>(&[n])?);
        let mut y = bench.empty::<T>(&[r, n])?;
        let (size, work) = ([r, n], || Work::bytes(2 * r * n * each));
        bench.time::<T>("rms_norm", &size, work(), |on| kernels::rms_norm(on, &x, &w, 1e-5, &mut y))?;
        bench
            .time::<T>("layer_norm", &size, work(), |on| kernels::layer_norm(on, &x, &w, &b, 1e-5, &mut y))?;
        bench.time::<T>("softmax", &size, work(), |on| kernels::softmax(on, &x, &mut y))?;
    }
    let [s, v] = bench.size([1 << 12, 1 << 17], [2, 1000]);
    let logits = bench.random::<T>(&[s, v])?;
    let label = bench.integers(s, |n| n * 7919 % v)?;
    let (mut loss, mut place) = (bench.empty::<f32>(&[s])?, bench.empty::<i32>(&[s])?);
    let work = || Work::bytes(s * v * each);
    bench.time::<T>("cross_entropy", &[s, v], work(), |on| {
        kernels::cross_entropy(on, &logits, &label, -100, &mut loss)
    })?;
    bench.time::<T>("argmax", &[s, v], work(), |on| kernels::argmax(on, &logits, &mut place))?;
    // A row alone is in L2.
    let (row, mut one) = (logits.slice(&[0..1, 0..v])?, bench.empty::<i32>(&[1])?);
    bench.time::<T>("argmax", &[1, v], Work::bytes(v * each), |on| kernels::argmax(on, &row, &mut one))
}

/// Linear layers with what stands around them: of one token, of a few, of a prompt.
fn fused<T: Float>(bench: &mut Bench) -> Result<(), Error> {
    let [n, k] = bench.size([14336, 4096], [70, 72]);
    let [w, up] = [bench.random::<T>(&[n, k])?, bench.random::<T>(&[n, k])?];
    let gain = bench.random::<T>(&[k])?;
    let rows: &[usize] = if bench.device.is_gpu() { &[1, 8, 512, 4096] } else { &[1, 8, 18] };
    for &m in rows {
        let (x, mut y) = (bench.random::<T>(&[m, k])?, bench.empty::<T>(&[m, n])?);
        let work = |weights: usize| Work {
            bytes: (m * k + weights * n * k + m * n) * size_of::<T>(),
            flops: 2 * weights * m * n * k,
        };
        let size = [m, n, k];
        bench.time::<T>("norm_linear", &size, work(1), |on| {
            kernels::norm_linear(on, &x, &gain, 1e-5, &w, &mut y)
        })?;
        bench.time::<T>("norm_swiglu", &size, work(2), |on| {
            kernels::norm_swiglu(on, &x, &gain, 1e-5, &w, &up, &mut y)
        })?;
        bench.time::<T>("linear_add", &size, work(1), |on| kernels::linear_add(on, &x, &w, &mut y))?;
    }
    Ok(())
}

/// Heads on their way to attention, and back: of a token and of a prompt.
fn heads<T: Float>(bench: &mut Bench) -> Result<(), Error> {
    let [h, g, l, d] = bench.size([32, 8, 4096, 128], [4, 2, 9, 16]);
    for m in [1, bench.size([4096], [5])[0]] {
        let (qkv, at) = (bench.random::<T>(&[1, m, h + 2 * g, d])?, bench.integers(m, |n| n)?);
        let at = at.reshaped(&[1, m])?;
        let [cos, sin] = [bench.random::<f32>(&[m, d / 2])?, bench.random::<f32>(&[m, d / 2])?];
        let (mut q, mut y) = (bench.empty::<T>(&[1, h, m, d])?, bench.empty::<T>(&[1, m, h, d])?);
        let [mut kc, mut vc] = [bench.empty::<T>(&[1, g, l, d])?, bench.empty::<T>(&[1, g, l, d])?];
        let work = Work::bytes(2 * m * (h + 2 * g) * d * size_of::<T>() + 4 * m * d);
        bench.time::<T>("rope_append", &[1, m, h, g, d], work, |on| {
            kernels::rope_append(on, &qkv, &at, &at, [&cos, &sin], &mut q, [&mut kc, &mut vc])
        })?;
        let work = Work::bytes(2 * m * h * d * size_of::<T>());
        bench.time::<T>("merge_heads", &[1, m, h, d], work, |on| kernels::merge_heads(on, &q, &mut y))?;
    }
    Ok(())
}

/// Elements.
fn elements<T: Float>(bench: &mut Bench) -> Result<(), Error> {
    let [r, n] = bench.size([1 << 13, 1 << 13], [2, 100]);
    let (x, u) = (bench.random::<T>(&[r, n])?, bench.random::<T>(&[r, n])?);
    let mut y = bench.empty::<T>(&[r, n])?;
    let (size, work) = ([r, n], |tensors: usize| Work::bytes(tensors * r * n * size_of::<T>()));
    bench.time::<T>("silu", &size, work(2), |on| kernels::silu(on, &x, &mut y))?;
    bench.time::<T>("gelu", &size, work(2), |on| kernels::gelu(on, &x, &mut y))?;
    bench.time::<T>("gelu_tanh", &size, work(2), |on| kernels::gelu_tanh(on, &x, &mut y))?;
    bench.time::<T>("swiglu", &size, work(3), |on| kernels::swiglu(on, &x, &u, &mut y))?;
    bench.time::<T>("add", &size, work(3), |on| kernels::add(on, &x, &u, &mut y))?;
    let [mut p, mut m, mut v] = [bench.empty::<f32>(&size)?, bench.empty(&size)?, bench.empty(&size)?];
    let moved = Work::bytes(r * n * (size_of::<T>() + 24));
    let by = kernels::AdamW::default();
    bench.time::<T>("adamw", &size, moved, |on| kernels::adamw(on, by, 1, &x, &mut p, &mut m, &mut v))
}

/// Matrices by columns, and the product of a matrix and a vector.
fn matrices<T: Float>(bench: &mut Bench) -> Result<(), Error> {
    let each = size_of::<T>();
    let size @ [m, n] = bench.size([1 << 14, 1 << 13], [70, 72]);
    let x = bench.random::<T>(&size)?;
    let (mut turned, mut sums) = (bench.empty::<T>(&[n, m])?, bench.empty::<f32>(&[n])?);
    let moved = m * n * each;
    bench.time::<T>("transpose", &size, Work::bytes(2 * moved), |on| {
        kernels::transpose(on, &x, &mut turned)
    })?;
    let work = Work::bytes(moved + 4 * n);
    bench.time::<T>("column_sum", &size, work, |on| kernels::column_sum(on, &x, &mut sums))?;
    let (v, mut y) = (bench.random::<T>(&[1, n])?, bench.empty::<T>(&[1, m])?);
    let work = Work::bytes(moved + (m + n) * each);
    bench.time::<T>("linear", &[1, m, n], work, |on| kernels::linear(on, &v, &x, None, &mut y))
}

/// Products: rows of one token, of a few, of a batch, of a prompt.
fn products<T: Float>(bench: &mut Bench) -> Result<(), Error> {
    let [n, k] = bench.size([14336, 4096], [70, 72]);
    let (w, b) = (bench.random::<T>(&[n, k])?, bench.random::<T>(&[n])?);
    let gpu = bench.device.is_gpu();
    let rows: &[usize] = if gpu { &[1, 8, 64, 512, 4096] } else { &[1, 8, 18] };
    for &m in rows {
        let (x, mut y) = (bench.random::<T>(&[m, k])?, bench.empty::<T>(&[m, n])?);
        let work = || Work { bytes: (m * k + n * k + m * n) * size_of::<T>(), flops: 2 * m * n * k };
        bench.time::<T>("linear", &[m, n, k], work(), |on| kernels::linear(on, &x, &w, None, &mut y))?;
        bench.time::<T>("linear, bias", &[m, n, k], work(), |on| {
            kernels::linear(on, &x, &w, Some(&b), &mut y)
        })?;
    }
    Ok(())
}

/// Attention: of a prompt, of a token of many sequences, and of one.
fn attention<T: Float>(bench: &mut Bench) -> Result<(), Error> {
    // Batch, heads of queries and of keys, queries, keys, elements of a head.
    let prompt = bench.size([4, 32, 8, 4096, 4096, 128], [1, 2, 1, 9, 9, 16]);
    let token = bench.size([32, 32, 8, 1, 4096, 128], [1, 2, 1, 1, 600, 16]);
    let alone = bench.size([1, 32, 8, 1, 4096, 128], [1, 2, 1, 1, 300, 16]);
    for (size @ [b, h, g, m, n, d], causal) in [(prompt, false), (prompt, true), (token, true), (alone, true)]
    {
        let (q, mut o) = (bench.random::<T>(&[b, h, m, d])?, bench.empty::<T>(&[b, h, m, d])?);
        let (k, v) = (bench.random::<T>(&[b, g, n, d])?, bench.random::<T>(&[b, g, n, d])?);
        // Half of the pairs of queries and keys, where a prompt is causal.
        let pairs = if causal && m > 1 { m * (m + 1) / 2 + m * (n - m) } else { m * n };
        let bytes = 2 * (b * h * m * d + b * g * n * d) * size_of::<T>();
        let work = Work { bytes, flops: 4 * b * h * pairs * d };
        let name = if causal { "attention, causal" } else { "attention" };
        let scale = 1.0 / (d as f32).sqrt();
        bench.time::<T>(name, &size, work, |on| kernels::attention(on, &q, &k, &v, scale, causal, &mut o))?;
    }
    Ok(())
}

/// Integers that are counted: into bins that a CTA's memory holds, and into many. They are random, so that some meet.
fn integers(bench: &mut Bench) -> Result<(), Error> {
    let few = bench.size([1 << 28, 256], [1000, 256]);
    let some = bench.size([1 << 26, 1 << 12], [1000, 1 << 12]);
    let many = bench.size([1 << 26, 1 << 16], [100, 9000]);
    for size @ [n, b] in [few, some, many] {
        let mut rng = ChaCha8Rng::seed_from_u64(b as u64);
        let drawn: Vec<usize> = (0..n.min(1 << 20)).map(|_| rng.random_range(0..b)).collect();
        let (x, mut h) = (bench.integers(n, |i| drawn[i % drawn.len()])?, bench.empty::<i32>(&[b])?);
        bench.time::<i32>("histogram", &size, Work::bytes(4 * n), |on| kernels::histogram(on, &x, &mut h))?;
    }
    Ok(())
}

/// Layers of narrow types, into bf16: weights beyond L2 for few rows, and prompts.
fn narrow(bench: &mut Bench) -> Result<(), Error> {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let few = bench.size([28672, 8192], [128, 256]);
    let [square, large] = [bench.size([4096, 4096], [128, 128]), bench.size([8192, 8192], [128, 128])];
    let prompt = |[n, k]: [usize; 2]| [n.max(k), n, k];
    let sizes = [[1, few[0], few[1]], [16, few[0], few[1]], prompt(square), prompt(large)];
    for size @ [m, n, k] in sizes {
        let bytes = |len: usize, rng: &mut ChaCha8Rng| -> Vec<u8> {
            let drawn: Vec<u8> = (0..len.min(1 << 20)).map(|_| rng.random()).collect();
            drawn.iter().copied().cycle().take(len).collect()
        };
        let mut y = bench.empty::<bf16>(&[m, n])?;
        let work = |bytes: usize| Work { bytes: bytes + 2 * m * n, flops: 2 * m * n * k };

        let signed = |bytes: Vec<u8>| bytes.into_iter().map(|x| x as i8).collect::<Vec<i8>>();
        let x = Buffer::from_slice(&bench.device, &signed(bytes(m * k, &mut rng)), &[m, k])?;
        let w = Buffer::from_slice(&bench.device, &signed(bytes(n * k, &mut rng)), &[n, k])?;
        let (xs, ws) = (bench.random::<f32>(&[m])?, bench.random::<f32>(&[n])?);
        bench.time::<i8>("linear_i8", &size, work((m + n) * k), |on| {
            kernels::linear_i8(on, &x, &xs, &w, &ws, &mut y)
        })?;

        let groups = k / kernels::GROUP;
        let four_bits = |bytes: Vec<u8>| bytes.into_iter().map(|q| q % 16).collect::<Vec<u8>>();
        let words = kernels::pack_i4(&four_bits(bytes(n * k, &mut rng)));
        let q = Buffer::from_slice(&bench.device, &words, &[n, k / 8])?;
        let zero = four_bits(bytes(n * groups, &mut rng));
        let zero = Buffer::from_slice(&bench.device, &zero, &[n, groups])?;
        let (x, scale) = (bench.random::<bf16>(&[m, k])?, bench.random::<bf16>(&[n, groups])?);
        bench.time::<bf16>("linear_i4", &size, work(2 * m * k + n * k / 2 + 3 * n * groups), |on| {
            kernels::linear_i4(on, &x, &q, &scale, &zero, &mut y)
        })?;

        let (x, w) = (bench.random::<f8>(&[m, k])?, bench.random::<f8>(&[n, k])?);
        let (xs, ws) = (bench.random::<f32>(&[groups, m])?, bench.random::<f32>(&[n / 128, groups])?);
        bench.time::<f8>("linear_f8", &size, work((m + n) * k), |on| {
            kernels::linear_f8(on, &x, &xs, &w, &ws, &mut y)
        })?;
    }
    Ok(())
}

/// Sums so far: of many rows, a row a CTA, and of one long row, which CTAs share out.
fn scans<T: Float>(bench: &mut Bench) -> Result<(), Error> {
    let sizes = [bench.size([1 << 13, 1 << 14], [2, 1030]), bench.size([1, 1 << 28], [1, 20000])];
    for size @ [r, n] in sizes {
        let (x, mut y) = (bench.random::<T>(&size)?, bench.empty::<T>(&size)?);
        let mut count = bench.empty::<i32>(&[r])?;
        let moved = r * n * size_of::<T>();
        bench.time::<T>("cumsum", &size, Work::bytes(2 * moved), |on| kernels::cumsum(on, &x, &mut y))?;
        // Half of the elements stay.
        bench.time::<T>("compact", &size, Work::bytes(moved + moved / 2), |on| {
            kernels::compact(on, &x, 0.0, &mut y, &mut count)
        })?;
        bench.time::<T>("dropout", &size, Work::bytes(2 * moved), |on| {
            kernels::dropout(on, 0.1, 7, &x, &mut y)
        })?;
    }
    Ok(())
}

/// What is timed together: its name, and how in f32 and in bf16.
type Group = (&'static str, [fn(&mut Bench) -> Result<(), Error>; 2]);

const GROUPS: [Group; 13] = [
    ("tokens", [tokens::<f32>, tokens::<bf16>]),
    ("experts", [experts::<f32>, experts::<bf16>]),
    ("pages", [pages::<f32>, pages::<bf16>]),
    ("rows", [rows::<f32>, rows::<bf16>]),
    ("matrices", [matrices::<f32>, matrices::<bf16>]),
    ("elements", [elements::<f32>, elements::<bf16>]),
    ("heads", [heads::<f32>, heads::<bf16>]),
    ("fused", [fused::<f32>, fused::<bf16>]),
    ("products", [products::<f32>, products::<bf16>]),
    ("attention", [attention::<f32>, attention::<bf16>]),
    ("narrow", [|_| Ok(()), narrow]),
    ("scans", [scans::<f32>, scans::<bf16>]),
    ("integers", [|_| Ok(()), integers]),
];

fn main() -> Result<(), Error> {
    let named: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = named.iter().find(|name| GROUPS.iter().all(|(known, _)| known != name)) {
        let known: Vec<&str> = GROUPS.iter().map(|(name, _)| *name).collect();
        eprintln!("there are no functions `{unknown}`: there are {}", known.join(", "));
        std::process::exit(2);
    }
    let device = Device::auto()?;
    let header = ["function", "type", "size", "ms", "GB/s", "TFLOP/s"].map(String::from);
    let stream = Stream::default_of(&device);
    let mut bench = Bench { device, stream, lines: vec![header.to_vec()] };
    for dtype in 0..2 {
        let some = GROUPS.iter().filter(|(name, _)| named.is_empty() || named.iter().any(|n| n == name));
        some.into_iter().try_for_each(|(_, time)| time[dtype](&mut bench))?;
    }
    println!("{}", bench.device.name());
    print!("{}", aligned(&bench.lines, 3));
    Ok(())
}
