//! Where launches go.

use tilewright::{Device, Error, Launched, Recorder, Scheduled, Stream};

/// What takes the launches of a function: a [`Stream`], or the [`Recorder`] of a graph that is being replayed.
///
/// A graph queues many small launches in one call of the driver.
/// Each replay says the calls anew; what has changed of their arguments is changed in the graph.
///
/// ```
/// use tilewright::{Buffer, Device, Graph, Stream};
/// use tilewright_kernels::{add, silu};
///
/// # fn main() -> Result<(), tilewright::Error> {
/// let device = Device::sim();
/// let (stream, mut graph) = (Stream::default_of(&device), Graph::new(&device));
/// for n in [3, 5] {
///     let x = Buffer::from_slice(&device, &vec![1.0f32; n], &[n])?;
///     let (mut y, mut z) = (Buffer::zeros(&device, &[n])?, Buffer::zeros(&device, &[n])?);
///     graph.replay(&stream, |launches| {
///         silu(launches, &x, &mut y)?;
///         add(launches, &x, &y, &mut z)
///     })?;
///     assert!((z.to_vec()?[n - 1] - 1.7311).abs() < 1e-4);
/// }
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` takes no launches",
    note = "a stream does, or the recorder of a graph: `Stream::default_of(&device)` is a device's stream"
)]
pub trait Queue: sealed::Sealed {
    /// Where the launches run.
    fn device(&self) -> &Device;
    #[doc(hidden)]
    fn put(&self, launch: Scheduled<'_>) -> Result<Launched, Error>;
}

impl Queue for Stream {
    fn device(&self) -> &Device {
        self.device()
    }

    fn put(&self, launch: Scheduled<'_>) -> Result<Launched, Error> {
        launch.enqueue(self)
    }
}

impl Queue for Recorder<'_> {
    fn device(&self) -> &Device {
        self.device()
    }

    fn put(&self, launch: Scheduled<'_>) -> Result<Launched, Error> {
        self.add(launch)
    }
}

impl<Q: Queue> Queue for &Q {
    fn device(&self) -> &Device {
        (**self).device()
    }

    fn put(&self, launch: Scheduled<'_>) -> Result<Launched, Error> {
        (**self).put(launch)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for tilewright::Stream {}
    impl Sealed for tilewright::Recorder<'_> {}
    impl<Q: Sealed> Sealed for &Q {}
}
