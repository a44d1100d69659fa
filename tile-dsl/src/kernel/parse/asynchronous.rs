//! Reads what completes on its own, and roles.

use super::{Parse, Parser};
use crate::kernel::{Async, Expr, Mem, Param, Role, Stmt, Tile};
use crate::nest::Atom;

impl Parser {
    /// `name: map a [1: 64, 0: 128] swizzle 128`, from the tensor on.
    pub(super) fn tensor_map(&mut self, name: String, stored: bool) -> Parse<Param> {
        let of = self.next();
        let Some(tensor) = self.param_named(&of) else { return self.fail("a tensor") };
        self.expect("[")?;
        let (mut dims, mut tile) = (Vec::new(), Vec::new());
        loop {
            dims.push(self.number()?);
            self.expect(":")?;
            tile.push(self.number()?);
            if !self.eat(",") {
                break;
            }
        }
        self.expect("]")?;
        self.expect("swizzle")?;
        Ok(Param::TensorMap { name, tensor, dims, tile, swizzle: self.number()?, stored })
    }

    /// What follows `roles`.
    pub(super) fn roles(&mut self) -> Parse<Stmt> {
        self.expect("{")?;
        let mut roles = Vec::new();
        while self.eat("threads") {
            let first: u32 = self.number()?;
            self.expect("to")?;
            let end: u32 = self.number()?;
            let registers = if self.eat("registers") { Some(self.number()?) } else { None };
            self.expect("{")?;
            roles.push(Role { first, threads: end.saturating_sub(first), registers, body: self.block()? });
        }
        self.expect("}")?;
        Ok(Stmt::Roles(roles))
    }

    /// A place in a shared buffer.
    fn shared_place(&mut self) -> Parse<(u32, Expr)> {
        let (Mem::Shared(shared), offset) = self.place()? else { return self.fail("a shared buffer") };
        Ok((shared, offset))
    }

    /// The operation that `word` begins.
    pub(super) fn asynchronous(&mut self, word: &str) -> Parse<Async> {
        Ok(match word {
            "mbarriers" => {
                let barrier = self.shared()?;
                self.expect("x")?;
                let slots = self.number()?;
                self.expect("of")?;
                Async::Init { barrier, slots, arrivals: self.number()? }
            }
            "arrive" => {
                let (barrier, slot) = self.shared_place()?;
                let cta = if self.eat("of") { Some(self.expr()?) } else { None };
                let bytes = if self.eat("expect") { Some(self.number()?) } else { None };
                Async::Arrive { barrier, slot, bytes, cta }
            }
            "await" => {
                let (barrier, slot) = self.shared_place()?;
                self.expect("parity")?;
                Async::Wait { barrier, slot, parity: self.expr()? }
            }
            "tensor" => {
                let (shared, offset) = self.shared_place()?;
                self.expect("<-")?;
                let name = self.next();
                let Some(map) = self.param_named(&name) else { return self.fail("a tensor map") };
                self.expect("[")?;
                let coordinates = self.exprs()?;
                self.expect("]")?;
                self.expect("completes")?;
                let (barrier, slot) = self.shared_place()?;
                let everywhere = self.eat("everywhere");
                Async::Copy { map, shared, offset, coordinates, barrier, slot, everywhere }
            }
            "send" => {
                let name = self.next();
                let Some(map) = self.param_named(&name) else { return self.fail("a tensor map") };
                self.expect("[")?;
                let coordinates = self.exprs()?;
                self.expect("]")?;
                self.expect("<-")?;
                let (shared, offset) = self.shared_place()?;
                Async::Store { map, shared, offset, coordinates }
            }
            "stores" if self.eat("commit") => Async::CommitStores,
            "stores" => {
                self.expect("wait")?;
                Async::WaitStores { pending: self.number()? }
            }
            "acquire" | "prefetch" => {
                let name = self.next();
                let Some(map) = self.param_named(&name) else { return self.fail("a tensor map") };
                if word == "acquire" { Async::AcquireMap { map } } else { Async::PrefetchMap { map } }
            }
            "proxy_fence" => Async::ProxyFence,
            _ => match self.next().as_str() {
                "fence" => Async::Fence { results: self.results()? },
                "commit" => Async::Commit,
                "wait" => {
                    let pending = self.number()?;
                    Async::WaitProducts { pending, results: self.results()? }
                }
                _ => return self.fail("`fence`, `commit` or `wait`"),
            },
        })
    }

    fn results(&mut self) -> Parse<Vec<(u32, Vec<u32>)>> {
        let mut results = Vec::new();
        while self.kernel.frags.iter().any(|f| f.name == self.peek()) {
            results.push(self.slots()?);
        }
        Ok(results)
    }

    /// Operands in shared memory.
    pub(super) fn multiply(&mut self, atom: Atom, (frag, slots): (u32, Vec<u32>)) -> Parse<Stmt> {
        let a = self.tile()?;
        self.expect("x")?;
        let b = self.tile()?;
        let overwrites = if self.eat("overwrites") { Some(self.expr()?) } else { None };
        Ok(Stmt::Async(Async::Multiply { atom, frag, slots, a, b, overwrites }))
    }

    fn tile(&mut self) -> Parse<Tile> {
        let (shared, offset) = self.shared_place()?;
        self.expect("major")?;
        let k_major = match self.next().as_str() {
            "k" => true,
            "mn" => false,
            _ => return self.fail("`k` or `mn`"),
        };
        self.expect("swizzle")?;
        let swizzle = self.number()?;
        self.expect("leading")?;
        let leading = self.number()?;
        self.expect("stride")?;
        Ok(Tile { shared, offset, k_major, swizzle, leading, stride: self.number()? })
    }
}
