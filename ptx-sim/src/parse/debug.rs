//! Source positions: `.loc` with what was inlined, and the names in `.debug_str` (PTX ISA §11.5).

use super::{Parser, Res};
use crate::ast::*;
use crate::lex::Tok;

impl<'a> Parser<'a> {
    /// After `.loc`: `file line column[, function_name label[+offset], inlined_at file line column]`
    pub(super) fn loc(&mut self) -> Res<Loc> {
        let [file, line, col] = self.place()?;
        let (mut function, mut at) = (None, None);
        while self.eat(',') {
            match self.ident("`function_name` or `inlined_at`")? {
                "function_name" => {
                    let label = self.ident("a name")?;
                    let offset = if self.eat('+') { self.u32("an offset")? } else { 0 };
                    function = Some((label, offset));
                }
                _ => at = Some(self.place()?),
            }
        }
        let inlined = at.map(|[file, line, col]| {
            // "The location specified by `inlined_at` must be specified by a `.loc` before": that one says what the call
            // itself was inlined into.
            let outer = self.locs.get(&(file, line, col)).copied().flatten();
            let call = Inlined { function, file, line, col, outer };
            let inlined = &mut self.inlined;
            *self.inlined_ids.entry(call).or_insert_with(|| {
                inlined.push(call);
                inlined.len() as u32 - 1
            })
        });
        self.locs.insert((file, line, col), inlined);
        Ok(Loc { file, line, col, inlined })
    }

    fn place(&mut self) -> Res<[u32; 3]> {
        Ok([self.u32("a file number")?, self.u32("a line")?, self.u32("a column")?])
    }

    /// After `.section .debug_str`: labels and `.b8` lists in braces.
    pub(super) fn debug_str(&mut self, m: &mut AstModule<'a>) -> Res<()> {
        self.expect('{')?;
        let (bytes, labels) = &mut m.debug_str;
        loop {
            match self.next() {
                Tok::Punct('}') => return Ok(()),
                Tok::Ident(label) if self.peek() == Tok::Punct(':') => {
                    labels.insert(label, bytes.len() as u32);
                }
                Tok::Int(byte) => bytes.push(byte as u8),
                Tok::Eof => return self.err("`}` at the end of `.debug_str`"),
                _ => {}
            }
        }
    }
}
