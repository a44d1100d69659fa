//! Where the numbers of a model come from: a file, or a seed.

use super::config::{Config, Named};
use half::{bf16, f16};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use std::path::Path;
use tilewright::{DType, Float};

pub type Failure = Box<dyn std::error::Error>;

/// Weights by name.
pub enum Weights {
    /// Normal random numbers: of a matrix with the standard deviation 1/√K for rows of K, of a norm about 1.
    Random { seed: u64 },
    /// The bytes of a file in the format `safetensors`.
    File(Vec<u8>),
}

impl Weights {
    /// A file, of which all tensors of a model are in.
    ///
    /// # Errors
    /// A file that cannot be read, is of another format, or lacks a tensor.
    pub fn open(path: &Path, config: &Config) -> Result<Self, Failure> {
        let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let tensors = SafeTensors::deserialize(&bytes).map_err(|e| format!("{}: {e}", path.display()))?;
        for (name, shape) in config.tensors() {
            let found = tensors.tensor(&name).map_err(|e| format!("{}: {e}", path.display()))?;
            if found.shape() != shape {
                return Err(
                    format!("`{name}` has shape {:?}, and the model has {shape:?}", found.shape()).into()
                );
            }
        }
        Ok(Weights::File(bytes))
    }

    /// The elements of a tensor, row by row.
    ///
    /// # Errors
    /// A tensor that the file lacks, or has in a type other than `f32`, `f16` and `bf16`.
    pub fn read<T: Float>(&self, (name, shape): &Named) -> Result<Vec<T>, Failure> {
        match self {
            Weights::Random { seed } => Ok(random(*seed, name, shape)),
            Weights::File(bytes) => {
                let tensors = SafeTensors::deserialize(bytes)?;
                let found = tensors.tensor(name)?;
                let data = found.data();
                Ok(match found.dtype() {
                    Dtype::F32 => numbers(data, |b| f32::from_le_bytes(b).into()),
                    Dtype::F16 => numbers(data, |b| f16::from_le_bytes(b).into()),
                    Dtype::BF16 => numbers(data, |b| bf16::from_le_bytes(b).into()),
                    other => return Err(format!("`{name}` has elements of type {other:?}").into()),
                })
            }
        }
    }

    /// Writes all tensors of a model to a file.
    ///
    /// # Errors
    /// Those of [`Weights::read`], and of writing.
    pub fn save<T: Float>(&self, config: &Config, path: &Path) -> Result<(), Failure> {
        let dtype = match T::DTYPE {
            DType::F32 => Dtype::F32,
            DType::F16 => Dtype::F16,
            DType::BF16 => Dtype::BF16,
            other => return Err(format!("no model has weights of type {other}").into()),
        };
        let bytes = |x: T| match dtype {
            Dtype::F32 => (x.to_f64() as f32).to_le_bytes().to_vec(),
            Dtype::F16 => f16::from_f64(x.to_f64()).to_le_bytes().to_vec(),
            _ => bf16::from_f64(x.to_f64()).to_le_bytes().to_vec(),
        };
        let read = |named: Named| {
            let data: Vec<u8> = self.read::<T>(&named)?.into_iter().flat_map(bytes).collect();
            Ok::<_, Failure>((named, data))
        };
        let all = config.tensors().into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let views =
            all.iter().map(|((name, shape), data)| Ok((name, TensorView::new(dtype, shape.clone(), data)?)));
        let views = views.collect::<Result<Vec<_>, safetensors::SafeTensorError>>()?;
        Ok(safetensors::serialize_to_file(views, None, path)?)
    }
}

/// Numbers of so many bytes each.
fn numbers<T: Float, const N: usize>(data: &[u8], number: impl Fn([u8; N]) -> f64 + Sync) -> Vec<T> {
    data.as_chunks().0.par_iter().map(|bytes| T::from_f64(number(*bytes))).collect()
}

fn random<T: Float>(seed: u64, name: &str, shape: &[usize]) -> Vec<T> {
    const CHUNK: usize = 1 << 16;
    // FNV-1a: tensors of one seed differ.
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    let (mean, deviation) = match shape {
        [_, k] => (0.0, 1.0 / (*k as f64).sqrt()),
        _ => (1.0, 0.1),
    };
    let mut data = vec![T::default(); shape.iter().product()];
    data.par_chunks_mut(CHUNK).enumerate().for_each(|(n, chunk)| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ hash);
        rng.set_stream(n as u64);
        let mut number = || -> f64 { StandardNormal.sample(&mut rng) };
        chunk.iter_mut().for_each(|x| *x = T::from_f64(mean + deviation * number()));
    });
    data
}
