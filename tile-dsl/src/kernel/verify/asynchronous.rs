//! Checks what completes on its own, and roles.

use super::{Check, Verifier, ensure};
use crate::{
    dtype::DType,
    kernel::{Async, Expr, Mem, Param, Role, Ty},
    nest::{WARPGROUP, registers_at_launch, registers_of_product, two_ctas_fit},
};

impl Verifier<'_> {
    /// Roles take all threads, whole warps each.
    pub(super) fn roles(&mut self, roles: &[Role], diverged: bool) -> Check {
        ensure(!diverged, || "roles that some threads do not have".into())?;
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

    /// What completes on its own, and what says so.
    pub(super) fn asynchronous(&mut self, operation: &Async, diverged: bool) -> Check {
        if let Async::Multiply { atom, .. } = operation {
            self.product = registers_of_product(*atom).max(self.product);
        }
        let int = |e: &Expr| self.expect(e, Ty::I32, "slot, parity or coordinate");
        let barrier = |buffer: &u32| -> Check {
            let of = self.kernel.shared.get(*buffer as usize);
            ensure(of.is_some_and(|s| s.dtype == DType::I32 && s.align.is_multiple_of(8)), || {
                format!("shared buffer {buffer} holds no mbarriers")
            })
        };
        match operation {
            Async::Init { barrier: b, slots, arrivals } => {
                ensure(!diverged, || "mbarriers that some threads do not know of".into())?;
                barrier(b)?;
                let room = self.kernel.shared[*b as usize].elems / 2;
                ensure(*slots <= room && *arrivals > 0, || {
                    format!("{slots} mbarriers of {arrivals} arrivals")
                })
            }
            Async::Arrive { barrier: b, slot, bytes, cta } => {
                barrier(b)?;
                int(slot)?;
                let Some(cta) = cta else { return Ok(()) };
                ensure(self.kernel.cluster.is_some() && bytes.is_none(), || {
                    "an arrival at another CTA's mbarrier".into()
                })?;
                int(cta)
            }
            Async::Wait { barrier: b, slot, parity } => {
                barrier(b)?;
                int(slot)?;
                int(parity)
            }
            Async::Copy { map, shared, offset, coordinates, barrier: b, slot, everywhere } => {
                ensure(!everywhere || self.kernel.cluster.is_some(), || "a copy to other CTAs".into())?;
                barrier(b)?;
                int(slot)?;
                int(offset)?;
                coordinates.iter().try_for_each(int)?;
                self.boxed((*map, false), *shared, coordinates)
            }
            Async::Store { map, shared, offset, coordinates } => {
                int(offset)?;
                coordinates.iter().try_for_each(int)?;
                self.boxed((*map, true), *shared, coordinates)
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
            Async::CommitStores | Async::WaitStores { .. } => Ok(()),
            Async::ProxyFence => Ok(()),
            Async::Multiply { atom, frag, slots, a, b, overwrites } => {
                if let Some(first) = overwrites {
                    self.expect(first, Ty::BOOL, "condition")?;
                    ensure(!self.differs(first), || "sums that some threads overwrite".into())?;
                }
                self.warps(diverged, "a product of a warpgroup")?;
                let [m, n, _] = atom.row().shape;
                ensure(atom.row().descriptors && slots.len() as u32 * 128 == m * n, || {
                    format!("{atom} of {} accumulators", slots.len())
                })?;
                for slot in slots {
                    let dtype = self.slot(*frag, *slot)?;
                    ensure(dtype == atom.row().accumulator, || format!("{atom} adds to {dtype}"))?;
                }
                for tile in [a, b] {
                    int(&tile.offset)?;
                    let dtype = self.kernel.dtype_of(Mem::Shared(tile.shared));
                    ensure(dtype.is_some_and(|d| atom.row().operands.contains(&d)), || {
                        format!("{atom} of {dtype:?}")
                    })?;
                    ensure(tile.k_major || !atom.row().k_major, || format!("{atom} of rows across k"))?;
                    ensure([32, 64, 128].contains(&tile.swizzle), || {
                        format!("a swizzle of {}", tile.swizzle)
                    })?;
                }
                Ok(())
            }
            Async::Commit => self.warps(diverged, "products"),
            Async::Fence { results } | Async::WaitProducts { results, .. } => {
                self.warps(diverged, "products")?;
                results.iter().try_for_each(|(frag, slots)| {
                    slots.iter().try_for_each(|slot| self.slot(*frag, *slot).map(|_| ()))
                })
            }
        }
    }

    /// A box of a tensor map, and the buffer that it comes from, where it is stored, or goes to.
    fn boxed(&self, (map, stores): (u32, bool), shared: u32, coordinates: &[Expr]) -> Check {
        self.of_problem()?;
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
        let ranks = [dims.len(), tile.len(), coordinates.len()];
        ensure((1..=5).contains(&ranks[0]) && ranks.iter().all(|r| *r == ranks[0]), || {
            format!("a box of {ranks:?} dimensions")
        })?;
        ensure(tile.iter().all(|n| (1..=256).contains(n)), || format!("a box of {tile:?}"))
    }
}
