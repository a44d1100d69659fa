//! The plan: what the lowering does with a nest, worked out once, before any statement is made.
//!
//! ```text
//! plan  = tiles { role } { limits } { box } { channel } { frozen } [ lookback ] { place } { sum } { product } { join } { access } { store }
//! tiles = "tiles" [ "grid" factor { "×" factor } ] order [ "persistent" n ] [ "sizes whole, last" ]
//! factor = loop ":" extent "/" tile [ "in" period ] [ "rank of its cluster" | "parts" [ "side by side" ] | "steps" ]
//! role  = "role" first ".." end [ "registers" n ] ( "computes" group "/" groups [ "barrier" id ] | "copies by" thread { "in" loop | "twice if need be" } )
//! box   = "box" copy points [ "|" points of the last tile ] "in rows of" n [ ", panels of" n ]
//!         [ "," n "along" dimension "by each CTA" ] [ ", rounded" ]
//! channel = "channel" copies [ "at" loop ] ":" n "stages, filled by" who [ n "ahead" ] ";" full and free
//!         [ "; read a step ahead for" value ", while products of" values "are on their way" ] [ ";" registers inside ]
//! frozen = "frozen" value "in" loop ": without" values "; again unless" values "are finite"
//! lookback = "lookback in" loop ":" { value "by the" ( "sum" | "max" | "min" ) "of" part }
//! limits = "limits" axis ":" ( loops "without points left out" | why not )
//! place = "place" value ":" ( n "registers" [ ", then" points "in shared memory" ] | points "in shared memory" )
//! sum   = "sum" value ":" "scanned" "of" n where { ", then of" n where } | "sum" value ":" [ "of" n "lanes by shuffles" ] [ "of" n "through shared memory" ] [ "of CTAs" how ]
//! product = "product" value ":" instruction { "," ( "a" | "b" ) ( "described along" ( "k" | "mn" ) ", leading" n "stride" n "swizzle" n
//!         | "by" ( "words" | "matrices" [ "transposed" ] ) [ "in a fragment" ] | "computed" [ "by twos, exchanged" ] ) } [ ", the first overwrites" ]
//! join  = "join" value ": along" axis "," n "registers"
//! access = "access" ( "reads" | "stores" ) element [ "in copy" copy | "in registers" copy ] [ "," n "at once over" loop ]
//! store = "store" tensor ":" ( "by elements" | "lanes exchange matrices," n "of" loop { "×" n "of" loop } [ ", transposed" ]
//!         | points "collected" [ "by matrices" [ ", transposed" ] ] [ ", swizzle" bytes ] )
//! ```
//!
//! A nest says what directives decided. The plan says what follows from it for the code: emission reads it, and works none of it out
//! again.

mod accesses;
mod boxes;
mod channels;
mod fragments;
mod joins;
mod limits;
mod maxima;
mod parts;
mod places;
mod products;
mod readers;
mod roles;
mod scan;
mod stores;
mod sums;
mod tiles;

pub(crate) use accesses::Accesses;
pub(crate) use boxes::{Boxes, CopyBox, Unboxed};
pub(crate) use channels::{Channel, Channels, Full, InFlight, Producer};
pub(crate) use fragments::{Fragments, Unheld};
pub(crate) use joins::{Join, Joins};
pub(crate) use limits::Limited;
pub(crate) use maxima::Maxima;
pub(crate) use parts::{Parts, Unplanned, Using};
pub(crate) use places::{Place, Places, Unplaced};
pub(crate) use products::{Obstacle, OperandPath, Product, Products, Unmultiplied};
pub(crate) use readers::Misread;
pub(crate) use roles::{Does, Producing, Role, Unproduced};
pub(crate) use scan::{Scan, ScanLevel};
pub(crate) use stores::{Collected, Store, StorePath, Stores, Unstored};
pub(crate) use sums::{Ctas, Cut, QUAD, Sum, Sums, Threads, Unsummed, Workspace, side_by_side};
pub(crate) use tiles::{Factor, Share, Tiles, Unsegmented};

use crate::{
    machine::Target,
    nest::{Lookback, Nest, Units},
};
use std::fmt;

/// What the lowering does with a nest.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The threads that compute a tile together.
    pub units: Units,
    /// The tiles, and which CTA takes which.
    pub tiles: Tiles,
    /// The threads of a CTA by what they do, in their order; one role where all do the same.
    pub roles: Vec<Role>,
    /// What loops over axes with limits leave out.
    pub limits: Limited,
    /// What copies in shared memory take of their tensors.
    pub boxes: Boxes,
    /// Running maxima that stay as the first step leaves them.
    pub maxima: Maxima,
    /// The loop whose steps CTAs share out.
    pub lookback: Option<Lookback>,
    /// How copies come together, and what says that they have come.
    pub channels: Channels,
    /// Where values live.
    pub places: Places,
    /// Which registers copies have.
    pub fragments: Fragments,
    /// How the parts of reductions come together.
    pub sums: Sums,
    /// How products of tensor cores are made.
    pub products: Products,
    /// Which values lanes exchange for them.
    pub joins: Joins,
    /// From where each element comes, and how many at once.
    pub accesses: Accesses,
    /// How what is stored leaves a CTA.
    pub stores: Stores,
}

impl Plan {
    /// Plans a nest for a target.
    ///
    /// # Errors
    /// The first reason why one of its parts is not possible.
    pub fn of(nest: &Nest, target: Target) -> Result<Plan, Unplanned> {
        Plan::from_parts(Parts::of(nest, target))
    }

    /// The plan that all parts of a nest make.
    ///
    /// # Errors
    /// As [`Plan::of`].
    pub fn from_parts(parts: Parts<'_>) -> Result<Plan, Unplanned> {
        let units = parts.units().map_err(|why| Unplanned::Units(*why))?.clone();
        if let Some(why) = parts.unplanned() {
            return Err(why);
        }
        Ok(Plan {
            units,
            tiles: parts.tiles().clone(),
            roles: parts.roles().all.clone(),
            limits: parts.limits().clone(),
            boxes: parts.boxes().clone(),
            maxima: parts.maxima().clone(),
            lookback: parts.looks_back().and_then(|lookback| lookback.ok().cloned()),
            channels: parts.channels().clone(),
            places: parts.places().clone(),
            fragments: parts.fragments().clone(),
            sums: parts.sums().clone(),
            products: parts.products().clone(),
            joins: parts.joins().clone(),
            accesses: parts.accesses().clone(),
            stores: parts.stores().clone(),
        })
    }

    /// What shared memory is used for.
    pub fn using<'p>(&'p self, nest: &'p Nest) -> Using<'p> {
        Using {
            nest,
            threads: self.units.threads.into(),
            units: Some(&self.units),
            boxes: &self.boxes,
            maxima: &self.maxima,
            lookback: self.lookback.as_ref(),
            channels: &self.channels,
            places: &self.places,
            sums: &self.sums,
            stores: &self.stores,
        }
    }

    /// Threads of a CTA.
    pub fn threads(&self) -> u32 {
        self.roles.last().map_or(1, |role| role.threads.end)
    }

    /// The plan as text, with the names of a nest.
    pub fn text(&self, nest: &Nest) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = self.write(nest, &mut out);
        out
    }

    fn write(&self, nest: &Nest, out: &mut dyn fmt::Write) -> fmt::Result {
        self.tiles.write(nest, out)?;
        self.roles.iter().try_for_each(|role| role.write(nest, out))?;
        self.limits.write(nest, out)?;
        self.boxes.write(nest, out)?;
        self.channels.write(nest, out)?;
        self.maxima.write(nest, out)?;
        self.lookback.iter().try_for_each(|lookback| lookback.write(nest, out))?;
        self.places.write(nest, out)?;
        self.sums.write(nest, out)?;
        self.products.write(nest, out)?;
        self.joins.write(nest, out)?;
        self.accesses.write(nest, out)?;
        self.stores.write(nest, out)
    }
}
