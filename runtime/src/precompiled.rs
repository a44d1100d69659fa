//! A compiled kernel as it lies in a bundle and in the cache on disk: all that a launch needs, so that neither lowers it
//! again.

use crate::cache::Key;
use backend_ptx::Ptx;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tile_dsl::{kernel::Interface, program::Variant, schedule::Target};

/// A compiled kernel. Its form is part of its [`Key`]: count [`FORM`] up when it changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Precompiled {
    pub(crate) interface: Interface,
    pub(crate) ptx: Ptx,
    pub(crate) machine: Vec<MachineCode>,
}

/// Number of the form of [`Precompiled`].
const FORM: u32 = 2;

/// What NVIDIA's assembler made of a kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MachineCode {
    pub(crate) target: Target,
    pub(crate) code: Vec<u8>,
}

impl MachineCode {
    /// Machine code runs on its own compute capability and on later ones of the same generation.
    pub(crate) fn runs_on(&self, sm: u32) -> bool {
        let Target { sm: own, specific } = self.target;
        sm == own || (!specific && sm > own && sm / 10 == own / 10)
    }
}

impl Key {
    /// Everything that decides a compiled kernel, without lowering it: the bytes of the scheduled program (which hold its
    /// schedule, element type and target) as [`Key::of_program`] has them, the variant, whether it is for several problems, the
    /// tensors with strides of their own, ascending, and the source of what lowers and compiles it.
    pub(crate) fn of_kernel(
        program: &Key,
        variant: Variant,
        grouped: bool,
        strided: impl IntoIterator<Item = u16>,
    ) -> Self {
        let mut hash = Sha256::new();
        for made_by in [tile_dsl::VERSION, backend_ptx::VERSION] {
            hash.update(made_by);
            hash.update([0]);
        }
        hash.update(FORM.to_le_bytes());
        hash.update(program.0);
        hash.update([variant as u8, u8::from(grouped)]);
        strided.into_iter().for_each(|tensor| hash.update(tensor.to_le_bytes()));
        Key(hash.finalize().into())
    }

    /// Of the encoded program.
    pub(crate) fn of_program(bytes: &[u8]) -> Self {
        Key(Sha256::digest(bytes).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn whatever_decides_a_kernel_decides_its_key() {
        let mut keys = HashSet::new();
        for program in [&b"one"[..], b"other"] {
            let program = Key::of_program(program);
            for variant in [Variant::Exact, Variant::Aligned, Variant::General] {
                for strided in [&[][..], &[0], &[1], &[256], &[0, 1], &[0, 0]] {
                    for grouped in [false, true] {
                        keys.insert(Key::of_kernel(&program, variant, grouped, strided.iter().copied()));
                    }
                }
            }
        }
        assert_eq!(keys.len(), 2 * 3 * 6 * 2);
    }

    /// Both name their source, so that no build reads what another left.
    #[test]
    fn versions_have_fingerprints() {
        for version in [tile_dsl::VERSION, backend_ptx::VERSION] {
            let print = version.rsplit(' ').next().unwrap();
            assert!(print.len() == 16 && print.bytes().all(|c| c.is_ascii_hexdigit()), "{version}");
            assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
        }
        assert!(backend_ptx::VERSION.contains("llvm 22.1"));
    }
}
