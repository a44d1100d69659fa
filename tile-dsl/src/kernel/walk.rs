//! Walks over statements: what each defines, evaluates and accesses, and the blocks inside.
//!
//! All of them are visitors of the [table](super::statements), so a statement that is new is walked over by its row.

use super::{
    Expr, Kernel, Mem, Param, Stmt, Var,
    visit::{Access, Visitor, VisitorMut},
};
use std::convert::Infallible;

impl Stmt {
    /// The blocks directly inside.
    pub fn blocks(&self) -> Vec<&[Stmt]> {
        struct Blocks<'a>(Vec<&'a [Stmt]>);
        impl<'a> Visitor<'a> for Blocks<'a> {
            type Error = Infallible;
            fn block(&mut self, block: &'a Vec<Stmt>) -> Result<(), Infallible> {
                self.0.push(block);
                Ok(())
            }
        }
        let mut blocks = Blocks(Vec::new());
        let Ok(()) = self.visit(&mut blocks);
        blocks.0
    }

    /// The blocks directly inside.
    pub fn blocks_mut(&mut self) -> Vec<&mut Vec<Stmt>> {
        struct Blocks<'a>(Vec<&'a mut Vec<Stmt>>);
        impl<'a> VisitorMut<'a> for Blocks<'a> {
            type Error = Infallible;
            fn block(&mut self, block: &'a mut Vec<Stmt>) -> Result<(), Infallible> {
                self.0.push(block);
                Ok(())
            }
        }
        let mut blocks = Blocks(Vec::new());
        let Ok(()) = self.visit_mut(&mut blocks);
        blocks.0
    }

    /// Calls `f` with each variable that the statement itself defines, in order.
    pub fn defines(&self, f: &mut dyn FnMut(Var)) {
        struct Defines<'f>(&'f mut dyn FnMut(Var));
        impl<'a> Visitor<'a> for Defines<'_> {
            type Error = Infallible;
            fn defines(&mut self, var: &'a Var) -> Result<(), Infallible> {
                (self.0)(*var);
                Ok(())
            }
        }
        let Ok(()) = self.visit(&mut Defines(f));
    }

    /// Calls `f` with each expression that the statement itself evaluates, in order.
    pub fn operands<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        struct Operands<'a, 'f>(&'f mut dyn FnMut(&'a Expr));
        impl<'a> Visitor<'a> for Operands<'a, '_> {
            type Error = Infallible;
            fn operand(&mut self, e: &'a Expr) -> Result<(), Infallible> {
                (self.0)(e);
                Ok(())
            }
        }
        let Ok(()) = self.visit(&mut Operands(f));
    }

    /// Calls `f` with each buffer that the statement itself accesses, and how.
    pub(crate) fn accesses(&self, f: &mut dyn FnMut(Mem, Access)) {
        struct Accesses<'f>(&'f mut dyn FnMut(Mem, Access));
        impl<'a> Visitor<'a> for Accesses<'_> {
            type Error = Infallible;
            fn accesses(&mut self, mem: Mem, access: Access) -> Result<(), Infallible> {
                (self.0)(mem, access);
                Ok(())
            }
        }
        let Ok(()) = self.visit(&mut Accesses(f));
    }

    /// Calls `f` with this statement and each one inside, outermost first.
    pub fn each<'a>(&'a self, f: &mut dyn FnMut(&'a Stmt)) {
        f(self);
        self.blocks().into_iter().flatten().for_each(|inner| inner.each(f));
    }

    /// Whether `f` holds for this statement or one inside.
    pub fn any(&self, f: &dyn Fn(&Stmt) -> bool) -> bool {
        f(self) || self.blocks().into_iter().flatten().any(|inner| inner.any(f))
    }

    /// Whether it accesses global memory, or a statement in it does.
    pub(crate) fn touches_global(&self) -> bool {
        struct Global;
        impl<'a> Visitor<'a> for Global {
            type Error = ();
            fn accesses(&mut self, mem: Mem, _: Access) -> Result<(), ()> {
                if matches!(mem, Mem::Global(_)) { Err(()) } else { Ok(()) }
            }
            fn table(&mut self) -> Result<(), ()> {
                Err(())
            }
        }
        self.any(&|stmt| stmt.visit(&mut Global).is_err())
    }

    /// Whether threads that advance together, as those of the interpreter, cannot run it.
    pub(super) fn is_apart(&self) -> bool {
        struct Apart;
        impl<'a> Visitor<'a> for Apart {
            type Error = ();
            fn apart(&mut self) -> Result<(), ()> {
                Err(())
            }
        }
        self.visit(&mut Apart).is_err()
    }
}

impl Kernel {
    /// Whether it has roles, or asynchronous operations: the interpreter's threads, which advance together, cannot wait for
    /// one another.
    pub fn is_asynchronous(&self) -> bool {
        self.body.iter().any(|stmt| stmt.any(&Stmt::is_apart))
            || self.params.iter().any(|p| matches!(p, Param::TensorMap { .. }))
    }
}
