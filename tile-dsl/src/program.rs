//! The proved scheduled program, as the macros embed it: one versioned byte string.

use crate::{
    dtype::DType,
    nest::Nest,
    schedule::{self, Schedule},
    tile,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A kernel under a schedule, for one element type of its generic parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// The schedule it was proved for.
    pub schedule: Schedule,
    /// Element type of the generic parameter, `None` for a kernel without one.
    pub dtype: Option<DType>,
    /// The extracted nest.
    pub nest: Nest,
}

/// Which assumptions a compiled program makes. The launch picks the first that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Variant {
    /// Every tiled axis is a multiple of its tile and every vector is whole: no guards.
    Exact,
    /// Every vector is whole and aligned; tails are guarded.
    Aligned,
    /// No assumption beyond offsets in range: scalar global accesses, all guards, 64-bit offsets.
    General,
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Variant::Exact => "exact",
            Variant::Aligned => "aligned",
            Variant::General => "general",
        })
    }
}

/// Identifies the encoding; any change of the IRs changes it. A directive more does so by itself, in the last byte.
const MAGIC: [u8; 9] = {
    let [t, i, l, e, w, r] = *b"tilewr";
    [t, i, l, e, w, r, 0, 9, schedule::rows().len() as u8]
};

/// Why a byte string is not a program.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Written by another version of the macros.
    ///
    /// What to do: rebuild the crate that defines the schedule with the version that launches it.
    #[error(
        "the embedded program was written by another version of tilewright: rebuild the crate that defines the schedule"
    )]
    Version,
    /// Truncated or altered.
    ///
    /// What to do: rebuild the crate that defines the schedule.
    #[error("the embedded program is damaged: {0}")]
    Damaged(#[from] postcard::Error),
}

pub(crate) fn encode(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(postcard::to_stdvec(value).expect("IR types serialise"));
    bytes
}

pub(crate) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, DecodeError> {
    let payload = bytes.strip_prefix(&MAGIC).ok_or(DecodeError::Version)?;
    Ok(postcard::from_bytes(payload)?)
}

impl Program {
    /// Encodes the program.
    ///
    /// # Panics
    /// Never: every IR type is serialisable.
    pub fn to_bytes(&self) -> Vec<u8> {
        encode(self)
    }

    /// Decodes a program and checks the version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode(bytes)
    }
}

impl tile::Kernel {
    /// Encodes the kernel, for tests and tools that schedule at run time.
    ///
    /// # Panics
    /// Never: every IR type is serialisable.
    pub fn to_bytes(&self) -> Vec<u8> {
        encode(self)
    }

    /// Decodes a kernel and checks the version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode(bytes)
    }
}
