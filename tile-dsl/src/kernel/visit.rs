//! What the table of statements is written in: the roles of operands, and the visitors that they are presented to.
//!
//! A row of the [table](super::statements) has an example, the fields, and the pieces of its text in the order in which they
//! stand. A piece is a literal, or a role with the fields that have it:
//!
//! ```text
//! "load %0: f32 = x[tid] if (tid < 4)"
//! Load { dst: Vec<Var>, mem: Mem, offset: Expr, guard: Option<Expr> }: ["load" defs(dst) "=" place(mem, offset, Read) guard(guard)];
//! ```
//! Each role is a method of [`Visitor`], and of [`VisitorMut`], to which the same row presents the fields for change. Who
//! visits decides what happens: the printer writes the pieces, the parser fills them in, the verifier checks types and
//! scopes. A visitor that asks for little implements the few roles that the others are made of: `defines`, `operand`,
//! `accesses` and `block`.

use super::{Async, DType, Expr, Group, Mem, Role, Rows, Stmt, Tile, Var};
use crate::{nest::Atom, op::RedOp};

/// What a statement does at a place in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reads a vector.
    Read,
    /// Writes a vector.
    Write,
    /// Combines a vector with what is there.
    Combine,
    /// Writes a vector in the shared memory of another CTA.
    Peer,
    /// Reads or writes 8×8 matrices, together with the warp.
    Matrices,
    /// Reads or writes a box of a tensor map.
    Box,
    /// Reads an operand of an asynchronous product.
    Product,
    /// Arrives at an mbarrier of a ring, or waits for it.
    Mbarrier,
    /// Counts at a counter.
    Counter,
    /// Says what a step adds, in words whose halves are of two types.
    Words,
}

/// Which threads come to a statement together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meets {
    /// Those of the CTA.
    Cta,
    /// Those of the CTA, or of the role that the statement is part of.
    Program,
    /// The lanes of each warp.
    Warp,
}

/// Makes the trait of those who visit operands; `mut` of those who change them.
macro_rules! visitor {
    ($(#[$doc:meta])* $name:ident, $visit:ident $(, $mut:tt)?) => {
        $(#[$doc])*
        pub(crate) trait $name<'a>: Sized {
            /// What ends the visit.
            type Error;

            // What the others are made of.

            /// A variable that the statement defines.
            fn defines(&mut self, _: &'a $($mut)? Var) -> Result<(), Self::Error> {
                Ok(())
            }
            /// An expression that the statement evaluates.
            fn operand(&mut self, _: &'a $($mut)? Expr) -> Result<(), Self::Error> {
                Ok(())
            }
            /// A buffer that the statement accesses; of a box in global memory, its tensor map.
            fn accesses(&mut self, _: Mem, _: Access) -> Result<(), Self::Error> {
                Ok(())
            }
            /// Statements inside. They run where the operands say, so threads for which these differ part.
            fn block(&mut self, _: &'a $($mut)? Vec<Stmt>) -> Result<(), Self::Error> {
                Ok(())
            }

            // Marks without text.

            /// Some threads come here together; `what` the statement is, or what is wrong where some do not.
            fn meets(&mut self, _: Meets, _what: &'static str) -> Result<(), Self::Error> {
                Ok(())
            }
            /// Threads wait for some others here, or it is asynchronous. The interpreter, whose threads
            /// advance together, cannot run it.
            fn apart(&mut self) -> Result<(), Self::Error> {
                Ok(())
            }
            /// Reads the table of problems, in global memory.
            fn table(&mut self) -> Result<(), Self::Error> {
                Ok(())
            }

            // Text and numbers.

            /// Words as they stand.
            fn text(&mut self, _: &'static str) -> Result<(), Self::Error> {
                Ok(())
            }
            /// A number.
            fn number(&mut self, _: &'a $($mut)? u32) -> Result<(), Self::Error> {
                Ok(())
            }
            /// How many elements are accessed at each place.
            fn elems(&mut self, n: &'a $($mut)? u32) -> Result<(), Self::Error> {
                self.number(n)
            }
            /// A number after a word, or neither.
            fn numbered(&mut self, _: &'static str, _: &'a $($mut)? Option<u32>) -> Result<(), Self::Error> {
                Ok(())
            }
            /// A word, where the field is true.
            fn flag(&mut self, _: &'static str, _: &'a $($mut)? bool) -> Result<(), Self::Error> {
                Ok(())
            }
            /// One of two words: the first where the field is true.
            fn either(&mut self, _: [&'static str; 2], _: &'a $($mut)? bool) -> Result<(), Self::Error> {
                Ok(())
            }
            /// How values are combined with others.
            fn reduction(&mut self, _: &'a $($mut)? RedOp) -> Result<(), Self::Error> {
                Ok(())
            }
            /// An instruction, whose operands are read by descriptors or not.
            fn atom(&mut self, _: &'a $($mut)? Atom, _descriptors: bool) -> Result<(), Self::Error> {
                Ok(())
            }
            /// A named barrier.
            fn group(&mut self, _: &'a $($mut)? Group) -> Result<(), Self::Error> {
                Ok(())
            }
            /// A named barrier after a word, or neither.
            fn grouped(&mut self, word: &'static str, group: &'a $($mut)? Option<Group>) -> Result<(), Self::Error> {
                let Some(group) = group else { return Ok(()) };
                self.text(word)?;
                self.group(group)
            }

            // Definitions, with their types.

            /// A variable of the type of the statement's elements; it differs between threads where the operands do.
            fn def(&mut self, var: &'a $($mut)? Var) -> Result<(), Self::Error> {
                self.defines(var)
            }
            /// A variable of the type of the statement's elements; it differs between threads.
            fn lane(&mut self, var: &'a $($mut)? Var) -> Result<(), Self::Error> {
                self.defines(var)
            }
            /// Variables of the type of the statement's elements; they differ between threads.
            fn defs(&mut self, vars: &'a $($mut)? Vec<Var>) -> Result<(), Self::Error> {
                for var in vars {
                    self.defines(var)?;
                }
                Ok(())
            }
            /// A variable that is the same in all threads that come here.
            fn common(&mut self, var: &'a $($mut)? Var, _: DType) -> Result<(), Self::Error> {
                self.defines(var)
            }
            /// A variable of a type; it differs between threads.
            fn own(&mut self, var: &'a $($mut)? Var, _: DType) -> Result<(), Self::Error> {
                self.defines(var)
            }

            // Uses. `what` they are, for messages.

            /// A value of the type of the statement's elements.
            fn value(&mut self, e: &'a $($mut)? Expr, _what: &'static str) -> Result<(), Self::Error> {
                self.operand(e)
            }
            /// Values of the type of the statement's elements.
            fn values(&mut self, es: &'a $($mut)? Vec<Expr>, what: &'static str) -> Result<(), Self::Error> {
                for e in es {
                    self.value(e, what)?;
                }
                Ok(())
            }
            /// Values of one type.
            fn operands(&mut self, es: &'a $($mut)? Vec<Expr>) -> Result<(), Self::Error> {
                for e in es {
                    self.operand(e)?;
                }
                Ok(())
            }
            /// An `i32`.
            fn index(&mut self, e: &'a $($mut)? Expr, _what: &'static str) -> Result<(), Self::Error> {
                self.operand(e)
            }
            /// An `i32` after a word, or neither.
            fn indexed(
                &mut self,
                word: &'static str,
                e: &'a $($mut)? Option<Expr>,
                what: &'static str,
            ) -> Result<(), Self::Error> {
                let Some(e) = e else { return Ok(()) };
                self.text(word)?;
                self.index(e, what)
            }
            /// A `bool`.
            fn truth(&mut self, e: &'a $($mut)? Expr, _what: &'static str) -> Result<(), Self::Error> {
                self.operand(e)
            }
            /// A `bool` after a word, or neither.
            fn whether(
                &mut self,
                word: &'static str,
                e: &'a $($mut)? Option<Expr>,
                what: &'static str,
            ) -> Result<(), Self::Error> {
                let Some(e) = e else { return Ok(()) };
                self.text(word)?;
                self.truth(e, what)
            }
            /// Where the statement does what it does.
            fn guard(&mut self, e: &'a $($mut)? Option<Expr>) -> Result<(), Self::Error> {
                self.whether("if", e, "guard")
            }

            // Memory.

            /// A place, by its offset from the start of a buffer.
            fn place(
                &mut self,
                mem: &'a $($mut)? Mem,
                offset: &'a $($mut)? Expr,
                access: Access,
            ) -> Result<(), Self::Error> {
                self.accesses(*mem, access)?;
                self.operand(offset)
            }
            /// A place in shared memory.
            fn shared(
                &mut self,
                buffer: &'a $($mut)? u32,
                offset: &'a $($mut)? Expr,
                access: Access,
            ) -> Result<(), Self::Error> {
                self.accesses(Mem::Shared(*buffer), access)?;
                self.operand(offset)
            }
            /// A place in global memory.
            fn global(
                &mut self,
                param: &'a $($mut)? u32,
                offset: &'a $($mut)? Expr,
                access: Access,
            ) -> Result<(), Self::Error> {
                self.accesses(Mem::Global(*param), access)?;
                self.operand(offset)
            }
            /// A box of a tensor map, by its first element.
            fn boxed(
                &mut self,
                map: &'a $($mut)? u32,
                coordinates: &'a $($mut)? Vec<Expr>,
            ) -> Result<(), Self::Error> {
                self.accesses(Mem::Global(*map), Access::Box)?;
                self.operands(coordinates)
            }
            /// An operand in shared memory.
            fn tile(&mut self, tile: &'a $($mut)? Tile) -> Result<(), Self::Error> {
                let Tile { shared, offset, k_major, swizzle, leading, stride } = tile;
                self.shared(shared, offset, Access::Product)?;
                self.text("major")?;
                self.either(["k", "mn"], k_major)?;
                self.text("swizzle")?;
                self.number(swizzle)?;
                self.text("leading")?;
                self.number(leading)?;
                self.text("stride")?;
                self.number(stride)
            }
            /// An operand in shared memory or in registers.
            fn rows(&mut self, rows: &'a $($mut)? Rows) -> Result<(), Self::Error> {
                match rows {
                    Rows::Shared(tile) => self.tile(tile),
                    Rows::Held { frag, slots } => self.slots(frag, slots),
                }
            }
            /// A tensor map.
            fn map(&mut self, _: &'a $($mut)? u32) -> Result<(), Self::Error> {
                Ok(())
            }
            /// The mbarriers of a ring.
            fn ring(&mut self, _: &'a $($mut)? u32) -> Result<(), Self::Error> {
                Ok(())
            }
            /// Shared buffers whose lives begin.
            fn lives(&mut self, _: &'a $($mut)? Vec<u32>) -> Result<(), Self::Error> {
                Ok(())
            }

            // Registers.

            /// A slot that is written.
            fn slot(
                &mut self,
                _frag: &'a $($mut)? u32,
                _slot: &'a $($mut)? u32,
            ) -> Result<(), Self::Error> {
                Ok(())
            }
            /// Slots that are updated, or read.
            fn slots(
                &mut self,
                _frag: &'a $($mut)? u32,
                _slots: &'a $($mut)? Vec<u32>,
            ) -> Result<(), Self::Error> {
                Ok(())
            }
            /// Accumulators and operands of asynchronous products: fragment and slots.
            fn results(&mut self, _: &'a $($mut)? Vec<(u32, Vec<u32>)>) -> Result<(), Self::Error> {
                Ok(())
            }

            // Statements inside.

            /// A block that runs where the one before does not.
            fn otherwise(&mut self, block: &'a $($mut)? Vec<Stmt>) -> Result<(), Self::Error> {
                self.block(block)
            }
            /// A block that one thread runs.
            fn alone(&mut self, block: &'a $($mut)? Vec<Stmt>) -> Result<(), Self::Error> {
                self.block(block)
            }
            /// A block for each role.
            fn roles(&mut self, roles: &'a $($mut)? Vec<Role>) -> Result<(), Self::Error> {
                for role in roles {
                    self.block(&$($mut)? role.body)?;
                }
                Ok(())
            }
            /// A row of the table of asynchronous operations.
            fn asynchronous(&mut self, operation: &'a $($mut)? Async) -> Result<(), Self::Error> {
                operation.$visit(self)
            }
        }
    };
}

visitor! {
    /// One that operands are presented to.
    Visitor, visit
}
visitor! {
    /// One that operands are presented to for change.
    VisitorMut, visit_mut, mut
}

/// One row of a table, to read it from text: what it looks like, and the statement with nothing filled in.
pub(crate) struct Row<T> {
    /// An example.
    pub example: &'static str,
    /// The statement.
    pub blank: fn() -> T,
}

/// Makes an enum of a table of statements, and the visits of the operands of one.
macro_rules! statements {
    ($(#[$attr:meta])* $enum:ident: $(
        $(#[$doc:meta])*
        $example:literal
        $kind:ident $({ $($(#[$about:meta])* $field:ident: $type:ty),* $(,)? })? $(($($part:ident: $of:ty),*))?: [$($piece:tt)*];
    )*) => {
        $(#[$attr])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub enum $enum {
            $(
                $(#[$doc])*
                ///
                #[doc = concat!("`", $example, "`")]
                $kind $({ $($(#[$about])* $field: $type),* })? $(($($of),*))?,
            )*
        }

        impl $enum {
            /// Rows in the order in which they are tried.
            pub(crate) const ROWS: &[$crate::kernel::visit::Row<$enum>] = &[$($crate::kernel::visit::Row {
                example: $example,
                blank: || $enum::$kind
                    $({ $($field: <$type as $crate::kernel::visit::Blank>::blank()),* })?
                    $(($(<$of as $crate::kernel::visit::Blank>::blank()),*))?,
            },)*];

            /// Presents the pieces of the text in their order.
            pub(crate) fn visit<'a, V: $crate::kernel::visit::Visitor<'a>>(
                &'a self,
                visitor: &mut V,
            ) -> Result<(), V::Error> {
                match self {
                    $($enum::$kind $({ $($field),* })? $(($($part),*))? => {
                        $crate::kernel::visit::pieces!(visitor: $($piece)*)
                    })*
                }
            }

            /// Presents them for change.
            pub(crate) fn visit_mut<'a, V: $crate::kernel::visit::VisitorMut<'a>>(
                &'a mut self,
                visitor: &mut V,
            ) -> Result<(), V::Error> {
                match self {
                    $($enum::$kind $({ $($field),* })? $(($($part),*))? => {
                        $crate::kernel::visit::pieces!(visitor: $($piece)*)
                    })*
                }
            }
        }
    };
}

/// The pieces of a row as calls of a visitor.
macro_rules! pieces {
    ($visitor:ident:) => { Ok(()) };
    ($visitor:ident: $text:literal $($rest:tt)*) => {{
        $visitor.text($text)?;
        $crate::kernel::visit::pieces!($visitor: $($rest)*)
    }};
    ($visitor:ident: $role:ident($($operand:expr),*) $($rest:tt)*) => {{
        $visitor.$role($($operand),*)?;
        $crate::kernel::visit::pieces!($visitor: $($rest)*)
    }};
}

pub(super) use {pieces, statements};

/// What a field is before it is read.
pub(super) trait Blank {
    fn blank() -> Self;
}

/// The blanks of types of fields.
macro_rules! blanks {
    ($($type:ty: $blank:expr;)*) => {
        $(impl Blank for $type {
            fn blank() -> Self {
                $blank
            }
        })*
    };
}

blanks! {
    u32: 0;
    bool: false;
    Var: Var(0);
    Expr: Expr::Bool(false);
    Mem: Mem::Global(0);
    Atom: Atom::MMA;
    RedOp: RedOp::Add;
    Group: Group { id: 0, threads: 0 };
    Async: Async::Commit;
    Tile: Tile { shared: 0, offset: Blank::blank(), k_major: false, swizzle: 0, leading: 0, stride: 0 };
    Rows: Rows::Shared(Blank::blank());
}

impl<T> Blank for Vec<T> {
    fn blank() -> Self {
        Vec::new()
    }
}

impl<T> Blank for Option<T> {
    fn blank() -> Self {
        None
    }
}
