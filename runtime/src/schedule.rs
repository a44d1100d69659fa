//! Kernels and schedules as Rust types: what the macros generate.

use tile_dsl::dtype::DType;

/// A kernel written with `#[tile_kernel]`, as a type. Schedules and launches of different kernels do not mix.
pub trait Kernel: 'static {
    /// Name of the function.
    const NAME: &'static str;
    /// The tile IR, encoded: [`tile_dsl::tile::Kernel::from_bytes`] reads it.
    const ENCODED: &'static [u8];
}

/// A schedule written with `schedule!`: a unit struct. Its programs were proved while `rustc` ran.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not one schedule",
    note = "a schedule with lists is a `Space` of configurations: let a `Tuner` choose, or name one with numbers"
)]
pub trait Schedule: Copy + Send + Sync + 'static {
    /// The kernel it schedules.
    type Kernel: Kernel;
    /// Name as written.
    const NAME: &'static str;
    /// Doc comment as written, lines joined by newlines; empty if there is none.
    const DOC: &'static str;
    /// Element types of the kernel's generic parameter that it admits; empty for a kernel without one.
    const DTYPES: &'static [DType];
    /// The encoded [`Program`](tile_dsl::program::Program) for an element type (`None` for a kernel
    /// without a generic parameter); `None` for a type that is not admitted.
    fn program(dtype: Option<DType>) -> Option<&'static [u8]>;
}

/// A schedule behind a pointer, for lists of schedules: `&[&naive, &tiled]` as `&[&dyn AnySchedule]`.
pub trait AnySchedule: Send + Sync {
    /// [`Kernel::NAME`] of its kernel.
    fn kernel(&self) -> &'static str;
    /// [`Schedule::NAME`].
    fn name(&self) -> &'static str;
    /// [`Schedule::DOC`].
    fn doc(&self) -> &'static str;
    /// [`Schedule::DTYPES`].
    fn dtypes(&self) -> &'static [DType];
    /// [`Schedule::program`].
    fn program(&self, dtype: Option<DType>) -> Option<&'static [u8]>;
    /// Whether the schedule admits an element type (any kernel without a generic parameter admits `None`).
    fn admits(&self, dtype: Option<DType>) -> bool {
        self.program(dtype).is_some()
    }
}

impl<S: Schedule> AnySchedule for S {
    fn kernel(&self) -> &'static str {
        S::Kernel::NAME
    }
    fn name(&self) -> &'static str {
        S::NAME
    }
    fn doc(&self) -> &'static str {
        S::DOC
    }
    fn dtypes(&self) -> &'static [DType] {
        S::DTYPES
    }
    fn program(&self, dtype: Option<DType>) -> Option<&'static [u8]> {
        S::program(dtype)
    }
}
