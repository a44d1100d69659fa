//! What emission is a function of: what is lowered, what is around the current point, and what is built.

use super::{
    build::Builder,
    emit::{Emit, Op},
    env::{Env, Tile},
    error::LowerError,
    given::Given,
    grid::Grid,
};
use crate::{
    dtype::DType,
    index::{AxisId, Extent},
    kernel::{Mem, Param},
    nest::Nest,
    plan::Plan,
    program::{Program, Variant},
    shared::{Allocation, Content},
    tile::{self, ScalarId, TensorId},
};

/// What is lowered: a variant of a plan. It stays as it is.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub nest: &'a Nest,
    pub plan: &'a Plan,
    pub shared: &'a Allocation,
    pub variant: Variant,
    pub given: &'a Given,
    /// Position of the first scalar among the parameters.
    pub first_scalar: u32,
}

/// All that a function of emission reads and writes.
pub(super) struct Cx<'a> {
    pub view: View<'a>,
    pub env: Env<'a>,
    pub build: Builder,
}

impl<'a> View<'a> {
    /// Type of offsets into a tensor in global memory.
    pub fn offset_ty(&self, id: TensorId) -> DType {
        match self.variant {
            Variant::Exact | Variant::Aligned if !self.nest.is_indexed_by_values(id) => DType::I32,
            Variant::Exact | Variant::Aligned | Variant::General => DType::I64,
        }
    }

    pub fn tensor(&self, id: TensorId) -> &'a tile::Tensor {
        &self.nest.kernel.tensors[id.0 as usize]
    }

    pub fn axis_name(&self, axis: AxisId) -> &'a str {
        self.nest.axis(axis)
    }

    /// Tensors are the first parameters.
    pub fn global(&self, id: TensorId) -> Mem {
        Mem::Global(id.0.into())
    }

    /// The shared buffer of something at one of its places, or of the mbarriers of the channel of a number.
    pub fn shared_buffer(&self, content: Content, place: usize) -> Result<u32, LowerError> {
        let missing = || LowerError::Malformed(format!("no shared memory for {}", content.text(self.nest)));
        self.shared.find(content, place).ok_or_else(missing)
    }
}

impl<'a> Cx<'a> {
    /// At the start of a kernel.
    pub fn new(
        program: &'a Program,
        variant: Variant,
        given: &'a Given,
        plan: &'a Plan,
        shared: &'a Allocation,
    ) -> Self {
        let nest = &program.nest;
        let mut emit = Emit::new();
        let mut in_problem = None;
        let grid = match (plan.tiles.persistent, plan.tiles.segment) {
            (Some(_), _) => Grid::none(),
            (None, segment) => {
                if given.grouped {
                    let cta = emit.op(Op::Cta, &[]);
                    in_problem = Some(emit.problem(cta));
                }
                match segment {
                    Some(_) => Grid::none(),
                    // The number is drawn.
                    None if plan.lookback.is_some() => Grid::none(),
                    None => Grid::of(&plan.tiles, &mut emit, in_problem),
                }
            }
        };
        let params = params(nest, variant, given);
        let first_scalar = (params.len() - nest.kernel.scalars.len()) as u32;
        let tile = Tile::new(plan.units.clone(), grid, in_problem);
        Cx {
            view: View { nest, plan, shared, variant, given, first_scalar },
            env: Env::new(tile),
            build: Builder::new(emit, params),
        }
    }
}

/// Parameters: tensors, dims in order of first use by tensors and then by axes, strides, scalars.
fn params(nest: &Nest, variant: Variant, Given { strided, .. }: &Given) -> Vec<Param> {
    let kernel = &nest.kernel;
    let vectors = crate::assume::vector_bytes(nest, variant);
    let mut params: Vec<Param> = kernel
        .tensors
        .iter()
        .enumerate()
        .map(|(i, t)| {
            let id = TensorId(i as u16);
            let dtype = nest.elem(id);
            let align = vectors.get(&id).copied().unwrap_or(0).max(dtype.bytes());
            let cache = nest.cache.get(&id).copied();
            Param::Tensor { name: t.name.clone(), dtype, mutable: t.mutable, align, cache }
        })
        .collect();
    let extents = kernel.tensors.iter().flat_map(|t| &t.dims).chain(kernel.axes.iter().map(|a| &a.extent));
    let mut dims: Vec<&str> = Vec::new();
    for name in extents.flat_map(|e: &Extent| e.dims.keys()) {
        if !dims.contains(&name.as_str()) {
            dims.push(name);
        }
    }
    params.extend(dims.into_iter().map(|d| Param::Dim(d.to_string())));
    for id in strided {
        let tensor = &kernel.tensors[id.0 as usize];
        let contiguous = nest.contiguous(*id);
        let strides = (0..tensor.dims.len()).filter(|d| *d != contiguous);
        params.extend(strides.map(|d| Param::Dim(crate::assume::stride(tensor, d))));
    }
    let scalars = kernel.scalars.iter();
    params.extend(
        (0..)
            .zip(scalars)
            .map(|(n, s)| Param::Scalar { name: s.name.clone(), dtype: nest.scalar_dtype(ScalarId(n)) }),
    );
    params
}
