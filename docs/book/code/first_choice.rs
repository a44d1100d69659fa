//! "Without a schedule".

// ANCHOR: kernel
use tilewright::prelude::*;

/// y = x − log Σ exp x for each row: logarithms of the probabilities that softmax gives.
#[tile_kernel]
pub fn log_softmax(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R, N>) {
    let r = program_tile(R);
    let n = whole(N);
    let v = load(x, [r, n]);
    let m = max(v, n);
    let l = sum(exp(v - m), n);
    store(y, [r, n], v - m - log(l));
}
// ANCHOR_END: kernel

const ROWS: usize = 6;
const LENGTH: usize = 1000;

fn tensors(device: &Device) -> (Buffer<f32>, Buffer<f32>) {
    let host: Vec<f32> = (0..ROWS * LENGTH).map(super::value).collect();
    let x = Buffer::from_slice(device, &host, &[ROWS, LENGTH]).expect("x");
    (x, Buffer::poisoned(device, &[ROWS, LENGTH]).expect("y"))
}

fn verify(y: &Buffer<f32>) {
    let host: Vec<f32> = (0..ROWS * LENGTH).map(super::value).collect();
    let expected: Vec<f32> = host
        .chunks(LENGTH)
        .flat_map(|row| {
            let log = row.iter().map(|x| x.exp()).sum::<f32>().ln();
            row.iter().map(move |x| x - log).collect::<Vec<f32>>()
        })
        .collect();
    super::assert_close(&y.to_vec().expect("y"), &expected, 1e-5);
}

// ANCHOR: run
fn run(x: &Buffer<f32>, y: &mut Buffer<f32>) -> Result<(), tilewright::Error> {
    let report = log_softmax(x, y).run()?;
    println!("{}", report.schedule_text());
    if let Some(choice) = report.choice {
        println!("{choice}");
    }
    Ok(())
}
// ANCHOR_END: run

// ANCHOR: tuned
fn tuned(x: &Buffer<f32>, y: &mut Buffer<f32>) -> Result<(), tilewright::Error> {
    let report = log_softmax(x, y).tuned()?.run()?;
    println!("{}", report.schedule_text());
    Ok(())
}
// ANCHOR_END: tuned

mod pasted {
    use super::log_softmax;
    use tilewright::prelude::*;
    // ANCHOR: pasted
    schedule! {
        pub auto for log_softmax {
            fits(N <= 1024);
            tile(r = 4);
            split(n -> no, nl, nv: 32, 4);
            reduce(m: lane);
            reduce(l: lane);
            bind(r -> warp.x);
            bind(nl -> lane.x);
            vectorize(nv);
        }
    }
    // ANCHOR_END: pasted
}

// ANCHOR: changed
schedule! {
    /// Twice the rows in a CTA.
    pub wider for log_softmax = pasted::auto {
        tile(r = 8);
    }
}
// ANCHOR_END: changed

#[test]
fn a_launch_needs_no_schedule() {
    let device = Device::sim().with_cache(tilewright::PtxCache::disabled());
    let (x, mut y) = tensors(&device);
    run(&x, &mut y).expect("a launch");
    verify(&y);
    let report = log_softmax(&x, &mut y).run().expect("a launch");
    super::assert_recorded("first_choice.txt", &format!("{}\n", report.schedule_text()));
    let choice = report.choice.as_ref().expect("nobody gave a schedule");
    super::assert_recorded("first_choice_why.txt", &format!("{choice}\n"));
    let pasted = log_softmax(&x, &mut y).schedule(pasted::auto).run().expect("a launch");
    assert_eq!(pasted.schedule_text(), report.schedule_text());
    assert_eq!(pasted.ptx, report.ptx);
    let changed = log_softmax(&x, &mut y).schedule(wider).run().expect("a launch");
    assert_eq!((pasted.threads, changed.threads), (128, 256));
    verify(&y);
}

#[test]
fn candidates_are_compared() {
    let device = Device::sim().with_cache(tilewright::PtxCache::disabled());
    let (x, mut y) = tensors(&device);
    tuned(&x, &mut y).expect("a launch");
    verify(&y);
    let beside = log_softmax(&x, &mut y).tuned_beside(&[&wider]).expect("a choice");
    let choice = beside.run().expect("a launch").choice.expect("nobody gave a schedule");
    super::assert_recorded("first_choice_tuned.txt", &format!("{choice}\n"));
    verify(&y);
}

// ANCHOR: look
fn look(file: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::sim_with(tilewright::SimOptions { trace: true, ..Default::default() });
    let (x, mut y) = tensors(&device);
    let report = log_softmax(&x, &mut y).schedule(wider).run()?;
    std::fs::write(file, tilewright::page(&wider, &report)?)?;
    Ok(())
}
// ANCHOR_END: look

#[test]
fn it_can_be_looked_at() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("log_softmax.html");
    look(&file).expect("a page");
    assert!(std::fs::read_to_string(file).expect("a page").contains("wider"));
}

// ANCHOR: solution
#[test]
fn a_long_row_is_read_in_pieces() {
    let device = Device::sim();
    let x = Buffer::from_slice(&device, &vec![1.0f32; 100_000], &[1, 100_000]).expect("x");
    let mut y = Buffer::<f32>::poisoned(&device, &[1, 100_000]).expect("y");
    let report = log_softmax(&x, &mut y).run().expect("a launch");
    println!("{}", report.schedule_text());
    // One loop that carries the maximum and the sum, or a row that is read for each of them.
    let pieces = ["online(n = ", "recompute(v)"];
    assert!(pieces.iter().any(|directive| report.schedule_text().contains(directive)));
    // All elements are alike, so each has the probability 1 / 100,000.
    assert!(y.to_vec().expect("y").iter().all(|y| (y + 100_000f32.ln()).abs() < 1e-4));
}
// ANCHOR_END: solution
