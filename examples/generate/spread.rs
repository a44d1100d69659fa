//! Buffers of a model on its devices.

use super::{
    config::Named,
    weights::{Failure, Weights},
};
use std::ops::Range;
use tilewright::{Buffer, Device, Error, Float};

/// Buffers, one a device.
pub type Each<T> = Vec<Buffer<T>>;

/// How a tensor is shared out.
#[derive(Clone, Copy)]
pub enum Share {
    /// Every device has all of it.
    Whole,
    /// A device has some of the rows: of a weight, the outputs.
    Rows,
    /// A device has some of the columns: of a weight, the inputs.
    Columns,
}

/// Of so many things, those of one device. The last devices may have fewer than the others.
pub fn part(length: usize, at: usize, devices: usize) -> Range<usize> {
    let most = length.div_ceil(devices);
    (at * most).min(length)..((at + 1) * most).min(length)
}

/// Puts tensors on devices: those of a list one below the other, as one.
///
/// # Errors
/// Those of the weights; [`Error::OutOfMemory`].
pub fn spread<T: Float>(
    devices: &[Device],
    weights: &Weights,
    tensors: &[Named],
    share: Share,
) -> Result<Each<T>, Failure> {
    let read = tensors.iter().map(|named| weights.read::<T>(named)).collect::<Result<Vec<_>, _>>()?;
    let one = |(at, device): (usize, &Device)| -> Result<Buffer<T>, Failure> {
        let (mut data, mut size, mut rank) = (Vec::new(), [0, 0], 0);
        for ((_, shape), all) in tensors.iter().zip(&read) {
            let (rows, width) = (shape[0], shape[1..].iter().product());
            let (rows, columns) = match share {
                Share::Whole => (0..rows, 0..width),
                Share::Rows => (part(rows, at, devices.len()), 0..width),
                Share::Columns => (0..rows, part(width, at, devices.len())),
            };
            (size, rank) = ([size[0] + rows.len(), columns.len()], shape.len());
            rows.for_each(|row| data.extend_from_slice(&all[row * width..][columns.clone()]));
        }
        Ok(Buffer::from_slice(device, &data, &size[..rank])?)
    };
    devices.iter().enumerate().map(one).collect()
}

/// A buffer on each device.
///
/// # Errors
/// Those of `make`.
pub fn each<T>(
    devices: &[Device],
    make: impl Fn(&Device) -> Result<Buffer<T>, Error>,
) -> Result<Each<T>, Error> {
    devices.iter().map(make).collect()
}

/// Each buffer, to be written.
pub fn all_mut<T>(each: &mut Each<T>) -> Vec<&mut Buffer<T>> {
    each.iter_mut().collect()
}
