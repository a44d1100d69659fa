//! Graphs and dependent launches.

use super::{kernels::*, product};
use tilewright::{Communicator, DType, Error, Graph, prelude::*};

#[test]
fn a_graph_is_replayed_with_new_pointers_and_sizes() {
    let Some(gpu) = gpu() else { return };
    let (kernel, split) = (by_rows.prepare(&gpu, None).unwrap(), parts.prepare(&gpu, DType::F32).unwrap());
    let streams = [Stream::new(&gpu).unwrap(), Stream::new(&gpu).unwrap()];
    let mut graph = Graph::new(&gpu);
    let a = Buffer::from_slice(&gpu, &vec![1.0f32; 256 * 256], &[256, 256]).unwrap();
    for (round, rows) in [64, 64, 128, 128, 64].into_iter().enumerate() {
        // New ones each time, some freed while the graph runs.
        let mut x = Buffer::<f32>::zeros(&gpu, &[rows, 1000]).unwrap();
        let mut c = Buffer::<f32>::poisoned(&gpu, &[256, 256]).unwrap();
        let kernels = 12;
        let replayed = graph
            .replay(&streams[round % 2], |launches| {
                launches.add(matmul(&a, &a, &mut c).prepared(&split))?;
                for _ in 1..kernels {
                    launches.add(increment(&mut x).prepared(&kernel))?;
                }
                Ok(())
            })
            .unwrap();
        assert_eq!((replayed.launches, replayed.made), (12, round == 0));
        assert!(c.to_vec().unwrap().iter().all(|c| *c == 256.0), "round {round}");
        assert!(x.to_vec().unwrap().iter().all(|x| *x == 11.0), "round {round}");
        // The same again changes nothing; without waiting between.
        for _ in 0..3 {
            let replayed = graph.replay(&streams[round % 2], |launches| {
                launches.add(matmul(&a, &a, &mut c).prepared(&split))?;
                for _ in 1..kernels {
                    launches.add(increment(&mut x).prepared(&kernel))?;
                }
                Ok(())
            });
            assert_eq!(replayed.unwrap().changed, 0);
        }
        assert!(x.to_vec().unwrap().iter().all(|x| *x == 44.0), "round {round}");
    }
    // Another number of launches makes another graph.
    let mut x = Buffer::<f32>::zeros(&gpu, &[64, 1000]).unwrap();
    let replayed =
        graph.replay(&streams[0], |launches| launches.add(increment(&mut x).prepared(&kernel)).map(drop));
    assert!(replayed.unwrap().made);
    drop(graph);
    assert!(x.to_vec().unwrap().iter().all(|x| *x == 1.0));
}

/// Launches, sums and gathered parts in turn, in a graph a device: all GPUs, and the first alone.
#[test]
fn graphs_hold_collectives() {
    let Some(first) = gpu() else { return };
    for devices in [vec![first], Device::all().unwrap()] {
        let all = match Communicator::new(&devices) {
            Err(Error::NoNccl { why }) => {
                eprintln!("skipped: {why}");
                return;
            }
            other => other.unwrap(),
        };
        let count = devices.len();
        let kernels: Vec<_> = devices.iter().map(|d| by_rows.prepare(d, None).unwrap()).collect();
        let streams: Vec<_> = devices.iter().map(|d| Stream::new(d).unwrap()).collect();
        let mut graphs: Vec<_> = devices.iter().map(Graph::new).collect();
        let zeros =
            || devices.iter().map(|d| Buffer::<f32>::zeros(d, &[count, 1024]).unwrap()).collect::<Vec<_>>();
        let mut buffers = [zeros(), zeros()];
        let mut expected = [0.0f32; 2];
        for round in 0..12 {
            // The other buffers in two rounds: the graphs are made anew.
            let at = usize::from(round / 2 == 3);
            let x = &mut buffers[at];
            let replayed = Graph::replay_together(&mut graphs, &streams, |on| {
                for _ in 0..3 {
                    for ((x, on), kernel) in x.iter_mut().zip(on).zip(&kernels) {
                        on.add(increment(x).prepared(kernel))?;
                        on.add(increment(x).prepared(kernel))?;
                    }
                    all.all_reduce(&mut x.iter_mut().collect::<Vec<_>>(), on)?;
                }
                // One row of each counts.
                all.all_gather(&mut x.iter_mut().collect::<Vec<_>>(), on)
            });
            let made = round == 0 || count > 1 && [6, 8].contains(&round);
            for replayed in replayed.unwrap() {
                assert_eq!((replayed.launches, replayed.made), (6, made), "round {round} of {count}");
            }
            // They stay small enough to be exact.
            (0..3).for_each(|_| expected[at] = (expected[at] + 2.0) * count as f32);
            if expected[at] > 1e3 {
                streams.iter().for_each(|stream| stream.sync().unwrap());
                for x in x.iter_mut() {
                    assert!(x.to_vec().unwrap().iter().all(|x| *x == expected[at]), "{count} devices");
                    x.copy_from(&vec![0.0; count * 1024]).unwrap();
                }
                expected[at] = 0.0;
            }
        }
        // The communicator may go before the graphs.
        drop(all);
        for (buffers, expected) in buffers.iter().zip(expected) {
            assert!(buffers.iter().all(|x| x.to_vec().unwrap().iter().all(|x| *x == expected)), "{count}");
        }
        drop(graphs);
        // Rows that differ: each device gets the others' in a graph.
        let all = Communicator::new(&devices).unwrap();
        let mut graphs: Vec<_> = devices.iter().map(Graph::new).collect();
        let mut rows: Vec<_> = (0..count)
            .map(|d| Buffer::from_slice(&devices[d], &vec![d as f32; count * 1024], &[count, 1024]).unwrap())
            .collect();
        Graph::replay_together(&mut graphs, &streams, |on| {
            rows.iter_mut()
                .zip(on)
                .zip(&kernels)
                .try_for_each(|((x, on), kernel)| on.add(increment(x).prepared(kernel)).map(drop))?;
            all.all_gather(&mut rows.iter_mut().collect::<Vec<_>>(), on)
        })
        .unwrap();
        for x in &rows {
            let x = x.to_vec().unwrap();
            assert!(
                (0..count).all(|d| x[d * 1024..][..1024].iter().all(|x| *x == d as f32 + 1.0)),
                "{count}"
            );
        }
    }
}

/// `split_k(..; atomic)` clears its result in the graph, whatever buffer it is.
#[test]
fn a_graph_clears_what_is_added_up() {
    let Some(gpu) = gpu() else { return };
    let kernel = added.prepare(&gpu, DType::F32).unwrap();
    let stream = Stream::new(&gpu).unwrap();
    let mut graph = Graph::new(&gpu);
    let a = Buffer::from_slice(&gpu, &vec![1.0f32; 256 * 256], &[256, 256]).unwrap();
    for round in 0..4 {
        let mut c = Buffer::<f32>::poisoned(&gpu, &[256, 256]).unwrap();
        let mut again = Buffer::<f32>::poisoned(&gpu, &[256, 256]).unwrap();
        let replayed = graph.replay(&stream, |launches| {
            launches.add(matmul(&a, &a, &mut c).prepared(&kernel))?;
            launches.add(matmul(&c, &a, &mut again).prepared(&kernel))?;
            launches.add(matmul(&a, &a, &mut c).prepared(&kernel)).map(drop)
        });
        let replayed = replayed.unwrap();
        assert_eq!((replayed.launches, replayed.made), (3, round == 0));
        assert!(c.to_vec().unwrap().iter().all(|c| *c == 256.0), "round {round}");
        assert!(again.to_vec().unwrap().iter().all(|c| *c == 65536.0), "round {round}");
    }
    // A view has gaps, which are cleared run by run: another number of steps, another graph.
    let mut whole = Buffer::<f32>::poisoned(&gpu, &[256, 300]).unwrap();
    let mut c = whole.slice_mut(&[0..256, 4..260]).unwrap();
    let replayed =
        graph.replay(&stream, |launches| launches.add(matmul(&a, &a, &mut c).prepared(&kernel)).map(drop));
    assert!(replayed.unwrap().made);
    assert!(c.to_vec().unwrap().iter().all(|c| *c == 256.0));
    let beside = |(n, x): (usize, &f32)| (4..260).contains(&(n % 300)) || x.is_nan();
    assert!(whole.to_vec().unwrap().iter().enumerate().all(beside));
}

/// Tensors that no tensor map addresses are copied to padded rows, and back, in the graph, whatever buffers they are.
#[test]
fn a_graph_copies_to_padded_rows() {
    let Some(gpu) = gpu().filter(|gpu| gpu.sm() == Some(90)) else {
        eprintln!("skipped: needs a GPU of compute capability 9.0");
        return;
    };
    let (stream, mut graph) = (Stream::new(&gpu).unwrap(), Graph::new(&gpu));
    let kernel = product::tma_store.prepare(&gpu, DType::BF16).unwrap();
    let (m, n, k) = (136, 257, 129);
    let ones = |rows: usize, columns: usize| {
        Buffer::from_slice(&gpu, &vec![bf16::ONE; rows * columns], &[rows, columns]).unwrap()
    };
    for round in 0..4 {
        let (a, b) = (ones(m, k), ones(k, n));
        let mut c = Buffer::<bf16>::poisoned(&gpu, &[m, n]).unwrap();
        for again in 0..2 {
            let replayed = graph.replay(&stream, |launches| {
                launches.add(product::matmul(&a, &b, &mut c).prepared(&kernel)).map(drop)
            });
            let replayed = replayed.unwrap();
            assert!(again == 0 || replayed.changed == 0, "round {round}: {replayed:?}");
            assert_eq!(replayed.made, round + again == 0, "round {round}: {replayed:?}");
        }
        assert!(c.to_vec().unwrap().iter().all(|c| c.to_f32() == 129.0), "round {round}");
    }
}

/// Dependent launches among others, copies and waits for other streams: each sees what was before it.
#[test]
fn dependent_launches_are_in_order() {
    let Some(gpu) = gpu().filter(|gpu| gpu.sm().is_some_and(|sm| sm >= 90)) else {
        eprintln!("skipped: needs a GPU of compute capability 9.0");
        return;
    };
    let (one, plain) = (early.prepare(&gpu, None).unwrap(), by_rows.prepare(&gpu, None).unwrap());
    let (stream, other) = (Stream::new(&gpu).unwrap(), Stream::new(&gpu).unwrap());
    // More CTAs than the GPU holds, and less than it has multiprocessors.
    for rows in [20_000, 64] {
        let mut x = Buffer::<f32>::zeros(&gpu, &[rows, 1024]).unwrap();
        let mut y = Buffer::<f32>::poisoned(&gpu, &[rows, 1024]).unwrap();
        let mut graph = Graph::new(&gpu);
        let mut sum = 0;
        for round in 0..50 {
            for _ in 0..20 {
                increment(&mut x).prepared(&one).enqueue(&stream).unwrap();
            }
            increment(&mut x).prepared(&plain).enqueue(&stream).unwrap();
            increment(&mut x).prepared(&one).enqueue(&stream).unwrap();
            y.copy_from_buffer(&x, &stream).unwrap();
            // On another stream, behind the copy; then back.
            let on = if round % 2 == 0 { &other } else { &stream };
            (0..3).for_each(|_| drop(increment(&mut y).prepared(&one).enqueue(on).unwrap()));
            x.copy_from_buffer(&y, &stream).unwrap();
            graph
                .replay(&stream, |launches| {
                    (0..8).try_for_each(|at| {
                        let kernel = if at == 5 && round % 3 == 0 { &plain } else { &one };
                        launches.add(increment(&mut x).prepared(kernel)).map(drop)
                    })
                })
                .unwrap();
            sum += 20 + 2 + 3 + 8;
        }
        stream.sync().unwrap();
        let x = x.to_vec().unwrap();
        assert!(x.iter().all(|x| *x == sum as f32), "{rows} rows: {} instead of {sum}", x[0]);
    }
    // By tensor maps, with rows that are copied to padded ones before and back afterwards.
    if gpu.sm() == Some(90) {
        let kernel = layers_early.prepare(&gpu, DType::BF16).unwrap();
        for n in [256, 257] {
            let eye: Vec<bf16> =
                (0..n * n).map(|i| bf16::from_f32(f32::from(u8::from(i / n == i % n)))).collect();
            let turn = Buffer::from_slice(&gpu, &eye, &[n, n]).unwrap();
            let data: Vec<bf16> = (0..n * n).map(|i| bf16::from_f32((i % 251) as f32)).collect();
            let mut here = Buffer::from_slice(&gpu, &data, &[n, n]).unwrap();
            let mut there = Buffer::<bf16>::poisoned(&gpu, &[n, n]).unwrap();
            for _ in 0..100 {
                product::matmul(&here, &turn, &mut there).prepared(&kernel).enqueue(&stream).unwrap();
                product::matmul(&turn, &there, &mut here).prepared(&kernel).enqueue(&stream).unwrap();
            }
            assert!(here.to_vec().unwrap() == data, "{n} columns");
        }
    }
}

/// A kernel that is launched again is a graph of its own: with other arguments, sizes and variants it has the bits of a plain
/// launch, clusters, roles and splits too.
#[test]
fn launches_made_again_have_the_bits_of_plain_ones() {
    let Some(gpu) = gpu() else { return };
    let schedules: [&dyn AnySchedule; 9] = [
        &product::tma_wgmma,
        &product::cluster,
        &product::stmatrix,
        &product::wgmma_best,
        &product::swapped160,
        &product::swapped152,
        &product::tile64_clustered2,
        &product::tile64x128_clustered2,
        &product::mma_best,
    ];
    let stream = Stream::new(&gpu).unwrap();
    let sizes = [[256usize, 512, 256], [264, 520, 200], [256, 512, 256], [131, 257, 72], [512, 256, 128]];
    for schedule in schedules {
        for [m, n, k] in [sizes, sizes].concat() {
            let of = |count: usize, by: f32| -> Vec<bf16> {
                numbers(count).into_iter().map(|x| bf16::from_f32(x * by)).collect()
            };
            let a = Buffer::from_slice(&gpu, &of(m * k, 1.0), &[m, k]).unwrap();
            let b = Buffer::from_slice(&gpu, &of(k * n, 0.5), &[k, n]).unwrap();
            let mut plain = Buffer::<bf16>::poisoned(&gpu, &[m, n]).unwrap();
            product::matmul(&a, &b, &mut plain).schedule_dyn(schedule).timed().run().unwrap();
            let mut again = Buffer::<bf16>::poisoned(&gpu, &[m, n]).unwrap();
            product::matmul(&a, &b, &mut again).schedule_dyn(schedule).enqueue(&stream).unwrap();
            let (plain, again) = (plain.to_vec().unwrap(), again.to_vec().unwrap());
            let same = plain.iter().zip(&again).all(|(x, y)| x.to_bits() == y.to_bits());
            assert!(same, "{}: {m}x{n}x{k}", schedule.name());
        }
    }
}
