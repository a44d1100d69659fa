//! Every collective against plain loops, and what is refused.

use super::{checks::everything, ranks, sim, text};
use tilewright::{Buffer, Communicator, Counts, Graph, Reduction, Stream, prelude::*};

/// x + 1, in place.
#[tile_kernel]
fn increment(x: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(x, [i], load(x, [i]) + 1.0);
}

schedule! {
    simple for increment { tile(i = 128); bind(i -> thread.x); }
}

#[test]
fn simulators_of_one_process() {
    for count in [1, 2, 3, 5] {
        let devices: Vec<Device> = (0..count).map(|_| sim()).collect();
        let all = Communicator::new(&devices).unwrap();
        assert_eq!((all.rank(), all.ranks()), (0, count));
        assert!(everything(&all).unwrap() > 300);
    }
}

#[test]
fn simulators_that_are_connected() {
    for count in [1, 2, 3, 4] {
        let checks = ranks(count, |all| {
            assert_eq!((all.devices().len(), all.ranks()), (1, count));
            everything(&all).unwrap()
        });
        assert!(checks.iter().all(|checks| *checks > 300), "{checks:?}");
    }
}

/// Sums depend on the order: 2048 + 1 is no f16, and what is lost depends on who comes first.
#[test]
fn sums_are_in_the_order_of_the_ranks() {
    let data = |rank: usize| [1e8f32, 1.0, -1e8, 1.0][rank];
    let results = ranks(4, |all| {
        let device = all.devices()[0].clone();
        let mut x = Buffer::from_slice(&device, &[data(all.rank())], &[1]).unwrap();
        for _ in 0..3 {
            x.copy_from(&[data(all.rank())]).unwrap();
            all.all_reduce(&mut [&mut x], &[Stream::new(&device).unwrap()]).unwrap();
        }
        x.to_vec().unwrap()[0]
    });
    // ((1e8 + 1) − 1e8) + 1, where 1e8 + 1 is 1e8 in f32.
    assert_eq!(results, [1.0; 4]);
}

#[test]
fn collectives_are_in_order_with_launches_and_in_graphs() {
    let results = ranks(3, |all| {
        let device = all.devices()[0].clone();
        let stream = Stream::new(&device).unwrap();
        let mut x = Buffer::<f32>::zeros(&device, &[200]).unwrap();
        for _ in 0..3 {
            increment(&mut x).schedule(simple).enqueue(&stream).unwrap();
            all.all_reduce(&mut [&mut x], std::slice::from_ref(&stream)).unwrap();
        }
        let mut graph = Graph::new(&device);
        for _ in 0..2 {
            Graph::replay_together(std::slice::from_mut(&mut graph), std::slice::from_ref(&stream), |on| {
                on[0].add(increment(&mut x).schedule(simple))?;
                all.all_reduce_by(Reduction::Max, &mut [&mut x], on)
            })
            .unwrap();
        }
        x.to_vec().unwrap()
    });
    // ((0 + 1)·3 + 1)·3 + 1, thrice, and two more.
    assert!(results.iter().all(|x| *x == [41.0; 200]), "{results:?}");
}

/// More bytes than sockets hold, in both directions at once.
#[test]
fn large_buffers_pass() {
    let count = 3 << 20;
    let sums = ranks(2, |all| {
        let device = all.devices()[0].clone();
        let data: Vec<u32> = (0..count).map(|n| n as u32 * (all.rank() as u32 + 1)).collect();
        let mut x = Buffer::from_slice(&device, &data, &[count]).unwrap();
        all.all_reduce(&mut [&mut x], &[Stream::new(&device).unwrap()]).unwrap();
        x.to_vec().unwrap()
    });
    for sums in sums {
        assert!(sums.iter().enumerate().all(|(n, sum)| *sum == 3 * n as u32));
    }
}

#[test]
fn arguments_that_cannot_be_are_refused() {
    let devices = [sim(), sim()];
    let all = Communicator::new(&devices).unwrap();
    let streams: Vec<Stream> = devices.iter().map(|device| Stream::new(device).unwrap()).collect();
    let zeros = |n: usize, count: usize| Buffer::<f32>::zeros(&devices[n], &[count]).unwrap();
    let (mut a, mut b, c, d) = (zeros(0, 6), zeros(1, 6), zeros(0, 6), zeros(1, 6));
    assert_eq!(
        text(all.broadcast(2, &mut [&mut a, &mut b], &streams)),
        "a collective: there is no rank 2: there are 2"
    );
    assert_eq!(
        text(all.reduce_scatter(Reduction::Max, &mut [&mut zeros(0, 5), &mut zeros(1, 5)], &streams)),
        "a collective: a tensor of shape [5] has no 2 equal parts, one a device"
    );
    assert_eq!(
        text(all.all_to_all(&[&c], &mut [&mut a, &mut b], &streams)),
        "a collective: 2 devices were given 1 buffers and 2 streams"
    );
    assert_eq!(
        text(all.all_to_all(&[&c, &d], &mut [&mut a, &mut zeros(1, 8)], &streams)),
        "an all_to_all from a tensor of shape [6] to one of shape [8]: they have as many elements"
    );
    assert_eq!(
        text(all.all_to_all(&[&d, &c], &mut [&mut a, &mut b], &streams)),
        "`from` lives on another simulator, and the launch is on simulator: create the buffer on that device"
    );
    let mut uneven = |sent: [&[usize]; 2], received: [&[usize]; 2]| {
        let counts = [0, 1].map(|n| Counts { sent: sent[n], received: received[n] });
        text(all.all_to_all_uneven(&[&c, &d], &mut [&mut a, &mut b], &counts, &streams))
    };
    assert_eq!(uneven([&[1], &[1, 1]], [&[1, 1]; 2]), "a collective: there are 2 ranks, and 1 counts");
    assert_eq!(
        uneven([&[3, 4], &[1, 1]], [&[1, 1]; 2]),
        "a collective: a tensor of shape [6] has fewer elements than rank 0 sends"
    );
    assert_eq!(
        uneven([&[1, usize::MAX], &[1, 1]], [&[1, 1]; 2]),
        "a collective: a tensor of shape [6] has fewer elements than rank 0 sends"
    );
    assert_eq!(
        uneven([&[3, 3], &[1, 1]], [&[3, 1], &[2, 1]]),
        "a collective: rank 0 sends 3 elements to rank 1, which receives 2"
    );
    assert_eq!(
        text(all.send(&c, 1, &streams[0])),
        "a collective: this process has 2 ranks: `exchange` says which of them sends or receives"
    );
    assert_eq!(
        text(all.exchange(&[(0, 1, &c)], &mut [], &streams)),
        "a collective: rank 0 sends messages of [6] elements to rank 1, which receives []"
    );
    assert_eq!(
        text(all.exchange(&[(0, 2, &c)], &mut [], &streams)),
        "a collective: there is no rank 2: there are 2"
    );
    assert_eq!(
        text(all.exchange(&[(1, 0, &c)], &mut [], &streams)),
        "`a message` lives on another simulator, and the launch is on simulator: create the buffer on that device"
    );
    assert_eq!(
        text(all.exchange::<f32>(&[], &mut [], &streams[..1])),
        "a collective: 2 devices were given 2 buffers and 1 streams"
    );
    let texts = ranks(2, |all| {
        let device = all.devices()[0].clone();
        let (x, on) = (Buffer::<f32>::zeros(&device, &[3]).unwrap(), Stream::new(&device).unwrap());
        let other = 1 - all.rank();
        let elsewhere = text(all.exchange(&[(other, all.rank(), &x)], &mut [], std::slice::from_ref(&on)));
        // Nobody receives: that is found here, before anything is sent.
        let own = text(all.send(&x, all.rank(), &on));
        (elsewhere, own)
    });
    assert_eq!(
        texts[0],
        (
            "a collective: rank 1 sends, and is of another process".to_string(),
            "a collective: rank 0 sends messages of [3] elements to rank 0, which receives []".to_string()
        )
    );
}
