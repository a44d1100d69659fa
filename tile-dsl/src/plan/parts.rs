//! The parts of a plan, each worked out when it is first asked for, and once.
//!
//! ```text
//! dimensions → units, maxima → roles    units, tiles, places → sums
//! boxes, tiles → products               places → joins
//! units, places, sums, boxes, channels, stores → shared memory
//! ```
//! Each part has the reasons why something of it is not possible. What follows from that is left out of the parts behind it, the
//! rest is there: the engine's checks word every reason, and find those of one part beside those of another.

use super::{
    accesses::Accesses,
    boxes::{Boxes, Unboxed},
    channels::Channels,
    fragments::{Fragments, Unheld},
    joins::Joins,
    limits::Limited,
    maxima::Maxima,
    places::{Places, Unplaced},
    products::{Products, Unmultiplied},
    readers::{Misread, Readers},
    roles::{Roles, Unproduced},
    stores::{Stores, Unstored},
    sums::{Sums, Unsummed},
    tiles::{Tiles, Unsegmented},
};
use crate::{
    machine::{Target, Unit, UnitDim},
    nest::{
        AccessId, Digit, Dimensions, Lookback, Nest, NoLookback, NoUnits, Units, WARP, count, dimensions,
    },
};
use std::cell::OnceCell;

/// What follows from a nest for a target.
pub(crate) struct Parts<'n> {
    nest: &'n Nest,
    target: Target,
    dimensions: OnceCell<Dimensions>,
    units: OnceCell<Result<Units, NoUnits>>,
    tiles: OnceCell<Tiles>,
    roles: OnceCell<Roles>,
    limits: OnceCell<Limited>,
    boxes: OnceCell<Boxes>,
    maxima: OnceCell<Maxima>,
    lookback: OnceCell<Option<Result<Lookback, NoLookback>>>,
    channels: OnceCell<Channels>,
    places: OnceCell<Places>,
    fragments: OnceCell<Fragments>,
    readers: OnceCell<Readers>,
    sums: OnceCell<Sums>,
    products: OnceCell<Products>,
    joins: OnceCell<Joins>,
    accesses: OnceCell<Accesses>,
    stores: OnceCell<Stores>,
}

/// What shared memory is used for.
#[derive(Clone, Copy)]
pub(crate) struct Using<'p> {
    /// The nest.
    pub nest: &'p Nest,
    /// Threads that compute a tile together.
    pub threads: u64,
    /// Their units, where a CTA has them.
    pub units: Option<&'p Units>,
    /// What copies in it take of their tensors.
    pub boxes: &'p Boxes,
    /// Running maxima that stay as they are.
    pub maxima: &'p Maxima,
    /// The loop whose steps CTAs share out.
    pub lookback: Option<&'p Lookback>,
    /// How copies come together.
    pub channels: &'p Channels,
    /// Where values live.
    pub places: &'p Places,
    /// How the parts of reductions come together.
    pub sums: &'p Sums,
    /// How what is stored leaves a CTA.
    pub stores: &'p Stores,
}

impl Using<'_> {
    /// Threads along some dimensions of units.
    pub fn extent(&self, units: &[(Unit, UnitDim)]) -> u64 {
        let extent = |unit| self.units.and_then(|units| units.dims.get(unit)).map_or(1, |range| range.extent);
        units.iter().map(|unit| u64::from(extent(unit))).product()
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Unplanned {
    /// Loops are bound to what no CTA has.
    Units(NoUnits),
    /// A store that each CTA would do, outside of a loop that CTAs share out elsewhere.
    Whole(AccessId, Digit),
    /// Tiles of two sizes.
    Tiles(Unsegmented),
    /// A producer cannot copy.
    Roles(Unproduced),
    /// CTAs cannot share out the steps of a loop.
    Lookback(NoLookback),
    /// A copy has no box.
    Boxes(Unboxed),
    /// A value has no place.
    Places(Unplaced),
    /// A copy in registers has none.
    Fragments(Unheld),
    /// A statement sees a value elsewhere than it is.
    Readers(Misread),
    /// Parts do not come together.
    Sums(Unsummed),
    /// An instruction does not make a product.
    Products(Unmultiplied),
    /// A tensor is not stored as directives ask for.
    Stores(Unstored),
}

impl Unplanned {
    /// In words.
    pub fn text(&self, nest: &Nest) -> String {
        match self {
            Unplanned::Units(why) => why.text(nest),
            Unplanned::Whole(access, digit) => format!(
                "every CTA would store all of `{}`, which the loop over `{}` is not around",
                nest.tensor(nest.access(*access).tensor).name,
                nest.digit_name(*digit)
            ),
            Unplanned::Tiles(why) => nest.segment.map_or(String::new(), |segment| why.text(nest, segment)),
            Unplanned::Roles(why) => why.text(nest),
            Unplanned::Lookback(why) => why.text(nest),
            Unplanned::Boxes(why) => why.text(nest),
            Unplanned::Places(why) => why.text(nest),
            Unplanned::Fragments(why) => why.text(nest),
            Unplanned::Readers(why) => why.text(nest),
            Unplanned::Sums(why) => why.text(nest),
            Unplanned::Products(why) => why.text(nest),
            Unplanned::Stores(why) => why.text(nest),
        }
    }
}

impl<'n> Parts<'n> {
    /// Those of a nest for a target; none is worked out yet.
    pub fn of(nest: &'n Nest, target: Target) -> Self {
        Parts {
            nest,
            target,
            dimensions: OnceCell::new(),
            units: OnceCell::new(),
            tiles: OnceCell::new(),
            roles: OnceCell::new(),
            limits: OnceCell::new(),
            boxes: OnceCell::new(),
            maxima: OnceCell::new(),
            lookback: OnceCell::new(),
            channels: OnceCell::new(),
            places: OnceCell::new(),
            fragments: OnceCell::new(),
            readers: OnceCell::new(),
            sums: OnceCell::new(),
            products: OnceCell::new(),
            joins: OnceCell::new(),
            accesses: OnceCell::new(),
            stores: OnceCell::new(),
        }
    }

    /// The unit dimensions that loops are bound to.
    pub fn dimensions(&self) -> &Dimensions {
        self.dimensions.get_or_init(|| dimensions(self.nest))
    }

    /// Threads that compute a tile together, be they too many for a CTA.
    pub fn threads(&self) -> u64 {
        count(self.dimensions())
    }

    /// The threads that compute a tile together, by units.
    pub fn units(&self) -> Result<&Units, &NoUnits> {
        let units = || Units::of(self.nest, self.dimensions(), self.target.threads());
        self.units.get_or_init(units).as_ref()
    }

    /// The tiles, and which CTA takes which.
    pub fn tiles(&self) -> &Tiles {
        self.tiles.get_or_init(|| Tiles::of(self.nest))
    }

    /// The threads of a CTA by what they do.
    pub fn roles(&self) -> &Roles {
        self.roles.get_or_init(|| Roles::of(self.nest, self.maxima(), self.threads(), self.target.threads()))
    }

    /// What loops over axes with limits leave out.
    pub fn limits(&self) -> &Limited {
        self.limits.get_or_init(|| Limited::of(self.nest))
    }

    /// Running maxima that stay as the first step leaves them.
    pub fn maxima(&self) -> &Maxima {
        self.maxima.get_or_init(|| Maxima::of(self.nest))
    }

    /// The loop whose steps CTAs share out, or why they cannot.
    pub fn looks_back(&self) -> Option<Result<&Lookback, &NoLookback>> {
        let whole = |lookback: Lookback| {
            let in_registers =
                |part| self.places().nth(part, 0).is_some_and(|place| place.registers.is_some());
            match lookback.states.iter().find(|s| !in_registers(s.part) || !in_registers(s.value)) {
                _ if self.threads() < u64::from(WARP) => Err(NoLookback::Threads(self.threads())),
                Some(state) => Err(NoLookback::Shared(state.part)),
                None => Ok(lookback),
            }
        };
        let lookback = || self.nest.looks_back().map(|lookback| lookback.and_then(whole));
        self.lookback.get_or_init(lookback).as_ref().map(Result::as_ref)
    }

    /// What copies in shared memory take of their tensors.
    pub fn boxes(&self) -> &Boxes {
        self.boxes.get_or_init(|| Boxes::of(self.nest))
    }

    /// How copies come together, and what says that they have come.
    pub fn channels(&self) -> &Channels {
        self.channels.get_or_init(|| Channels::of(self.nest))
    }

    /// Where values live.
    pub fn places(&self) -> &Places {
        self.places.get_or_init(|| Places::of(self.nest))
    }

    /// Which registers copies have.
    pub fn fragments(&self) -> &Fragments {
        self.fragments.get_or_init(|| Fragments::of(self.nest))
    }

    /// What is wrong with the statements that read registers.
    pub fn readers(&self) -> &Readers {
        self.readers.get_or_init(|| Readers::of(self.nest))
    }

    /// How the parts of reductions come together.
    pub fn sums(&self) -> &Sums {
        let sums = || Sums::of(self.nest, self.target, self.units().ok(), self.tiles(), self.places());
        self.sums.get_or_init(sums)
    }

    /// Which values lanes exchange for products.
    pub fn joins(&self) -> &Joins {
        self.joins.get_or_init(|| Joins::of(self.nest, self.places()))
    }

    /// How products of tensor cores are made.
    pub fn products(&self) -> &Products {
        self.products.get_or_init(|| Products::of(self.nest, self.boxes(), self.tiles()))
    }

    /// From where each element comes, and how many at once.
    pub fn accesses(&self) -> &Accesses {
        self.accesses.get_or_init(|| Accesses::of(self.nest))
    }

    /// How what is stored leaves a CTA.
    pub fn stores(&self) -> &Stores {
        self.stores.get_or_init(|| Stores::of(self.nest))
    }

    /// What shared memory is used for.
    pub fn using(&self) -> Using<'_> {
        Using {
            nest: self.nest,
            threads: self.threads(),
            units: self.units().ok(),
            boxes: self.boxes(),
            maxima: self.maxima(),
            lookback: self.looks_back().and_then(|lookback| lookback.ok()),
            channels: self.channels(),
            places: self.places(),
            sums: self.sums(),
            stores: self.stores(),
        }
    }

    /// The first reason why there is no plan, in the order in which parts follow from one another.
    pub fn unplanned(&self) -> Option<Unplanned> {
        let (tiles, readers) = (self.tiles(), self.readers());
        let whole = || tiles.whole.first().map(|(access, digit)| Unplanned::Whole(*access, *digit));
        let units = self.units().err().copied().map(Unplanned::Units);
        units
            .or_else(whole)
            .or_else(|| tiles.unsegmented.first().cloned().map(Unplanned::Tiles))
            .or_else(|| self.roles().unproduced.first().copied().map(Unplanned::Roles))
            .or_else(|| self.looks_back()?.err().cloned().map(Unplanned::Lookback))
            .or_else(|| self.boxes().unboxed().map(Unplanned::Boxes))
            .or_else(|| self.places().unplaced().map(Unplanned::Places))
            .or_else(|| readers.indexed.first().copied().map(Unplanned::Places))
            .or_else(|| self.fragments().unheld().map(Unplanned::Fragments))
            .or_else(|| readers.apart.first().cloned().map(Unplanned::Readers))
            .or_else(|| self.sums().unsummed().map(Unplanned::Sums))
            .or_else(|| self.products().unmultiplied().first().copied().map(Unplanned::Products))
            .or_else(|| self.stores().unstored().map(Unplanned::Stores))
    }
}
