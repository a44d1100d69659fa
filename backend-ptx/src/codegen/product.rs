//! Products of a warpgroup (PTX ISA 9.7.16, `wgmma.mma_async`): LLVM has no intrinsic for them.

use super::{Codegen, Result, malformed, scalar::I32};
use inkwell::values::IntValue;
use tile_dsl::{
    kernel::{Expr, Mem, Tile},
    nest::Atom,
    op::BinOp,
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
        let dtype = self.kernel.dtype_of(Mem::Shared(a.shared));
        let Some(ty) = dtype.and_then(|dtype| atom.row().ptx(dtype)) else {
            return malformed(format!("{atom} of {dtype:?}"));
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

    /// PTX ISA 9.7.16.5.1: address, leading and stride offsets in units of 16 bytes, swizzle. The descriptor of the buffer is
    /// the same wherever the tile lies in it, so it is found once, and what a step adds needs neither mask nor shift: shared
    /// memory ends far below what the field for the address holds, so that nothing is carried out of it.
    fn descriptor(&mut self, tile: &Tile) -> Result<IntValue<'c>> {
        let (int, long) = (self.context.i32_type(), self.context.i64_type());
        let mode: u64 = match tile.swizzle {
            128 => 1,
            64 => 2,
            32 => 3,
            other => return malformed(format!("a swizzle of {other} bytes")),
        };
        let field = |bytes: u32, at: u32| u64::from(bytes >> 4 & 0x3fff) << at;
        let (buffer, dtype) = self.address(Mem::Shared(tile.shared), &Expr::Int(0, I32))?;
        let address = self.builder.build_ptr_to_int(buffer, int, "")?;
        let address = self.builder.build_and(address, int.const_int(ADDRESS, false), "")?;
        let address = self.builder.build_right_shift(address, int.const_int(4, false), false, "")?;
        let first = self.builder.build_or(address, int.const_int(field(tile.leading, 16), false), "")?;
        let (varying, constant) = match &tile.offset {
            Expr::Bin(BinOp::Add, varying, constant) => match **constant {
                Expr::Int(elements, _) => (&**varying, elements),
                _ => (&tile.offset, 0),
            },
            _ => (&tile.offset, 0),
        };
        let unit = i64::from(16 / dtype.bytes());
        let (varying, constant) =
            if constant % unit == 0 { (varying, constant / unit) } else { (&tile.offset, 0) };
        // Exact: tiles begin where the swizzle's pattern does, or at a row of 16 bytes of it.
        let elements = self.expr(varying)?.int()?;
        let units =
            self.builder.build_int_exact_signed_div(elements, int.const_int(unit as u64, false), "")?;
        let low = self.builder.build_int_add(first, units, "")?;
        let low = self.builder.build_int_add(low, int.const_int(constant as u64, true), "")?;
        let low = self.builder.build_int_z_extend(low, long, "")?;
        let high = long.const_int(field(tile.stride, 32) | mode << 62, false);
        Ok(self.builder.build_or(low, high, "")?)
    }
}
