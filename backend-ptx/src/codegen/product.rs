//! Products of a warpgroup (PTX ISA 9.7.16, `wgmma.mma_async`): LLVM has no intrinsic for them.

use super::{Codegen, Result, malformed};
use inkwell::values::IntValue;
use tile_dsl::{
    dtype::DType,
    kernel::{Expr, Mem, Tile},
    nest::Atom,
};

/// What of an address in shared memory a descriptor holds: in a cluster, bits above it say which CTA.
const ADDRESS: u64 = 0x3_ffff;

impl<'c> Codegen<'c, '_> {
    pub(super) fn multiply(
        &mut self,
        atom: Atom,
        (frag, slots): (u32, &[u32]),
        [a, b]: [&Tile; 2],
        overwrites: Option<&Expr>,
    ) -> Result<()> {
        let [m, n, k] = atom.row().shape;
        let ty = match self.kernel.dtype_of(Mem::Shared(a.shared)) {
            Some(DType::F16) => "f16",
            Some(DType::BF16) => "bf16",
            Some(DType::F8) => "e4m3",
            Some(DType::F32) => "tf32",
            other => return malformed(format!("{atom} of {other:?}")),
        };
        let pointers =
            slots.iter().map(|slot| Ok(self.frag_slot(frag, *slot)?.0)).collect::<Result<Vec<_>>>()?;
        let mut args = Vec::new();
        for pointer in &pointers {
            args.push(self.builder.build_load(self.context.f32_type(), *pointer, "")?.into());
        }
        for tile in [a, b] {
            args.push(self.descriptor(tile)?.into());
        }
        let adds = match overwrites {
            None => self.context.bool_type().const_int(1, false),
            Some(first) => {
                let first = self.expr(first)?.bool()?;
                self.builder.build_not(first, "")?
            }
        };
        args.push(adds.into());
        let count = pointers.len();
        let sums = (0..count).map(|n| format!("${n}")).collect::<Vec<_>>().join(", ");
        let (first, second, adds) = (2 * count, 2 * count + 1, 2 * count + 2);
        // Where rows run along k alone, nothing says so.
        let turned = match atom.row().k_major {
            true => String::new(),
            false => [a, b].map(|t| format!(", {}", u8::from(!t.k_major))).concat(),
        };
        let text = format!(
            "wgmma.mma_async.sync.aligned.m{m}n{n}k{k}.f32.{ty}.{ty} {{{sums}}}, ${first}, ${second}, ${adds}, 1, 1{turned};"
        );
        let mut constraints: Vec<String> = vec!["=f".into(); count];
        constraints.extend((0..count).map(|n| n.to_string()));
        constraints.extend(["l", "l", "b"].map(String::from));
        let call = self.assembler(&text, constraints.join(","), count, &args)?;
        self.store_results(call, &pointers)
    }

    /// PTX ISA 9.7.16.5.1: address, leading and stride offsets in units of 16 bytes, swizzle.
    fn descriptor(&mut self, tile: &Tile) -> Result<IntValue<'c>> {
        let long = self.context.i64_type();
        let address = self.shared_address(tile.shared, &tile.offset)?;
        let address = self.builder.build_int_z_extend(address, long, "")?;
        let address = self.builder.build_and(address, long.const_int(ADDRESS, false), "")?;
        let address = self.builder.build_right_shift(address, long.const_int(4, false), false, "")?;
        let mode: u64 = match tile.swizzle {
            128 => 1,
            64 => 2,
            32 => 3,
            other => return malformed(format!("a swizzle of {other} bytes")),
        };
        let field = |bytes: u32, at: u32| u64::from(bytes >> 4 & 0x3fff) << at;
        let rest = field(tile.leading, 16) | field(tile.stride, 32) | mode << 62;
        Ok(self.builder.build_or(address, long.const_int(rest, false), "")?)
    }
}
