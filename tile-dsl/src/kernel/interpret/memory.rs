//! Shared memory with a record of who touched each byte since the last barrier.

use crate::kernel::Shared;

/// As many bytes as the smallest element has.
#[derive(Clone, Copy, Default)]
struct Cell {
    /// The buffer that wrote it last, or whose life began here last.
    owner: Option<u32>,
    /// The element that starts here. `None` before the first write and while an asynchronous copy is on its way.
    value: Option<f32>,
    in_flight: bool,
    /// Last write: epoch, thread.
    written: Option<(u64, u32)>,
    /// Last epoch read in, by which thread; `u32::MAX` stands for several.
    read: Option<(u64, u32)>,
}

const SEVERAL: u32 = u32::MAX;

/// The mark of a thread that combined a value with an element: others may do so, too, until the next barrier.
const COMBINED: u32 = u32::MAX - 1;

/// Who wrote, in words.
fn writer(by: u32) -> String {
    if by == COMBINED { "threads combined values with".into() } else { format!("thread {by} wrote") }
}

/// Where a buffer lies, in cells.
struct Buffer {
    start: usize,
    elems: usize,
    /// Cells of an element.
    each: usize,
}

/// The shared memory of a CTA.
pub(super) struct SharedMemory {
    buffers: Vec<Buffer>,
    cells: Vec<Cell>,
}

/// A buffer and an offset in elements.
type Place = (u32, i64);

impl SharedMemory {
    pub fn new(buffers: &[Shared]) -> Self {
        let bytes = buffers.iter().map(|s| s.dtype.bytes()).min().unwrap_or(1) as usize;
        let end = buffers.iter().map(|s| s.start + s.bytes()).max().unwrap_or(0) as usize;
        let place = |s: &Shared| Buffer {
            start: s.start as usize / bytes,
            elems: s.elems as usize,
            each: s.dtype.bytes() as usize / bytes,
        };
        SharedMemory {
            buffers: buffers.iter().map(place).collect(),
            cells: vec![Cell::default(); end.div_ceil(bytes)],
        }
    }

    /// First element of an access and its cells, element by element.
    fn range(
        &self,
        (buffer, offset): Place,
        n: usize,
    ) -> Result<(usize, std::ops::Range<usize>, usize), String> {
        let Buffer { start, elems, each } = self.buffers[buffer as usize];
        if offset < 0 || offset as usize + n > elems {
            return Err(format!("offset {offset} + {n} is outside {elems} shared elements"));
        }
        let at = offset as usize;
        if !at.is_multiple_of(n) {
            return Err(format!("a vector of {n} shared elements at {offset} is not aligned"));
        }
        Ok((at, start + at * each..start + (at + n) * each, each))
    }

    /// Reads consecutive elements: calls `found` with the position and the value of each.
    pub fn load(
        &mut self,
        place: Place,
        n: usize,
        thread: u32,
        epoch: u64,
        mut found: impl FnMut(usize, f32),
    ) -> Result<(), String> {
        let (at, cells, each) = self.range(place, n)?;
        for (i, element) in self.cells[cells].chunks_exact_mut(each).enumerate() {
            let mut value = element[0].value;
            for cell in element {
                if cell.in_flight {
                    return Err(format!("reads shared element {} while its copy is on its way", at + i));
                }
                if let Some((e, by)) = cell.written
                    && e == epoch
                    && by != thread
                {
                    return Err(format!(
                        "reads shared element {} that {} since the last barrier",
                        at + i,
                        writer(by)
                    ));
                }
                cell.read = match cell.read {
                    Some((e, by)) if e == epoch && by != thread => Some((epoch, SEVERAL)),
                    _ => Some((epoch, thread)),
                };
                value = value.filter(|_| cell.owner == Some(place.0));
            }
            let Some(x) = value else {
                return Err(format!("reads shared element {} before it is written", at + i));
            };
            found(i, x);
        }
        Ok(())
    }

    fn claim(
        &mut self,
        place: Place,
        n: usize,
        thread: u32,
        epoch: u64,
        mut each_element: impl FnMut(usize, &mut [Cell]),
    ) -> Result<(), String> {
        let (at, cells, each) = self.range(place, n)?;
        for (i, element) in self.cells[cells].chunks_exact_mut(each).enumerate() {
            for cell in element.iter_mut() {
                let other = |mark: Option<(u64, u32)>| mark.filter(|(e, by)| *e == epoch && *by != thread);
                if let Some((_, by)) = other(cell.written) {
                    return Err(format!(
                        "writes shared element {} that {} since the last barrier",
                        at + i,
                        writer(by)
                    ));
                }
                if other(cell.read).is_some() {
                    return Err(format!(
                        "writes shared element {} that others read since the last barrier",
                        at + i
                    ));
                }
                if cell.in_flight {
                    return Err(format!("writes shared element {} while a copy to it is on its way", at + i));
                }
                cell.written = Some((epoch, thread));
                cell.owner = Some(place.0);
            }
            each_element(i, element);
        }
        Ok(())
    }

    /// Writes consecutive elements.
    pub fn store(&mut self, place: Place, data: &[f32], thread: u32, epoch: u64) -> Result<(), String> {
        self.claim(place, data.len(), thread, epoch, |i, element| element[0].value = Some(data[i]))
    }

    /// Combines values with consecutive elements, in one step that other threads' combining cannot part.
    pub fn combine(
        &mut self,
        place: Place,
        n: usize,
        (thread, epoch): (u32, u64),
        combined: impl Fn(usize, f32) -> f32,
    ) -> Result<(), String> {
        let (at, cells, each) = self.range(place, n)?;
        for (i, element) in self.cells[cells.clone()].chunks_exact(each).enumerate() {
            let what = |what: String| format!("combines a value with shared element {} {what}", at + i);
            for cell in element {
                if cell.in_flight {
                    return Err(what("while a copy to it is on its way".into()));
                }
                let others = |mark: Option<(u64, u32)>| {
                    mark.filter(|(e, by)| *e == epoch && ![thread, COMBINED].contains(by))
                };
                if let Some((_, by)) = others(cell.written) {
                    return Err(what(format!("that {} since the last barrier", writer(by))));
                }
                if others(cell.read).is_some() {
                    return Err(what("that others read since the last barrier".into()));
                }
            }
            let known = element[0].value.filter(|_| element.iter().all(|cell| cell.owner == Some(place.0)));
            if known.is_none() {
                return Err(what("before it is written".into()));
            }
        }
        for (i, element) in self.cells[cells].chunks_exact_mut(each).enumerate() {
            element.iter_mut().for_each(|cell| cell.written = Some((epoch, COMBINED)));
            element[0].value = element[0].value.map(|x| combined(i, x));
        }
        Ok(())
    }

    /// Begins an asynchronous copy to consecutive elements.
    pub fn issue(&mut self, place: Place, n: usize, thread: u32, epoch: u64) -> Result<usize, String> {
        let fly = |_, element: &mut [Cell]| element.iter_mut().for_each(|c| c.in_flight = true);
        self.claim(place, n, thread, epoch, fly)?;
        Ok(place.1 as usize)
    }

    /// Completes an asynchronous copy.
    pub fn land(&mut self, (buffer, at): (u32, usize), data: &[f32], thread: u32, epoch: u64) {
        let Buffer { start, each, .. } = self.buffers[buffer as usize];
        for (element, x) in self.cells[start + at * each..].chunks_exact_mut(each).zip(data) {
            for cell in element.iter_mut() {
                (cell.in_flight, cell.written, cell.owner) = (false, Some((epoch, thread)), Some(buffer));
            }
            element[0].value = Some(*x);
        }
    }

    /// The life of a buffer begins: its bytes are without a value.
    pub fn begin(&mut self, buffer: u32) -> Result<(), String> {
        let Buffer { start, elems, each } = self.buffers[buffer as usize];
        for cell in &mut self.cells[start..start + elems * each] {
            if cell.in_flight {
                return Err("takes bytes of shared memory while a copy to them is on its way".into());
            }
            (cell.value, cell.owner) = (None, Some(buffer));
        }
        Ok(())
    }
}
