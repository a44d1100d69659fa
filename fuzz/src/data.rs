//! Contents of tensors and values of scalars: small whole numbers, which most arithmetic keeps exact, so that any element
//! taken from the wrong place shows.

use crate::{
    case::{Case, Launch},
    program,
};
use std::collections::BTreeMap;
use tile_dsl::{
    dtype::DType,
    engine::testing::Random,
    tile::{
        ElemType, Kernel, TensorId,
        evaluate::{Elements, Inputs},
    },
};

/// Mixes two numbers into a seed (splitmix64, Steele et al. 2014).
pub fn mix(a: u64, b: u64) -> u64 {
    let mut z = a.wrapping_add(b.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The element type of a parameter of an instantiated kernel.
pub fn dtype(elem: ElemType) -> DType {
    match elem {
        ElemType::Fixed(dtype) => dtype,
        ElemType::Generic => panic!("the kernel is instantiated first"),
    }
}

/// Shapes of the tensors; nothing if an extent is negative.
pub fn shapes(kernel: &Kernel, dims: &BTreeMap<String, i64>) -> Option<Vec<Vec<usize>>> {
    let shape = |t: &tile_dsl::tile::Tensor| {
        t.dims.iter().map(|d| usize::try_from(d.eval(dims)?).ok()).collect::<Option<Vec<usize>>>()
    };
    kernel.tensors.iter().map(shape).collect()
}

/// Arguments of a launch of a kernel, which is instantiated. Tensors that are only stored to have contents, too: what a
/// kernel does not store must stay. `tiles`: sizes of the tiles that the kernel sees.
pub fn inputs(kernel: &Kernel, launch: &Launch, tiles: BTreeMap<String, u32>) -> Option<Inputs> {
    let mut inputs = Inputs { dims: launch.dims.clone(), tiles, ..Inputs::default() };
    let indexed = program::leading(kernel);
    for ((id, tensor), shape) in (0u16..).zip(&kernel.tensors).zip(shapes(kernel, &launch.dims)?) {
        let mut random = Random::new(mix(launch.data, id.into()));
        let dtype = dtype(tensor.elem);
        let n: usize = shape.iter().product();
        if let Some(of) = indexed.get(&TensorId(id)) {
            let extent = of.extent.eval(&launch.dims)?;
            inputs.tensors.insert(tensor.name.clone(), indices(&mut random, dtype, n, extent, of.distinct));
            continue;
        }
        // Few enough bits that sums of products are exact often.
        let most: i64 = match dtype.narrow().map(|float| float.mantissa) {
            Some(..=7) => *random.pick(&[1, 2, 3]),
            Some(_) => *random.pick(&[1, 2, 4, 8]),
            None => *random.pick(&[1, 2, 4, 9, 50]),
        };
        let values = (0..n).map(|_| {
            if launch.special && dtype.is_float() && random.below(12) == 0 {
                return *random.pick(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0]);
            }
            if dtype.is_truth() {
                return random.below(2) as f64;
            }
            // Without a sign, what would be negative is great.
            let x = random.below(2 * most as usize + 1) as i64 - most;
            if dtype.is_unsigned() { dtype.wrap(x) as f64 } else { x as f64 }
        });
        inputs.tensors.insert(tensor.name.clone(), Elements::from_f64(dtype, values));
    }
    for (n, scalar) in (1000..).zip(&kernel.scalars) {
        let mut random = Random::new(mix(launch.data, n));
        inputs.scalars.insert(scalar.name.clone(), random.below(7) as f64 - 3.0);
    }
    Some(inputs)
}

/// Contents of an index tensor: places in a dimension of this extent, and beside it.
fn indices(random: &mut Random, dtype: DType, n: usize, extent: i64, distinct: bool) -> Elements {
    const FAR: [i64; 8] =
        [i32::MIN as i64, i32::MAX as i64, -1000, 1 << 30, 1 << 31, (1 << 32) + 1, -(1 << 32) + 1, 1 << 52];
    let fits = |n: &i64| dtype.wrap(*n) == *n;
    let far: Vec<i64> = FAR.into_iter().filter(fits).chain([dtype.least().max(-(1 << 53))]).collect();
    let elements = |places: Vec<i64>| Elements::from_f64(dtype, places.into_iter().map(|n| n as f64));
    if !distinct {
        let near = |random: &mut Random| random.below(extent as usize + 2) as i64 - 1;
        let place =
            |random: &mut Random| if random.below(16) == 0 { *random.pick(&far) } else { near(random) };
        return elements((0..n).map(|_| place(random).clamp(dtype.least(), dtype.greatest())).collect());
    }
    let mut places: Vec<i64> = (-2..extent.max(n as i64) + 4).filter(fits).chain(far).collect();
    places.sort_unstable();
    places.dedup();
    // Fisher–Yates.
    for at in (1..places.len()).rev() {
        places.swap(at, random.below(at + 1));
    }
    places.truncate(n);
    elements(places)
}

impl Case {
    /// The kernel for the case's element type.
    pub fn instantiated(&self) -> Kernel {
        self.kernel.instantiate(self.dtype)
    }
}
