//! "Tuning".

// ANCHOR: list
use crate::matmul::{matmul, warptile};
use tilewright::{Choice, Tuner, prelude::*};

schedule! {
    /// Steps of k and CTAs a multiprocessor: six configurations.
    pub steps = warptile {
        tile(k = [8, 16, 32]);
        occupancy([1, 2]);
    }
}
// ANCHOR_END: list

// ANCHOR: tune
pub fn choose(device: &Device, [m, n, k]: [usize; 3]) -> Result<Choice, tilewright::Error> {
    let a = Buffer::from_slice(device, &vec![1.0f32; m * k], &[m, k])?;
    let b = Buffer::from_slice(device, &vec![2.0f32; k * n], &[k, n])?;
    let mut c = Buffer::poisoned(device, &[m, n])?;
    let choice = Tuner::new().tune(matmul(&a, &b, &mut c), steps)?;
    matmul(&a, &b, &mut c).schedule_dyn(choice.best()).run()?;
    assert_eq!(c.to_vec()?, vec![2.0 * k as f32; m * n]);
    Ok(choice)
}
// ANCHOR_END: tune

#[test]
fn it_chooses() {
    let choice = choose(&Device::sim(), [256, 256, 64]).expect("a choice");
    assert!(steps.configurations().iter().any(|c| c.name() == choice.best().name()));
    super::assert_recorded("tuning.txt", &choice.to_string());
}

// ANCHOR: solution
schedule! {
    /// Two numbers that go together: vectors of A and B.
    pub vectors = warptile { stage(b at k: shared, vector([4, 8, 16])); }
}

#[test]
fn lists_have_the_configurations_that_are_legal() {
    assert_eq!(vectors.configurations().len() + vectors.dropped().len(), 3);
}
// ANCHOR_END: solution
