//! Reads what stands before a kernel's body: parameters, buffers, fragments and the grid.

use super::{Parse, Parser};
use crate::{
    dtype::DType,
    index::Extent,
    kernel::{Frag, GridAxis, Param, Shared},
    machine::{Evict, Target},
};

impl Parser {
    /// All of a kernel.
    pub(super) fn kernel(&mut self) -> Parse {
        self.expect("kernel")?;
        self.kernel.name = self.next();
        let target = self.next();
        let Some(sm) = target.strip_prefix("sm_") else { return self.fail("a target") };
        let specific = sm.ends_with('a');
        let Ok(sm) = sm.trim_end_matches('a').parse() else { return self.fail("a target") };
        self.kernel.target = Target { sm, specific };
        self.expect("threads")?;
        self.kernel.threads = self.parsed()?;
        if self.eat("min_ctas") {
            self.kernel.min_ctas = Some(self.parsed()?);
        }
        if self.eat("persistent") {
            self.kernel.persistent = Some(self.parsed()?);
        }
        if self.eat("cluster") {
            self.kernel.cluster = Some(self.parsed()?);
        }
        if self.eat("assemble") {
            self.kernel.assemble = Some(self.parsed()?);
        }
        self.kernel.dependent = self.eat("dependent");
        self.kernel.grouped = self.eat("grouped");
        self.expect("{")?;
        let mut placed = false;
        loop {
            if self.eat("param") {
                self.parameter()?;
            } else if self.peek() == "shared" {
                self.at += 1;
                let name = self.next();
                let (dtype, elems) = self.array()?;
                self.expect("align")?;
                let align = self.parsed()?;
                placed |= self.peek() == "at";
                let start = if self.eat("at") { self.parsed()? } else { 0 };
                self.kernel.shared.push(Shared { name, dtype, elems, align, start });
            } else if self.eat("frag") {
                let name = self.next();
                let (dtype, slots) = self.array()?;
                self.kernel.frags.push(Frag { name, dtype, slots });
            } else if self.eat("grid") {
                self.grid_axis()?;
                while self.eat(",") {
                    self.grid_axis()?;
                }
            } else {
                break;
            }
        }
        if !placed {
            self.kernel.place_apart();
        }
        self.kernel.body = self.statements()?;
        if self.at == self.words.len() { Ok(()) } else { self.fail("the end") }
    }

    fn array(&mut self) -> Parse<(DType, u32)> {
        self.expect(":")?;
        let dtype = self.dtype()?;
        self.expect("[")?;
        let n = self.parsed()?;
        self.expect("]")?;
        Ok((dtype, n))
    }

    fn parameter(&mut self) -> Parse {
        let name = self.next();
        self.expect(":")?;
        if self.eat("cleared") {
            self.kernel.cleared.push(self.kernel.params.len() as u32);
        }
        let (mutable, zeroed, stored) = (self.eat("mut"), self.eat("zeroed"), self.eat("stored"));
        let param = match self.next().as_str() {
            "tensor" => {
                let dtype = self.dtype()?;
                self.expect("align")?;
                let align = self.parsed()?;
                let cache = if self.eat("cache") {
                    let named = Evict::named(&self.next());
                    Some(named.map_or_else(|| self.fail("a cache policy"), Ok)?)
                } else {
                    None
                };
                Param::Tensor { name, dtype, mutable, align, cache }
            }
            "dim" => Param::Dim(name),
            "scalar" => Param::Scalar { name, dtype: self.dtype()? },
            "scratch" => {
                let dtype = self.dtype()?;
                self.expect("[")?;
                let elems = self.parsed()?;
                self.expect("]")?;
                Param::Scratch { name, dtype, elems, zeroed }
            }
            "map" => self.tensor_map(name, stored)?,
            _ => return self.fail("`tensor`, `dim`, `scalar`, `scratch` or `map`"),
        };
        self.kernel.params.push(param);
        Ok(())
    }

    /// `name: map a [1: 64, 0: 128] swizzle 128`, from the tensor on.
    fn tensor_map(&mut self, name: String, stored: bool) -> Parse<Param> {
        let of = self.next();
        let Some(tensor) = self.param_named(&of) else { return self.fail("a tensor") };
        self.expect("[")?;
        let (mut dims, mut tile) = (Vec::new(), Vec::new());
        loop {
            dims.push(self.parsed()?);
            self.expect(":")?;
            tile.push(self.parsed()?);
            if !self.eat(",") {
                break;
            }
        }
        self.expect("]")?;
        self.expect("swizzle")?;
        Ok(Param::TensorMap { name, tensor, dims, tile, swizzle: self.parsed()?, stored })
    }

    fn grid_axis(&mut self) -> Parse {
        let extent = self.extent()?;
        self.expect("/")?;
        let tile = self.parsed()?;
        let period = if self.eat("of") { self.parsed()? } else { tile };
        let least = if self.eat("least") { self.parsed()? } else { 0 };
        self.kernel.grid.push(GridAxis { extent, tile, period, least });
        Ok(())
    }

    /// `2*M + N - 1`.
    pub(super) fn extent(&mut self) -> Parse<Extent> {
        let mut extent = Extent::default();
        let mut sign = 1;
        loop {
            let mut word = self.next();
            if let Some(rest) = word.strip_prefix('-') {
                (word, sign) = (rest.to_string(), -sign);
            }
            let (mut factor, mut name) = (sign, None);
            match word.parse::<i64>() {
                Ok(n) => {
                    factor *= n;
                    if self.eat("*") {
                        name = Some(self.next());
                    }
                }
                Err(_) => name = Some(word),
            }
            match name {
                Some(name) => *extent.dims.entry(name).or_insert(0) += factor,
                None => extent.constant += factor,
            }
            sign = match self.peek() {
                "+" => 1,
                "-" => -1,
                _ => return Ok(extent),
            };
            self.at += 1;
        }
    }
}
