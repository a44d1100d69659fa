//! What training has at the end of a step: the loss, and the step itself.

use crate::{
    Queue, choose, enqueue,
    forms::{Form, elements, seen, seen_mut},
    kernels,
};
use tilewright::{Buffer, Error, Float};

/// Cross-entropy of each row of logits with its label: `loss[s] = log(sum(exp(x[s]))) − x[s, label[s]]`.
///
/// A row whose label is `ignore_index` has a loss of 0.
/// A row with another label outside of `0..V` has a loss of ∞, so that the mistake shows.
/// PyTorch's `ignore_index` is −100 unless it is said.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `x` | S × V | `T` |
/// | `label` | S | `i32` |
/// | `loss` | S | `f32` |
///
/// # Errors
/// [Those of all functions](crate#errors).
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, logits: Buffer<f32>, label: Buffer<i32>, mut loss: Buffer<f32>) -> Result<(), Error> {
/// tilewright_kernels::cross_entropy(&stream, &logits, &label, -100, &mut loss)?;
/// # Ok(())
/// # }
/// ```
pub fn cross_entropy<T: Float>(
    on: &impl Queue,
    x: &Buffer<T>,
    label: &Buffer<i32>,
    ignore_index: i32,
    loss: &mut Buffer<f32>,
) -> Result<(), Error> {
    let launch = kernels::loss::cross_entropy(x, label, loss, ignore_index);
    enqueue(launch, choose::cross_entropy(T::DTYPE), on)
}

/// What [`adamw`] goes by; the default is PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// Learning rate.
    pub lr: f32,
    /// How much of the mean of gradients stays in each step.
    pub beta1: f32,
    /// How much of the mean of their squares stays.
    pub beta2: f32,
    /// What is added to the root of that mean, so that it divides.
    pub eps: f32,
    /// How much of each parameter a learning rate of 1 would take away.
    pub weight_decay: f32,
}

impl Default for AdamW {
    fn default() -> Self {
        AdamW { lr: 1e-3, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 1e-2 }
    }
}

/// A step of AdamW, in place: parameters and both moments move by the gradient.
///
/// `step` counts from 1.
/// The decay is that of the parameter before the step, as in PyTorch.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `gradient` | any | `T` |
/// | `parameter`, `mean`, `square` | the same | `f32` |
///
/// # Errors
/// [Those of all functions](crate#errors); [`Error::Gaps`] for views with gaps, [`Error::Arguments`] for step 0.
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # use tilewright_kernels::{AdamW, adamw};
/// # fn f(stream: &Stream, g: Buffer<f32>, mut p: Buffer<f32>, mut m: Buffer<f32>, mut v: Buffer<f32>) -> Result<(), Error> {
/// adamw(&stream, AdamW { lr: 3e-4, ..AdamW::default() }, 1, &g, &mut p, &mut m, &mut v)?;
/// # Ok(())
/// # }
/// ```
pub fn adamw<T: Float>(
    on: &impl Queue,
    by: AdamW,
    step: u32,
    gradient: &Buffer<T>,
    parameter: &mut Buffer<f32>,
    mean: &mut Buffer<f32>,
    square: &mut Buffer<f32>,
) -> Result<(), Error> {
    if step == 0 {
        return Err(Error::Arguments { kernel: "adamw".into(), what: "steps count from 1".into() });
    }
    let forms = [
        Form::of("gradient", gradient),
        Form::of("parameter", parameter),
        Form::of("mean", mean),
        Form::of("square", square),
    ];
    let all = [elements(forms)?.iter().product()];
    // 1 − βᵗ in f64: of f32 it would lose digits in the first steps.
    let correct = |beta: f32| (1.0 / (1.0 - f64::from(beta).powf(step.into()))) as f32;
    let g = seen(gradient, &all)?;
    let (mut p, mut m, mut v) = (seen_mut(parameter, &all)?, seen_mut(mean, &all)?, seen_mut(square, &all)?);
    let (c1, c2) = (correct(by.beta1), correct(by.beta2));
    let AdamW { lr, beta1, beta2, eps, weight_decay } = by;
    let launch =
        kernels::adamw::adamw(&g, &mut p, &mut m, &mut v, lr, beta1, beta2, c1, c2, eps, weight_decay);
    enqueue(launch, choose::adamw(), on)
}

/// Dropout: `y = x / (1 − p)`, or 0 with probability `p`, by random bits of the element's place and of `seed`.
///
/// Equal seeds drop equal elements, on every device: a step back needs the seed, and no mask.
/// Element `n` is dropped where `uniform(random(seed, n / 4, n % 4)) < p`, with the `random` and `uniform` of kernels: Philox4x32-10.
/// With `p` = 1 all are 0.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `x`, `y` | any, the same | `T` |
///
/// # Errors
/// [Those of all functions](crate#errors); [`Error::Gaps`] for views with gaps, [`Error::Arguments`] where `p` is not from 0 to 1.
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, x: Buffer<f32>, mut y: Buffer<f32>) -> Result<(), Error> {
/// tilewright_kernels::dropout(&stream, 0.1, 42, &x, &mut y)?;
/// # Ok(())
/// # }
/// ```
pub fn dropout<T: Float>(
    on: &impl Queue,
    p: f32,
    seed: i32,
    x: &Buffer<T>,
    y: &mut Buffer<T>,
) -> Result<(), Error> {
    if !(0.0..=1.0).contains(&p) {
        let what = format!("p is {p}, and a probability is from 0 to 1");
        return Err(Error::Arguments { kernel: "dropout".into(), what });
    }
    let all = [elements([Form::of("x", x), Form::of("y", y)])?.iter().product()];
    let (x, mut y) = (seen(x, &all)?, seen_mut(y, &all)?);
    enqueue(kernels::dropout::dropout(&x, &mut y, p, 1.0 / (1.0 - p), seed), choose::dropout(T::DTYPE), on)
}
