//! Checks asynchronous operations, and roles.

use super::{Check, Verifier, ensure};
use crate::{
    kernel::{Async, Mem, Param, Role, Rows, Tile},
    nest::{Atom, Operand, WARPGROUP, registers_at_launch, registers_of_product, two_ctas_fit},
};

impl Verifier<'_> {
    /// Roles take all threads, whole warps each.
    pub(super) fn roles(&mut self, roles: &[Role]) -> Check {
        ensure(self.kernel.rivals().iter().all(Vec::is_empty), || {
            "roles, and shared buffers in the same bytes".into()
        })?;
        let mut next = 0;
        for Role { first, threads, registers, body } in roles {
            ensure(*first == next && threads.is_multiple_of(32) && *threads > 0, || {
                format!("a role of threads {first} to {}", first + threads)
            })?;
            next += threads;
            if let Some(n) = registers {
                let whole = first.is_multiple_of(WARPGROUP) && threads.is_multiple_of(WARPGROUP);
                let scarce = registers_at_launch(
                    self.kernel.target,
                    self.kernel.threads,
                    self.kernel.min_ctas.unwrap_or(1),
                )
                .is_some();
                ensure(whole && scarce && (24..=240).contains(n) && n % 8 == 0, || {
                    format!("{n} registers for threads {first} to {next}")
                })?;
            }
            self.role = Some([*first, *threads]);
            self.block(body, false)?;
        }
        self.role = None;
        ensure(roles.iter().all(|r| r.registers.is_none()) || self.launch_is_known(), || {
            "registers of roles, of which the assembler does not know how many there are at launch".into()
        })?;
        ensure(next == self.kernel.threads, || format!("roles of {next} threads of {}", self.kernel.threads))
    }

    /// Whether the assembler knows how many registers a thread has at launch: it is told how many CTAs share an SM, or its code takes so
    /// many that two have no room. Else it ignores `setmaxnreg` (ptxas 13.0, C7508).
    fn launch_is_known(&self) -> bool {
        self.kernel.min_ctas.is_some() || !two_ctas_fit(self.kernel.target, self.kernel.threads, self.product)
    }

    /// Of asynchronous operations, what the roles of operands do not say.
    pub(super) fn asynchronous(&mut self, operation: &Async) -> Check {
        match operation {
            Async::Init { barrier, stages, arrivals } => {
                let room = self.kernel.shared[*barrier as usize].elems / 2;
                ensure(*stages <= room && *arrivals > 0, || {
                    format!("{stages} mbarriers of {arrivals} arrivals")
                })
            }
            Async::Arrive { bytes, cta, .. } => {
                let alone = cta.is_none() || self.kernel.cluster.is_some() && bytes.is_none();
                ensure(alone, || "an arrival at another CTA's mbarrier".into())
            }
            Async::Copy { map, shared, coordinates, everywhere, .. } => {
                ensure(!everywhere || self.kernel.cluster.is_some(), || "a copy to other CTAs".into())?;
                self.boxed((*map, false), *shared, coordinates.len())
            }
            Async::Store { map, shared, coordinates, .. } => {
                self.boxed((*map, true), *shared, coordinates.len())
            }
            Async::AcquireMap { map } => {
                self.of_problem()?;
                let param = self.kernel.params.get(*map as usize);
                ensure(self.kernel.grouped && matches!(param, Some(Param::TensorMap { .. })), || {
                    format!("parameter {map} is no tensor map in global memory")
                })
            }
            Async::PrefetchMap { map } => {
                let param = self.kernel.params.get(*map as usize);
                ensure(!self.kernel.grouped && matches!(param, Some(Param::TensorMap { .. })), || {
                    format!("parameter {map} is no tensor map")
                })
            }
            Async::Multiply { atom, frag, slots, a, b, overwrites } => {
                self.product = registers_of_product(*atom).max(self.product);
                let apart = overwrites.as_ref().is_some_and(|first| self.differs(first));
                ensure(!apart, || "sums that some threads overwrite".into())?;
                let [m, n, _] = atom.row().shape;
                ensure(atom.row().descriptors && slots.len() as u32 * 128 == m * n, || {
                    format!("{atom} of {} accumulators", slots.len())
                })?;
                for slot in slots {
                    let dtype = self.slot(*frag, *slot)?;
                    ensure(dtype == atom.row().accumulator, || format!("{atom} adds to {dtype}"))?;
                }
                match a {
                    Rows::Shared(tile) => self.described(*atom, tile)?,
                    Rows::Held { frag, slots } => {
                        let elements = atom.elements(Operand::A) as usize;
                        ensure(slots.len() == elements, || format!("{atom} of {} elements", slots.len()))?;
                        for slot in slots {
                            let dtype = self.slot(*frag, *slot)?;
                            ensure(atom.row().multiplies(dtype), || format!("{atom} of {dtype}"))?;
                        }
                    }
                }
                self.described(*atom, b)
            }
            _ => Ok(()),
        }
    }

    /// An operand that a product reads from shared memory.
    fn described(&self, atom: Atom, tile: &Tile) -> Check {
        let dtype = self.kernel.dtype_of(Mem::Shared(tile.shared));
        ensure(dtype.is_some_and(|d| atom.row().multiplies(d)), || format!("{atom} of {dtype:?}"))?;
        ensure(tile.k_major || !atom.row().k_major, || format!("{atom} of rows across k"))?;
        ensure([32, 64, 128].contains(&tile.swizzle), || format!("a swizzle of {}", tile.swizzle))
    }

    /// A box of a tensor map, and the buffer that it comes from, where it is stored, or goes to.
    fn boxed(&self, (map, stores): (u32, bool), shared: u32, coordinates: usize) -> Check {
        let param = self.kernel.params.get(map as usize);
        let Some(Param::TensorMap { name, tensor, dims, tile, stored, .. }) = param else {
            return Err(format!("parameter {map} is no tensor map"));
        };
        ensure(*stored == stores, || {
            format!("`{name}` is a map for {}", if *stored { "stores alone" } else { "copies alone" })
        })?;
        let (from, to) =
            (self.kernel.dtype_of(Mem::Global(*tensor)), self.kernel.dtype_of(Mem::Shared(shared)));
        ensure(from.is_some() && from == to, || format!("copy of {from:?} into {to:?}"))?;
        let ranks = [dims.len(), tile.len(), coordinates];
        ensure((1..=5).contains(&ranks[0]) && ranks.iter().all(|r| *r == ranks[0]), || {
            format!("a box of {ranks:?} dimensions")
        })?;
        ensure(tile.iter().all(|n| (1..=256).contains(n)), || format!("a box of {tile:?}"))
    }
}
