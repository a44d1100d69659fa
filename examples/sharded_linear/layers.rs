//! The layers, spread over devices, of this process or of several.

use super::{kernel::linear, product};
use std::{ops::Range, time::Instant};
use tilewright::{AnySchedule, Buffer, Communicator, Device, Error, Float, LaunchReport, Prepared, Stream};

/// Row-major matrices of relu(x·first + bias)·second.
pub struct Layers<T> {
    /// Rows of x, its columns and those of the result, columns of `first`.
    pub sizes: [usize; 3],
    pub x: Vec<T>,
    pub first: Vec<T>,
    pub bias: Vec<T>,
    pub second: Vec<T>,
}

/// What one device has.
struct Shard<T> {
    first: Buffer<T>,
    bias: Buffer<T>,
    second: Buffer<T>,
    linear: Prepared<linear>,
    matmul: Prepared<product::matmul>,
    compute: Stream,
    tiles: Vec<Tile<T>>,
}

/// Rows of the batch, in memory of their own: what is under way on one tile does not hold up another.
struct Tile<T> {
    x: Buffer<T>,
    hidden: Buffer<T>,
    y: Buffer<T>,
}

/// The layers on their devices.
pub struct Sharded<'a, T> {
    layers: &'a Layers<T>,
    schedule: &'static dyn AnySchedule,
    all: &'a Communicator,
    /// Those of this process.
    shards: Vec<Shard<T>>,
    /// A stream of each device on which tiles are reduced.
    reduce: Vec<Stream>,
}

/// Rounds of which the median counts.
const ROUNDS: usize = 20;

/// The `at`-th of so many parts of a range from 0 on.
fn part(length: usize, at: usize, parts: usize) -> Range<usize> {
    length * at / parts..length * (at + 1) / parts
}

impl<'a, T: Float> Sharded<'a, T> {
    /// Puts the layers on devices: columns of `first`, rows of `second`. The product has the schedule of the same name;
    /// `dependent`, which matmul does not have, extends its best on Hopper. So many multiprocessors are left to the reductions.
    pub fn new(
        layers: &'a Layers<T>,
        all: &'a Communicator,
        schedule: &'static dyn AnySchedule,
        tiles: usize,
        leave: u32,
    ) -> Result<Self, Error> {
        let [m, n, hidden] = layers.sizes;
        let named = |s: &&&'static dyn AnySchedule| s.name() == schedule.name();
        let second = product::SCHEDULES.iter().find(named).copied().unwrap_or(&product::wgmma_best);
        let shard = |(at, device): (usize, &Device)| -> Result<Shard<T>, Error> {
            let columns = part(hidden, all.rank() + at, all.ranks());
            let width = columns.len();
            let first: Vec<T> =
                layers.first.chunks(hidden).flat_map(|row| row[columns.clone()].iter().copied()).collect();
            let tile = |t| -> Result<Tile<T>, Error> {
                let rows = part(m, t, tiles);
                Ok(Tile {
                    x: Buffer::from_slice(device, &layers.x[rows.start * n..rows.end * n], &[rows.len(), n])?,
                    hidden: Buffer::poisoned(device, &[rows.len(), width])?,
                    y: Buffer::poisoned(device, &[rows.len(), n])?,
                })
            };
            Ok(Shard {
                first: Buffer::from_slice(device, &first, &[n, width])?,
                bias: Buffer::from_slice(device, &layers.bias[columns.clone()], &[width])?,
                second: Buffer::from_slice(
                    device,
                    &layers.second[columns.start * n..columns.end * n],
                    &[width, n],
                )?,
                linear: Prepared::new(device, schedule, T::DTYPE)?,
                matmul: Prepared::new(device, second, T::DTYPE)?,
                compute: Stream::new(device)?.leaving(leave),
                tiles: (0..tiles).map(tile).collect::<Result<_, _>>()?,
            })
        };
        Ok(Sharded {
            layers,
            schedule,
            all,
            shards: all.devices().iter().enumerate().map(shard).collect::<Result<_, _>>()?,
            reduce: all.devices().iter().map(Stream::new).collect::<Result<_, _>>()?,
        })
    }

    /// Queues everything: tile by tile, both layers on each device, then the sum. Nothing waits for a tile but its own sum.
    fn queue(&mut self) -> Result<(), Error> {
        for t in 0..self.shards[0].tiles.len() {
            for shard in &mut self.shards {
                let Tile { x, hidden, y } = &mut shard.tiles[t];
                linear(x, &shard.first, &shard.bias, hidden)
                    .prepared(&shard.linear)
                    .enqueue(&shard.compute)?;
                product::matmul(hidden, &shard.second, y).prepared(&shard.matmul).enqueue(&shard.compute)?;
            }
            let mut parts: Vec<_> = self.shards.iter_mut().map(|shard| &mut shard.tiles[t].y).collect();
            self.all.all_reduce(&mut parts, &self.reduce)?;
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), Error> {
        self.shards.iter().map(|shard| &shard.compute).chain(&self.reduce).try_for_each(Stream::sync)
    }

    /// Runs once and says how the first launch of the first device went.
    pub fn run(&mut self) -> Result<LaunchReport, Error> {
        self.queue()?;
        self.sync()?;
        let Shard { tiles, first, bias, .. } = &mut self.shards[0];
        let Tile { x, hidden, .. } = &mut tiles[0];
        linear(x, first, bias, hidden).schedule_dyn(self.schedule).run()
    }

    /// Median milliseconds of a run, by the host's clock, from an empty queue to an empty queue; `None` on simulators.
    pub fn time(&mut self) -> Result<Option<f64>, Error> {
        if !self.all.devices()[0].is_gpu() {
            return Ok(None);
        }
        self.queue()?;
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            self.sync()?;
            let start = Instant::now();
            self.queue()?;
            self.sync()?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        Ok(Some(times[ROUNDS / 2]))
    }

    /// The result as each device of this process has it.
    pub fn results(&self) -> Result<Vec<Vec<T>>, Error> {
        let whole = |shard: &Shard<T>| -> Result<Vec<T>, Error> {
            let mut y = Vec::with_capacity(self.layers.sizes[0] * self.layers.sizes[1]);
            shard.tiles.iter().try_for_each(|tile| tile.y.to_vec().map(|rows| y.extend(rows)))?;
            Ok(y)
        };
        self.shards.iter().map(whole).collect()
    }
}
