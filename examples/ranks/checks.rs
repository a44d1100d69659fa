//! All collectives, on all types, at odd sizes, against plain loops. The numbers are small, so that no type rounds.

use tilewright::{Buffer, Communicator, Counts, Element, Error, Reducible, Reduction, Stream, prelude::*};

/// Elements of buffers that are combined or broadcast.
const COUNTS: [usize; 4] = [1, 7, 33, 1001];
/// Elements of the parts of those that are cut.
const PARTS: [usize; 3] = [1, 3, 37];

/// An element of a small number.
pub trait Sample: Element {
    /// Whether there are negative ones.
    const SIGNED: bool;
    fn of(n: i64) -> Self;
}

macro_rules! samples {
    ($($ty:ty, $signed:literal, |$n:ident| $of:expr;)*) => {
        $(impl Sample for $ty {
            const SIGNED: bool = $signed;
            fn of($n: i64) -> Self {
                $of
            }
        })*
    };
}

samples! {
    f32, true, |n| n as f32;
    f16, true, |n| f16::from_f64(n as f64);
    bf16, true, |n| bf16::from_f64(n as f64);
    f8, true, |n| <f8 as Float>::from_f64(n as f64);
    i32, true, |n| n as i32;
    u32, false, |n| n as u32;
    i8, true, |n| n as i8;
    u8, false, |n| n as u8;
    i64, true, |n| n;
    bool, false, |n| n % 2 == 1;
}

/// The number of a rank at a place: 0 to 3, or -2 to 1.
fn number<T: Sample>(rank: usize, place: usize) -> i64 {
    let n = ((rank * 7 + place * 5 + rank * place) % 4) as i64;
    if T::SIGNED { n - 2 } else { n }
}

fn of<T: Sample>(rank: usize, count: usize) -> Vec<T> {
    (0..count).map(|place| T::of(number::<T>(rank, place))).collect()
}

/// The ranks of this process with their streams.
struct Here<'a> {
    all: &'a Communicator,
    streams: Vec<Stream>,
    checks: usize,
}

fn refs<T>(buffers: &mut [Buffer<T>]) -> Vec<&mut Buffer<T>> {
    buffers.iter_mut().collect()
}

impl Here<'_> {
    /// A buffer a device, of what its rank has.
    fn buffers<T: Element>(&self, data: impl Fn(usize) -> Vec<T>) -> Result<Vec<Buffer<T>>, Error> {
        let one = |(place, device)| {
            let data = data(self.all.rank() + place);
            Buffer::from_slice(device, &data, &[data.len()])
        };
        self.all.devices().iter().enumerate().map(one).collect()
    }

    fn compare<T: Element>(
        &mut self,
        call: &str,
        buffers: &[Buffer<T>],
        expected: impl Fn(usize) -> Vec<T>,
    ) -> Result<(), Error> {
        for (place, buffer) in buffers.iter().enumerate() {
            let (rank, found) = (self.all.rank() + place, buffer.to_vec()?);
            let wanted = expected(rank);
            self.checks += 1;
            if found != wanted {
                let what = format!(
                    "{call} of {} {} on rank {rank} gives {found:?}, and not {wanted:?}",
                    found.len(),
                    T::DTYPE
                );
                return Err(Error::Shape(what));
            }
        }
        Ok(())
    }

    fn reductions<T: Sample + Reducible>(&mut self) -> Result<(), Error> {
        let (all, ranks) = (self.all, self.all.ranks());
        for reduction in [Reduction::Sum, Reduction::Max, Reduction::Min] {
            let reduced = |place: usize| {
                let each = (0..ranks).map(|rank| number::<T>(rank, place));
                T::of(match reduction {
                    Reduction::Sum => each.sum(),
                    Reduction::Max => each.max().unwrap_or(0),
                    Reduction::Min => each.min().unwrap_or(0),
                })
            };
            for count in COUNTS {
                let mut x = self.buffers(|rank| of::<T>(rank, count))?;
                all.all_reduce_by(reduction, &mut refs(&mut x), &self.streams)?;
                self.compare("all_reduce", &x, |_| (0..count).map(reduced).collect())?;
            }
            for part in PARTS {
                let count = part * ranks;
                let mut x = self.buffers(|rank| of::<T>(rank, count))?;
                all.reduce_scatter(reduction, &mut refs(&mut x), &self.streams)?;
                self.compare("reduce_scatter", &x, |rank| {
                    let mut expected = of::<T>(rank, count);
                    (rank * part..(rank + 1) * part).for_each(|place| expected[place] = reduced(place));
                    expected
                })?;
            }
        }
        // A part of a tensor.
        let mut x = self.buffers(|rank| of::<T>(rank, 35))?;
        let middle = 3..8;
        let mut views = x
            .iter_mut()
            .map(|x| x.slice_mut(std::slice::from_ref(&middle)))
            .collect::<Result<Vec<_>, _>>()?;
        let mut views: Vec<&mut Buffer<T>> = views.iter_mut().map(|view| &mut **view).collect();
        all.all_reduce(&mut views, &self.streams)?;
        self.compare("all_reduce of a view", &x, |rank| {
            let mut expected = of::<T>(rank, 35);
            for (place, x) in expected.iter_mut().enumerate().take(8).skip(3) {
                *x = T::of((0..ranks).map(|rank| number::<T>(rank, place)).sum());
            }
            expected
        })
    }

    fn moves<T: Sample>(&mut self) -> Result<(), Error> {
        let (all, ranks) = (self.all, self.all.ranks());
        for count in COUNTS {
            for root in 0..ranks {
                let mut x = self.buffers(|rank| of::<T>(rank, count))?;
                all.broadcast(root, &mut refs(&mut x), &self.streams)?;
                self.compare("broadcast", &x, |_| of::<T>(root, count))?;
            }
        }
        for part in PARTS {
            let count = part * ranks;
            let mut x = self.buffers(|rank| of::<T>(rank, count))?;
            all.all_gather(&mut refs(&mut x), &self.streams)?;
            self.compare("all_gather", &x, |_| {
                (0..count).map(|place| T::of(number::<T>(place / part, place))).collect()
            })?;
            let x = self.buffers(|rank| of::<T>(rank, count))?;
            let mut y = self.buffers(|_| vec![T::default(); count])?;
            all.all_to_all(&x.iter().collect::<Vec<_>>(), &mut refs(&mut y), &self.streams)?;
            self.compare("all_to_all", &y, |rank| {
                let at = |place: usize| (place / part, rank * part + place % part);
                (0..count).map(at).map(|(from, place)| T::of(number::<T>(from, place))).collect()
            })?;
        }
        self.uneven::<T>()?;
        self.ring::<T>()?;
        self.pair::<T>()
    }

    /// Parts of every size, some of none, in buffers that are longer.
    fn uneven<T: Sample>(&mut self) -> Result<(), Error> {
        let (all, ranks) = (self.all, self.all.ranks());
        let length = |from: usize, to: usize| (3 * from + 5 * to + from * to) % 4 * 3;
        let sent = |rank: usize| (0..ranks).map(|to| length(rank, to)).collect::<Vec<_>>();
        let received = |rank: usize| (0..ranks).map(|from| length(from, rank)).collect::<Vec<_>>();
        let room = 9 * ranks + 2;
        let places = 0..all.devices().len();
        let counts: Vec<_> =
            places.map(|place| (sent(all.rank() + place), received(all.rank() + place))).collect();
        let counts: Vec<_> = counts.iter().map(|(sent, received)| Counts { sent, received }).collect();
        let x = self.buffers(|rank| of::<T>(rank, room))?;
        let mut y = self.buffers(|_| vec![T::of(1); room])?;
        all.all_to_all_uneven(&x.iter().collect::<Vec<_>>(), &mut refs(&mut y), &counts, &self.streams)?;
        self.compare("all_to_all_uneven", &y, |rank| {
            let part = |from: usize| {
                let before: usize = sent(from)[..rank].iter().sum();
                (before..before + length(from, rank)).map(move |place| T::of(number::<T>(from, place)))
            };
            let mut expected: Vec<T> = (0..ranks).flat_map(part).collect();
            expected.resize(room, T::of(1));
            expected
        })
    }

    /// Each sends to the next, and receives of the one before, as many as its number says.
    fn ring<T: Sample>(&mut self) -> Result<(), Error> {
        let (all, ranks) = (self.all, self.all.ranks());
        let length = |rank: usize| 2 * rank + 1;
        let before = |rank: usize| (rank + ranks - 1) % ranks;
        let x = self.buffers(|rank| of::<T>(rank, length(rank)))?;
        let mut y = self.buffers(|rank| vec![T::default(); length(before(rank))])?;
        let sends: Vec<_> =
            x.iter().enumerate().map(|(n, x)| (all.rank() + n, (all.rank() + n + 1) % ranks, x)).collect();
        let receives = y.iter_mut().enumerate().map(|(n, y)| (before(all.rank() + n), all.rank() + n, y));
        all.exchange(&sends, &mut receives.collect::<Vec<_>>(), &self.streams)?;
        self.compare("exchange", &y, |rank| of::<T>(before(rank), length(before(rank))))
    }

    /// The first sends to the last, which answers.
    fn pair<T: Sample>(&mut self) -> Result<(), Error> {
        let (all, last) = (self.all, self.all.ranks() - 1);
        if all.devices().len() > 1 || last == 0 {
            return Ok(());
        }
        let mut x = self.buffers(|rank| of::<T>(rank, 19))?;
        let (on, x0) = (&self.streams[0], &mut x[0]);
        if all.rank() == 0 {
            all.send(x0, last, on)?;
            all.receive(x0, last, on)?;
        } else if all.rank() == last {
            let mut y = Buffer::<T>::zeros(&all.devices()[0], &[19])?;
            all.receive(&mut y, 0, on)?;
            all.send(x0, 0, on)?;
            self.compare("receive", &[y], |_| of::<T>(0, 19))?;
        }
        self.compare("receive", &x, |rank| of::<T>(if rank == 0 { last } else { rank }, 19))
    }
}

/// Checks everything; every process of a communicator calls it. Returns how many results were compared in this one.
///
/// # Errors
/// [`Error::Shape`] with what differs; those of the calls.
pub fn everything(all: &Communicator) -> Result<usize, Error> {
    let streams = all.devices().iter().map(Stream::new).collect::<Result<_, _>>()?;
    let mut here = Here { all, streams, checks: 0 };
    macro_rules! numbers {
        ($($ty:ty),*) => { $(here.reductions::<$ty>()?; here.moves::<$ty>()?;)* };
    }
    numbers!(f32, f16, bf16, f8, i32, u32, i8, u8, i64);
    here.moves::<bool>()?;
    Ok(here.checks)
}
