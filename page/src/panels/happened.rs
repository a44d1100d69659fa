//! The order in which the simulator ran the first CTA, from its trace.

use crate::{
    model::{Happened, RingStage, Run},
    places::{Kind, Places, kind_of},
};
use ptx_sim::{Access, Event, EventKind, Place, Trace};
use tile_dsl::kernel::{Kernel, Param};

/// Events that are shown.
const MOST: usize = 1500;

/// What happened, those alike of one warp together, and the stages of channels.
pub(crate) fn collect(kernel: &Kernel, trace: &Trace, places: &Places<'_>) -> Run {
    let mut events: Vec<Happened> = Vec::new();
    let mut stages = Stages { kernel, places, stages: Vec::new() };
    let mut left_out = trace.left_out;
    for event in &trace.events {
        let Some(happened) = happened(kernel, places, event) else { continue };
        match alike(&events, &happened) {
            Some(at) => {
                events[at].count += 1;
                stages.see(at, event);
            }
            None if events.len() == MOST => left_out += 1,
            None => {
                stages.see(events.len(), event);
                events.push(happened);
            }
        }
    }
    Run { events, left_out, stages: stages.stages }
}

/// Whether an event orders no threads, so that those alike of a warp can stand together.
fn merges(event: &Happened) -> bool {
    matches!(event.kind, "load" | "store" | "copy" | "product" | "exchange" | "landed")
}

/// The place of an event like this one: among those of its warp since the last that orders threads, or, of bytes that have come, among
/// those that came since anything else.
fn alike(events: &[Happened], new: &Happened) -> Option<usize> {
    if !merges(new) {
        return None;
    }
    let back = events.iter().enumerate().rev();
    let mut own = back.filter(|(_, e)| new.warp.is_none() || e.warp == new.warp);
    let same = |e: &Happened| (e.kind, &e.text) == (new.kind, &new.text);
    let within = |e: &Happened| merges(e) && (new.warp.is_some() || e.warp.is_none());
    own.by_ref().take_while(|(_, e)| within(e)).find(|(_, e)| same(e)).map(|(at, _)| at)
}

fn happened(kernel: &Kernel, places: &Places<'_>, event: &Event) -> Option<Happened> {
    let line = event.line;
    let pending = |of: &str, n: u32| match n {
        0 => format!("all {of} are done"),
        n => format!("all {of} but {n} are done"),
    };
    let (kind, text, names): (&'static str, String, Vec<String>) = match &event.kind {
        EventKind::Access { access, at } => {
            let (space, name) = match at {
                // Parameters of grouped launches and scratch memory are no tensors.
                Place::Global(name, _) => ("global", name.clone()),
                Place::Shared(at) => ("shared", places.name((*at).into(), kind_of(*access), line)),
                Place::Other => return None,
            };
            let kind = if *access == Access::Load { "load" } else { "store" };
            (kind, format!("{kind} {space} {name}"), vec![name])
        }
        EventKind::CopyAsync { from, to } => {
            let to = places.name((*to).into(), Kind::Copy, line);
            let from = if let Place::Global(name, _) = from { name.clone() } else { String::new() };
            ("copy", format!("begin to copy {from} to shared {to}"), vec![from, to])
        }
        EventKind::Commit => ("commit", "commit copies".into(), vec![]),
        EventKind::WaitGroup(n) => ("wait", pending("groups of copies", *n), vec![]),
        EventKind::Bulk { shared, store, mbarrier: signal } => {
            let name = places.name((*shared).into(), Kind::Box, line);
            match signal {
                _ if *store => ("copy", format!("begin to store a box of shared {name}"), vec![name]),
                Some(at) => {
                    let (_, signal) = places.mbarrier(*at, line);
                    ("copy", format!("begin to copy a box to shared {name} for {signal}"), vec![name])
                }
                None => ("copy", format!("begin to copy a box to shared {name}"), vec![name]),
            }
        }
        EventKind::Landed { mbarrier: at, bytes } => {
            let (buffer, name) = places.mbarrier(*at, line);
            ("landed", format!("{bytes} bytes have come: {name}"), vec![buffer])
        }
        EventKind::BulkCommit => ("commit", "commit stores".into(), vec![]),
        EventKind::BulkWait(n) => ("wait", pending("groups of stores", *n), vec![]),
        EventKind::Barrier(id) => ("barrier", format!("at barrier {id}"), vec![]),
        EventKind::Cluster => ("barrier", "at the barrier of the cluster".into(), vec![]),
        EventKind::Init { mbarrier: at } => {
            let (buffer, name) = places.mbarrier(*at, line);
            ("init", format!("initialise {name}"), vec![buffer])
        }
        EventKind::Arrive { mbarrier: at, lanes, remote } => {
            let (buffer, name) = places.mbarrier(*at, line);
            let who = if *lanes == 1 { "1 lane arrives".into() } else { format!("{lanes} lanes arrive") };
            let other = if *remote { " of another CTA" } else { "" };
            ("arrive", format!("{who} at {name}{other}"), vec![buffer])
        }
        EventKind::Waited { mbarrier: at } => {
            let (buffer, name) = places.mbarrier(*at, line);
            ("wait", format!("{name} is complete"), vec![buffer])
        }
        EventKind::Product => ("product", "tensor core product".into(), vec![]),
        EventKind::ProductCommit => ("commit", "commit products".into(), vec![]),
        EventKind::ProductWait(n) => ("wait", pending("groups of products", *n), vec![]),
        EventKind::Exchange => ("exchange", "lanes exchange values".into(), vec![]),
    };
    let each = names.iter().flat_map(|n| n.split(" or ")).map(str::to_string);
    let names = each.filter(|n| known(kernel, n)).collect();
    Some(Happened { warp: event.warp, kind, text, names, line: event.line, count: 1 })
}

fn known(kernel: &Kernel, name: &str) -> bool {
    kernel.shared.iter().any(|s| s.name == name) || kernel.params.iter().map(Param::name).any(|p| p == name)
}

/// The stages of channels, as mbarriers tell of them.
struct Stages<'k> {
    kernel: &'k Kernel,
    places: &'k Places<'k>,
    stages: Vec<RingStage>,
}

impl Stages<'_> {
    /// Sees an event that stands at a position of the list.
    fn see(&mut self, at: usize, event: &Event) {
        match &event.kind {
            EventKind::Bulk { store: false, mbarrier: Some(signal), .. } => {
                self.change(*signal, event.line, at, "filling")
            }
            EventKind::Landed { mbarrier, .. } => self.change(*mbarrier, event.line, at, "full"),
            EventKind::Arrive { mbarrier: place, remote: false, .. } => self.freed(*place, event.line, at),
            _ => {}
        }
    }

    fn change(&mut self, signal: u32, line: u32, at: usize, state: &'static str) {
        let (_, name) = self.places.mbarrier(signal, line);
        let n = match self.stages.iter().position(|s| s.name == name) {
            Some(n) => n,
            None => {
                self.stages.push(RingStage { name, changes: Vec::new() });
                self.stages.sort_by(|a, b| a.name.cmp(&b.name));
                return self.change(signal, line, at, state);
            }
        };
        let changes = &mut self.stages[n].changes;
        if changes.last().map(|c| c.1) != Some(state) {
            changes.push((at, state));
        }
    }

    /// Who reads a stage arrives at the mbarrier that says that it is free: the one of that number of the channel's other ring.
    fn freed(&mut self, place: u32, line: u32, at: usize) {
        let (buffer, name) = self.places.mbarrier(place, line);
        let Some(full) = counterpart(self.kernel, &buffer) else { return };
        let name = name.replacen(&buffer, &full, 1);
        if let Some(stage) = self.stages.iter_mut().find(|s| s.name == name) {
            match stage.changes.last_mut() {
                // The last of those who read it decides.
                Some(last) if last.1 == "free" => last.0 = at,
                Some(last) if last.1 == "full" => stage.changes.push((at, "free")),
                _ => {}
            }
        }
    }
}

/// The buffer of mbarriers of full stages that goes with one of free stages.
fn counterpart(kernel: &Kernel, buffer: &str) -> Option<String> {
    let full = buffer.replace("empty", "full").replace("free", "full");
    (full != buffer && kernel.shared.iter().any(|s| s.name == full)).then_some(full)
}
