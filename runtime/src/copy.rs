//! Copies from buffer to buffer, also from device to device.

use crate::{
    buffer::{Buffer, RawBuffer},
    device::Device,
    element::Element,
    error::Error,
    geometry::Geometry,
    memory::{Storage, lock},
    stream::Stream,
};

impl<T: Element> Buffer<T> {
    /// Overwrites the elements with those of another buffer, which may be on another device, and of which either may be a
    /// view. Between GPUs the copy is queued on `stream`, which is one of either of them, after the work that writes the
    /// source and the work that uses this buffer; what uses either later waits for it as for a launch. It goes from GPU to
    /// GPU directly where the machine can do that. Between a GPU and the simulator it goes through the host, and has ended
    /// when the call returns.
    ///
    /// # Errors
    /// [`Error::Shape`] unless shape and layout are the same; [`Error::StreamMismatch`]; [`Error::Asynchronous`] when work
    /// that was waited for failed; the driver's.
    pub fn copy_from_buffer(&mut self, source: &Buffer<T>, stream: &Stream) -> Result<(), Error> {
        let (to, from) = (&self.raw, &source.raw);
        let (a, b) = (&from.geometry, &to.geometry);
        if a.shape != b.shape || a.layout != b.layout {
            return Err(Error::Shape(format!(
                "a {} tensor of shape {:?} cannot be copied to a {} one of shape {:?}",
                a.layout.name(),
                a.shape,
                b.layout.name(),
                b.shape
            )));
        }
        let devices = [&to.memory.device, &from.memory.device];
        if !devices.iter().any(|device| device.same_as(stream.device())) {
            let (found, expected) = Device::apart(stream.device(), devices[0]);
            return Err(Error::StreamMismatch { found, expected });
        }
        queued(to, from, stream).unwrap_or_else(|| through_the_host(to, from))
    }
}

/// Queues the copy, if both are memory of GPUs.
fn queued(to: &RawBuffer, from: &RawBuffer, stream: &Stream) -> Option<Result<(), Error>> {
    let queue = &stream.queue;
    let (Storage::Cuda(target), Storage::Cuda(origin), Some(cuda)) =
        (&to.memory.storage, &from.memory.storage, &queue.cuda)
    else {
        return None;
    };
    let copy = || {
        from.memory.order(queue, false)?;
        to.memory.order(queue, true)?;
        let size = to.dtype.bytes() as usize;
        let copied = pieces(&to.geometry, &from.geometry).try_for_each(|(at, source, count)| {
            // SAFETY: each piece lies inside of both tensors, which are freed and overwritten only after this work,
            // which is noted below; what else uses them waits, which `order` saw to.
            unsafe { cuda.copy_from(target, at * size, origin, source * size, count * size) }
        });
        // Also after a failure: what was queued before it uses the memory.
        let ticket = queue.ticket();
        from.memory.used(queue, ticket, false);
        to.memory.used(queue, ticket, true);
        copied
    };
    Some(copy())
}

fn through_the_host(to: &RawBuffer, from: &RawBuffer) -> Result<(), Error> {
    let (size, first) = (to.dtype.bytes() as usize, from.geometry.offset);
    let span = from.span()?;
    to.memory.wait(true)?;
    pieces(&to.geometry, &from.geometry).try_for_each(|(at, source, count)| {
        let piece = &span[(source - first) * size..(source - first + count) * size];
        match &to.memory.storage {
            Storage::Host(data, _) => lock(data)[at * size..][..piece.len()].copy_from_slice(piece),
            Storage::Cuda(memory) => memory.upload(at * size, piece)?,
        }
        Ok(())
    })
}

/// What is contiguous in both of two tensors of one shape and layout: place in the one, place in the other, length.
fn pieces(to: &Geometry, from: &Geometry) -> impl Iterator<Item = (usize, usize, usize)> {
    let runs = |geometry: &Geometry| {
        let mut runs = Vec::new();
        geometry.runs(|at, count| runs.push((at, count)));
        runs.into_iter()
    };
    let (mut to, mut from) = (runs(to).peekable(), runs(from).peekable());
    std::iter::from_fn(move || {
        let ((a, left), (b, other)) = (to.peek_mut()?, from.peek_mut()?);
        let (piece, count) = ((*a, *b), (*left).min(*other));
        (*a, *b, *left, *other) = (*a + count, *b + count, *left - count, *other - count);
        let (a_done, b_done) = (*left == 0, *other == 0);
        if a_done {
            to.next();
        }
        if b_done {
            from.next();
        }
        Some((piece.0, piece.1, count))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Layout;

    #[test]
    fn pieces_are_contiguous_in_both() {
        let dense = Geometry::dense(&[2, 3], Layout::RowMajor);
        let pitched = Geometry::strided(&[2, 3], &[5, 1], Layout::RowMajor).unwrap();
        let all = |to, from| pieces(to, from).collect::<Vec<_>>();
        assert_eq!(all(&dense, &dense), [(0, 0, 6)]);
        assert_eq!(all(&dense, &pitched), [(0, 0, 3), (3, 5, 3)]);
        assert_eq!(all(&pitched, &dense), [(0, 0, 3), (5, 3, 3)]);
        let empty = Geometry::dense(&[0, 3], Layout::RowMajor);
        assert_eq!(all(&empty, &empty), []);
    }
}
