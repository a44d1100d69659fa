//! Directives whose arguments have a grammar of their own.

use super::*;

impl Args<'_> {
    pub(super) fn split(&self) -> syn::Result<Members> {
        let digit = self.dotted("a loop")?;
        self.token::<Token![->]>("->")?;
        let names: Vec<_> = self.list(|a| a.word("a name"))?.into_iter().map(|(n, _)| n).collect();
        self.token::<Token![:]>(":")?;
        let factors: Vec<_> = self.list(Self::number)?.into_iter().map(|(n, _)| n).collect();
        if names.len() != factors.len() + 1 {
            let (n, f) = (names.len(), factors.len());
            let plural = |n: usize| if n == 1 { "" } else { "s" };
            return self.fail(
                names[0].span(),
                format!(
                    "{n} name{} and {f} factor{}: each name but the first has a factor",
                    plural(n),
                    plural(f)
                ),
            );
        }
        let names = names.iter().map(ToString::to_string).collect();
        Self::one(DirectiveKind::Split { digit, names, factors })
    }

    /// `i -> thread.x`, `j -> lane.y ^ lane.x`.
    pub(super) fn bind(&self) -> syn::Result<DirectiveKind> {
        let digit = self.dotted("a loop")?;
        self.token::<Token![->]>("->")?;
        let (unit, _) = self.unit()?;
        if self.input.parse::<Option<Token![.]>>()?.is_none() {
            return Ok(DirectiveKind::Bind { digit, unit, dim: UnitDim::X, xor: None });
        }
        let dim = self.dimension()?;
        if self.input.parse::<Option<Token![^]>>()?.is_none() {
            return Ok(DirectiveKind::Bind { digit, unit, dim, xor: None });
        }
        let (other, span) = self.unit()?;
        if other != unit {
            let message = format!("`{unit}.{dim}` is combined with a coordinate of another unit, `{other}`");
            return self.fail(span, message);
        }
        self.token::<Token![.]>(".")?;
        let xor = Some(self.dimension()?);
        Ok(DirectiveKind::Bind { digit, unit, dim, xor })
    }

    pub(super) fn unit(&self) -> syn::Result<(Unit, Span)> {
        let word = self.word("a unit")?;
        let unit = match word.to_string().as_str() {
            "block" => Unit::Block,
            "warpgroup" => Unit::Warpgroup,
            "warp" => Unit::Warp,
            "lane" => Unit::Lane,
            "thread" => Unit::Thread,
            _ => return one_of(&word, "unit", &["block", "warpgroup", "warp", "lane", "thread"]),
        };
        Ok((unit, word.span()))
    }

    pub(super) fn dimension(&self) -> syn::Result<UnitDim> {
        let word = self.word("`x`, `y` or `z`")?;
        match word.to_string().as_str() {
            "x" => Ok(UnitDim::X),
            "y" => Ok(UnitDim::Y),
            "z" => Ok(UnitDim::Z),
            _ => one_of(&word, "dimension", &["x", "y", "z"]),
        }
    }

    /// `a, b at k: shared, transposed, cp_async, vector(16)`.
    pub(super) fn stage(&self) -> syn::Result<Members> {
        let buffers = self.list(|a| a.dotted("a tensor or a value"))?;
        let at = match self.peek_word("at") {
            true => {
                self.keyword("at")?;
                Some(self.dotted("a loop")?)
            }
            false => None,
        };
        self.token::<Token![:]>(":")?;
        let space = self.word("`shared`")?;
        if space != "shared" {
            return mend(space.span(), format!("unknown memory space `{space}`"), space, "shared");
        }
        let (mut transposed, mut via, mut vector) = (false, Via::Plain, None);
        while self.input.parse::<Option<Token![,]>>()?.is_some() && !self.input.is_empty() {
            let option = self.word("`transposed`, `cp_async`, `tma`, `stmatrix` or `vector(bytes)`")?;
            match option.to_string().as_str() {
                "transposed" => transposed = true,
                "cp_async" => via = Via::CpAsync,
                "tma" => via = Via::Tma,
                "stmatrix" if via == Via::Tma => via = Via::Stmatrix,
                "stmatrix" => {
                    let text =
                        "`stmatrix` collects what a tensor map stores: it stands after `tma`".to_string();
                    return mend(option.span(), text, option, "tma, stmatrix");
                }
                "vector" => vector = Some(self.argument()?),
                _ => {
                    return one_of(
                        &option,
                        "option",
                        &["transposed", "cp_async", "tma", "stmatrix", "vector(16)"],
                    );
                }
            }
        }
        let stage = |buffer| {
            Found::Kind(DirectiveKind::Stage {
                buffer,
                at: at.clone(),
                space: Space::Shared,
                transposed,
                via,
                vector,
            })
        };
        Ok(buffers.into_iter().map(|(buffer, range)| (stage(buffer), range)).collect())
    }

    /// `acc: overwrite, in_flight(1)`.
    pub(super) fn issue(&self) -> syn::Result<Members> {
        let value = self.dotted("a value")?;
        self.token::<Token![:]>(":")?;
        let (mut overwrite, mut in_flight) = (false, 0);
        loop {
            let option = self.word("`overwrite` or `in_flight(steps)`")?;
            match option.to_string().as_str() {
                "overwrite" if !overwrite && in_flight == 0 => overwrite = true,
                "in_flight" if in_flight == 0 => in_flight = self.argument()?,
                "overwrite" | "in_flight" => {
                    return self.fail(option.span(), format!("`{option}` stands once, `overwrite` first"));
                }
                _ => return one_of(&option, "option", &["overwrite", "in_flight(1)"]),
            }
            if self.input.parse::<Option<Token![,]>>()?.is_none() || self.input.is_empty() {
                return Self::one(DirectiveKind::Issue { value, overwrite, in_flight });
            }
        }
    }

    /// `k.t: loads(3/8), copies(1/4), stores(1/2)`.
    pub(super) fn interleave(&self) -> syn::Result<Members> {
        const NAMES: [&str; 3] = ["loads", "copies", "stores"];
        let digit = self.dotted("a loop")?;
        self.token::<Token![:]>(":")?;
        let mut parts = [None; 3];
        loop {
            let option = self.word("`loads(part)`, `copies(part)` or `stores(part)`")?;
            let Some(which) = NAMES.iter().position(|name| option == name) else {
                return one_of(&option, "option", &NAMES);
            };
            if parts[which..].iter().any(Option::is_some) {
                let text = format!("`{option}` stands once, and in the order loads, copies, stores");
                return self.fail(option.span(), text);
            }
            parts[which] = Some(self.fraction()?);
            if self.input.parse::<Option<Token![,]>>()?.is_none() || self.input.is_empty() {
                let [loads, copies, stores] = parts;
                return Self::one(DirectiveKind::Interleave { digit, loads, copies, stores });
            }
        }
    }

    /// `bind(i), stage(a, b), unroll(k in acc), order`.
    pub(super) fn drops(&self) -> syn::Result<Members> {
        let mut keys = Vec::new();
        for (found, range) in self.list(Self::drop_keys)? {
            keys.extend(found.into_iter().map(|key| (Found::Drop(key), range)));
        }
        Ok(keys)
    }

    pub(super) fn drop_keys(&self) -> syn::Result<Vec<Key>> {
        let word = self.word("the name of a directive")?;
        let name = word.to_string();
        if name == "drop" || !FORMS.iter().any(|(n, _)| *n == name) {
            let names: Vec<_> = FORMS.iter().map(|(n, _)| *n).filter(|n| *n != "drop").collect();
            return one_of(&word, "directive", &names);
        }
        let whole = WHOLE_KERNEL.contains(&name.as_str());
        if !self.input.peek(syn::token::Paren) {
            return if whole {
                Ok(vec![Key::new(&name, None, None)])
            } else {
                let remark = format!("the form is `drop({name}(..));`, with what it acts on");
                error(word.span(), format!("`drop({name})` does not say which"), remark)
            };
        }
        let content;
        parenthesized!(content in self.input);
        let inner = Args { name: self.name, input: &content };
        let subjects = if whole { vec![] } else { inner.list(|a| a.dotted("what it acts on"))? };
        let within = inner.within()?;
        if !content.is_empty() {
            return inner.here("`)`");
        }
        Ok(match whole {
            true => vec![Key::new(&name, None, within.as_deref())],
            false => subjects.iter().map(|(s, _)| Key::new(&name, Some(s), within.as_deref())).collect(),
        })
    }
}
