//! The tiles of a kernel: a factor for each loop bound to CTAs, and the order in which they are taken.

use crate::{
    diagnostic::list,
    index::{AxisId, Extent},
    machine::Unit,
    nest::{
        AccessId, Atom, Digit, Frame, Layout, LoopKind, Nest, Order, Role, Segment, Step, Steps, Stmt,
        TileSize, leaves, loops,
    },
    tile::AxisKind,
};
use std::fmt;

/// The tiles, and who takes them.
#[derive(Clone, Debug)]
pub(crate) struct Tiles {
    /// Program axes in the order of the kernel, outer loops before inner ones; then parts of a reduction.
    pub factors: Vec<Factor>,
    /// The order of the program axes' tiles.
    pub order: Order,
    /// The axis of whose tiles its bands are, and the one along which they are walked; the last two factors when absent.
    pub bands: Option<[AxisId; 2]>,
    /// CTAs for each multiprocessor, where each takes tile after tile.
    pub persistent: Option<u32>,
    /// Whether these take every second round backwards.
    pub serpentine_rounds: bool,
    /// Whether these take the next one of a counter.
    pub counted: bool,
    /// Tiles of an axis that are of two sizes.
    pub segment: Option<Segment>,
    /// Stores that are not shared out as others are, each with a loop that CTAs share out elsewhere.
    pub whole: Vec<(AccessId, Digit)>,
    /// What does not go with tiles of two sizes.
    pub unsegmented: Vec<Unsegmented>,
}

/// Why tiles of an axis cannot be of two sizes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Unsegmented {
    /// CTAs of a cluster take them.
    Cluster,
    /// A CTA takes more than one: a loop over them is not bound to CTAs.
    Looped,
    /// CTAs share out reductions.
    Parts,
    /// A loop inside of a tile reaches beyond the last one, and cannot stop there.
    GoesOn(Step),
}

impl Unsegmented {
    /// In words.
    pub fn text(&self, nest: &Nest, segment: Segment) -> String {
        match self {
            Unsegmented::Cluster => "CTAs of a cluster work on tiles of one size".into(),
            Unsegmented::Looped => format!(
                "a CTA has one tile of `{}` where tiles are of two sizes, not a loop over them",
                nest.axis(segment.digit.axis)
            ),
            Unsegmented::Parts => {
                let names: Vec<&str> = nest.across.keys().map(|v| nest.value(*v).name.as_str()).collect();
                format!("CTAs share the sums that {} holds, of tiles of one size", list(&names))
            }
            Unsegmented::GoesOn((digit, at)) => {
                let (name, rest) = (nest.digit_name(*digit), segment.rest());
                let why = match at {
                    LoopKind::Atom(atom, Role::N) if digit.stride == 1 => {
                        format!("`{}` takes no {rest} columns at once", atom.row().name)
                    }
                    LoopKind::Atom(atom, _) => format!("`{}` takes all of `{name}` at once", atom.row().name),
                    LoopKind::Unit(unit, dim) => {
                        format!("all steps of `{name}` are taken at once, by {unit}.{dim}")
                    }
                    LoopKind::Vec => format!("all steps of `{name}` are one vector"),
                    LoopKind::Pipe(_) => format!("copies run ahead of `{name}`"),
                    LoopKind::Unroll | LoopKind::Serpentine | LoopKind::Seq => {
                        format!("a step of `{name}` has {}", digit.stride)
                    }
                };
                format!("the last tile of a segment has {rest} points, and {why}")
            }
        }
    }
}

/// Whether a loop inside of a tile takes as many steps as the last one has, or reaches no further.
fn can_stop(segment: Segment, (digit, at): Step) -> bool {
    match at {
        _ if !segment.reaches_beyond(digit) => true,
        LoopKind::Atom(atom, Role::N) if digit.stride == 1 => segment.atom_in_last(atom, digit).is_some(),
        LoopKind::Atom(..) | LoopKind::Unit(..) | LoopKind::Vec | LoopKind::Pipe(_) => false,
        LoopKind::Unroll | LoopKind::Serpentine | LoopKind::Seq => {
            segment.rest().is_multiple_of(digit.stride)
        }
    }
}

/// One factor of the grid: a loop bound to CTAs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Factor {
    /// The loop.
    pub digit: Digit,
    /// Points that it goes through.
    pub extent: Extent,
    /// Points of a step.
    pub tile: u32,
    /// Points after which tiles start over: those of a segment where tiles are of two sizes.
    pub period: u32,
    /// What its steps are to CTAs.
    pub share: Share,
}

/// What the steps of a factor are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// Tiles.
    Tiles,
    /// Tiles that CTAs of one cluster take: neighbours in the grid, whatever the order of the others.
    Cluster,
    /// Parts of a reduction.
    Parts {
        /// How many.
        parts: u32,
        /// CTAs in a row have the parts of one tile, and are a cluster; else all tiles of one part come first, whose CTAs share more of
        /// what they read.
        adjacent: bool,
    },
    /// Steps of a loop whose CTAs look back: at least one.
    Steps,
}

/// The stores outside of some loops that CTAs share out elsewhere, with the first such loop: each CTA would do them.
fn whole(nest: &Nest, mut shared: Vec<Digit>) -> Vec<(AccessId, Digit)> {
    shared.sort();
    let mut found = Vec::new();
    leaves(&nest.body, &mut |path, leaf| {
        let Stmt::Put { access, .. } = leaf else { return };
        let around = |d: &Digit| {
            path.iter().any(|f| matches!(f, Frame::For(x, LoopKind::Unit(Unit::Block, _)) if x == d))
        };
        found.extend(shared.iter().find(|d| !around(d)).map(|digit| (*access, *digit)));
    });
    found
}

impl Tiles {
    /// Those of a nest.
    pub fn of(nest: &Nest) -> Tiles {
        let all = loops(&nest.body);
        let is_bound = |at: LoopKind| matches!(at, LoopKind::Unit(Unit::Block, _));
        let shared_out = |d: &Digit| nest.lookback == Some(*d);
        let of_ctas = all.iter().filter(|(d, at)| is_bound(*at) || shared_out(d));
        let mut digits: Vec<Digit> = of_ctas.map(|(d, _)| *d).collect();
        let is_part = |d: &Digit| nest.kernel.axes[usize::from(d.axis.0)].kind != AxisKind::Program;
        digits.sort_by_key(|d| (is_part(d), d.axis, std::cmp::Reverse(d.stride)));
        digits.dedup();
        let factors = digits.into_iter().map(|digit| {
            let (extent, tile, period) = match digit.steps {
                Steps::Rest => {
                    let extent = nest.kernel.axes[usize::from(digit.axis.0)].extent.clone();
                    (extent, digit.stride, nest.period(digit))
                }
                Steps::Fixed(n) => (Extent::constant(n.into()), 1, 1),
            };
            let share = match digit.steps {
                _ if shared_out(&digit) => Share::Steps,
                Steps::Fixed(parts) if is_part(&digit) => {
                    Share::Parts { parts, adjacent: nest.cluster_reduces() }
                }
                _ if nest.cluster == Some(digit) => Share::Cluster,
                _ => Share::Tiles,
            };
            Factor { digit, extent, tile, period, share }
        });
        let factors: Vec<Factor> = factors.collect();
        let mut tiles = Tiles {
            order: nest.order,
            bands: nest.bands,
            persistent: nest.persistent,
            serpentine_rounds: nest.serpentine_rounds,
            counted: nest.counted,
            segment: nest.segment,
            whole: whole(nest, factors.iter().map(|f| f.digit).filter(|d| !is_part(d)).collect()),
            unsegmented: Vec::new(),
            factors,
        };
        if let Some(segment) = nest.segment {
            let mut over = all.iter().filter(|(digit, _)| *digit == segment.digit).peekable();
            let looped = over.peek().is_none() || !over.all(|(_, at)| is_bound(*at));
            let wrong = [
                (nest.cluster.is_some(), Unsegmented::Cluster),
                (looped, Unsegmented::Looped),
                (!nest.across.is_empty(), Unsegmented::Parts),
            ];
            tiles.unsegmented = wrong.into_iter().filter(|(holds, _)| *holds).map(|(_, why)| why).collect();
            let goes_on = all.iter().find(|step| !can_stop(segment, **step));
            tiles.unsegmented.extend(goes_on.map(|step| Unsegmented::GoesOn(*step)));
        }
        tiles
    }

    /// Some factors, the slowest first, and their order: those along which bands go come last. An axis of one tile has no factor;
    /// bands along it are rows or columns of the other axis.
    pub fn slowest_first(&self, mut factors: Vec<usize>) -> (Vec<usize>, Order) {
        let Some(bands) = self.bands else { return (factors, self.order) };
        let innermost = |axis: &AxisId| factors.iter().rposition(|n| self.factors[*n].digit.axis == *axis);
        let last: Vec<usize> = bands.iter().filter_map(innermost).map(|at| factors[at]).collect();
        factors.retain(|n| !last.contains(n));
        factors.extend(&last);
        (factors, if last.len() == bands.len() { self.order } else { Order::Row })
    }

    /// The segment whose tiles a factor counts, where they are of two sizes.
    pub fn segment_of(&self, factor: &Factor) -> Option<Segment> {
        self.segment.filter(|segment| segment.digit == factor.digit)
    }

    /// A loop inside of a tile of a size.
    pub fn in_tile(&self, digit: Digit, size: TileSize) -> Digit {
        match (size, self.segment) {
            (TileSize::Last, Some(segment)) => segment.in_last(digit),
            _ => digit,
        }
    }

    /// An instruction, whose columns lie along `n`, in a tile of a size; `None` if there is none of so few columns.
    pub fn atom(&self, atom: Atom, n: Digit, size: TileSize) -> Option<Atom> {
        match (size, self.segment) {
            (TileSize::Last, Some(segment)) => segment.atom_in_last(atom, n),
            _ => Some(atom),
        }
    }

    /// The slots of registers that a tile of a size fills.
    pub fn slots(&self, layout: &Layout, size: TileSize) -> Vec<u32> {
        match (size, self.segment) {
            (TileSize::Last, Some(segment)) => layout.slots_below(segment.digit.axis, segment.rest()),
            _ => (0..u32::try_from(layout.slots()).unwrap_or(u32::MAX)).collect(),
        }
    }

    /// CTAs that share a tile's reduction.
    pub fn parts(&self) -> Option<u32> {
        self.factors
            .iter()
            .find_map(|f| if let Share::Parts { parts, .. } = f.share { Some(parts) } else { None })
    }

    /// Those of tiles, without the parts of a reduction.
    pub fn of_program(&self) -> &[Factor] {
        let parts = self.factors.iter().position(|f| matches!(f.share, Share::Parts { .. } | Share::Steps));
        &self.factors[..parts.unwrap_or(self.factors.len())]
    }

    pub(super) fn write(&self, nest: &Nest, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "tiles")?;
        for (n, factor) in self.factors.iter().enumerate() {
            write!(out, "{}", if n == 0 { " grid " } else { " × " })?;
            write!(out, "{}: {}/{}", nest.digit_name(factor.digit), factor.extent, factor.tile)?;
            if factor.period != factor.tile {
                write!(out, " in {}", factor.period)?;
            }
            match factor.share {
                Share::Tiles => {}
                Share::Cluster => write!(out, " rank of its cluster")?,
                Share::Parts { adjacent: true, .. } => write!(out, " parts side by side")?,
                Share::Parts { adjacent: false, .. } => write!(out, " parts")?,
                Share::Steps => write!(out, " steps")?,
            }
        }
        write!(out, " {}", self.order)?;
        if let Some([band, along]) = self.bands {
            write!(out, " over {}, {}", nest.axis(band), nest.axis(along))?;
        }
        if let Some(ctas) = self.persistent {
            write!(
                out,
                " persistent {ctas}{}{}",
                if self.serpentine_rounds { " in serpentine rounds" } else { "" },
                if self.counted { " by a counter" } else { "" }
            )?;
        }
        if self.segment.is_some() {
            write!(out, " sizes whole, last")?;
        }
        writeln!(out)
    }
}
