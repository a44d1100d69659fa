//! What the engines of one core share: the shadow of global memory and its synchronising words.

use super::{Engine, Env};
use crate::race::{GlobalShadow, SyncWord};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// Global memory as the race checks see it.
#[derive(Debug, Default)]
pub(crate) struct Device {
    pub shadow: GlobalShadow,
    /// What strong accesses released: (allocation, word) → tokens. Only where CTAs may wait for one another.
    pub sync: HashMap<(u32, u64), SyncWord>,
    /// All clusters of the launch use this shadow.
    pub whole: bool,
}

impl Device {
    pub fn new(env: &Env<'_>) -> Rc<RefCell<Device>> {
        let shadow = GlobalShadow::new(env.k.granule, env.budget.clone());
        Rc::new(RefCell::new(Device { shadow, whole: env.k.sequential, ..Device::default() }))
    }
}

impl Engine<'_> {
    /// Between clusters that cannot synchronise: what this one touched goes into the sum over clusters.
    pub fn retire(&mut self) {
        let device = &mut *self.device.borrow_mut();
        if !device.whole {
            device.shadow.retire(self.env.crossings.as_ref().map(|c| (c, self.retiring)));
        }
    }
}
