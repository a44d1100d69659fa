//! PTX compiled ahead of time: an application that carries it needs no LLVM.
//!
//! A build script that depends on the crate with the kernels (and on `tilewright` with the feature `jit`) calls
//! [`compile`] and writes the bytes to a file; the application includes that file and calls [`provide`] before its
//! first launch.

use crate::{
    cache::{self, Key},
    compile::lower_program,
    error::Error,
    schedule::AnySchedule,
};
use backend_ptx::Ptx;
use std::{
    collections::HashMap,
    sync::{LazyLock, PoisonError, RwLock},
};
use tile_dsl::{
    dtype::DType,
    program::{Program, Variant},
};

static PROVIDED: LazyLock<RwLock<HashMap<Key, Ptx>>> = LazyLock::new(RwLock::default);

/// Compiles schedules for all element types that they admit and all variants, into bytes for [`provide`].
///
/// # Errors
/// [`Error::Compile`] without the feature `jit`, or what the compiler says.
pub fn compile(schedules: &[&dyn AnySchedule]) -> Result<Vec<u8>, Error> {
    let mut pack = Vec::new();
    for schedule in schedules {
        let dtypes: Vec<Option<DType>> = match schedule.dtypes() {
            [] => vec![None],
            some => some.iter().copied().map(Some).collect(),
        };
        for bytes in dtypes.into_iter().filter_map(|dtype| schedule.program(dtype)) {
            let program = Program::from_bytes(bytes)
                .map_err(|source| Error::Program { schedule: schedule.name().into(), source })?;
            for variant in [Variant::Exact, Variant::Aligned, Variant::General] {
                let kernel = lower_program(&program, variant)?;
                let entry = cache::encode(&backend_ptx::compile(&kernel)?);
                pack.extend(Key::of(&kernel).0);
                pack.extend((entry.len() as u64).to_le_bytes());
                pack.extend(entry);
            }
        }
    }
    Ok(pack)
}

/// Makes PTX from [`compile`] available to every launch of this process; returns the number of kernels.
///
/// # Errors
/// [`Error::Precompiled`] when the bytes are not such PTX; nothing is provided then.
pub fn provide(pack: &[u8]) -> Result<usize, Error> {
    let mut kernels = HashMap::new();
    let mut rest = pack;
    while !rest.is_empty() {
        let (key, ptx, after) = entry(rest).ok_or(Error::Precompiled)?;
        kernels.insert(key, ptx);
        rest = after;
    }
    let count = kernels.len();
    PROVIDED.write().unwrap_or_else(PoisonError::into_inner).extend(kernels);
    Ok(count)
}

fn entry(pack: &[u8]) -> Option<(Key, Ptx, &[u8])> {
    let (key, rest) = pack.split_first_chunk::<32>()?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (entry, after) = rest.split_at_checked(length)?;
    Some((Key(*key), cache::decode(entry)?, after))
}

pub(crate) fn find(key: &Key) -> Option<Ptx> {
    PROVIDED.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_are_read_whole_or_not_at_all() {
        let ptx = Ptx {
            text: "t".into(),
            entry: "e".into(),
            assemble: None,
            threads: 1,
            static_shared: 0,
            dynamic_shared: 0,
        };
        let encoded = cache::encode(&ptx);
        let mut pack = Vec::new();
        for first in [201, 202] {
            pack.extend([first; 32]);
            pack.extend((encoded.len() as u64).to_le_bytes());
            pack.extend(&encoded);
        }
        for length in 1..pack.len() {
            let whole_entries = length == pack.len() / 2;
            assert_eq!(provide(&pack[..length]).is_ok(), whole_entries, "cut to {length}");
        }
        assert_eq!(provide(&pack).unwrap(), 2);
        assert_eq!(find(&Key([202; 32])), Some(ptx));
        assert_eq!(find(&Key([203; 32])), None);
    }
}
