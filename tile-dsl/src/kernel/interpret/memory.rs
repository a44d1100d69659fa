//! Shared memory with a record of who touched each element since the last barrier.

/// An element.
#[derive(Clone, Copy)]
struct Cell {
    /// `None` before the first write and while an asynchronous copy is on its way.
    value: Option<f32>,
    in_flight: bool,
    /// Last write: epoch, thread.
    written: Option<(u64, u32)>,
    /// Last epoch read in, by which thread; `u32::MAX` stands for several.
    read: Option<(u64, u32)>,
}

const SEVERAL: u32 = u32::MAX;

/// A shared buffer.
pub(super) struct SharedMemory {
    cells: Vec<Cell>,
}

impl SharedMemory {
    pub fn new(elems: usize) -> Self {
        SharedMemory { cells: vec![Cell { value: None, in_flight: false, written: None, read: None }; elems] }
    }

    fn range(&self, offset: i64, n: usize) -> Result<usize, String> {
        if offset < 0 || offset as usize + n > self.cells.len() {
            return Err(format!("offset {offset} + {n} is outside {} shared elements", self.cells.len()));
        }
        if !(offset as usize).is_multiple_of(n) {
            return Err(format!("a vector of {n} shared elements at {offset} is not aligned"));
        }
        Ok(offset as usize)
    }

    /// Reads consecutive elements: calls `found` with the position and the value of each.
    pub fn load(
        &mut self,
        offset: i64,
        n: usize,
        thread: u32,
        epoch: u64,
        mut found: impl FnMut(usize, f32),
    ) -> Result<(), String> {
        let at = self.range(offset, n)?;
        for (i, cell) in self.cells[at..at + n].iter_mut().enumerate() {
            if cell.in_flight {
                return Err(format!("reads shared element {} while its copy is on its way", at + i));
            }
            if let Some((e, by)) = cell.written
                && e == epoch
                && by != thread
            {
                return Err(format!(
                    "reads shared element {} that thread {by} wrote since the last barrier",
                    at + i
                ));
            }
            cell.read = match cell.read {
                Some((e, by)) if e == epoch && by != thread => Some((epoch, SEVERAL)),
                _ => Some((epoch, thread)),
            };
            let Some(x) = cell.value else {
                return Err(format!("reads shared element {} before it is written", at + i));
            };
            found(i, x);
        }
        Ok(())
    }

    fn claim(&mut self, at: usize, n: usize, thread: u32, epoch: u64) -> Result<(), String> {
        for (i, cell) in self.cells[at..at + n].iter_mut().enumerate() {
            let other = |mark: Option<(u64, u32)>| mark.filter(|(e, by)| *e == epoch && *by != thread);
            if let Some((_, by)) = other(cell.written) {
                return Err(format!(
                    "writes shared element {} that thread {by} wrote since the last barrier",
                    at + i
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
        }
        Ok(())
    }

    /// Writes consecutive elements.
    pub fn store(&mut self, offset: i64, data: &[f32], thread: u32, epoch: u64) -> Result<(), String> {
        let at = self.range(offset, data.len())?;
        self.claim(at, data.len(), thread, epoch)?;
        for (cell, x) in self.cells[at..].iter_mut().zip(data) {
            cell.value = Some(*x);
        }
        Ok(())
    }

    /// Begins an asynchronous copy to consecutive elements.
    pub fn issue(&mut self, offset: i64, n: usize, thread: u32, epoch: u64) -> Result<usize, String> {
        let at = self.range(offset, n)?;
        self.claim(at, n, thread, epoch)?;
        self.cells[at..at + n].iter_mut().for_each(|c| c.in_flight = true);
        Ok(at)
    }

    /// Completes an asynchronous copy.
    pub fn land(&mut self, at: usize, data: &[f32], thread: u32, epoch: u64) {
        for (cell, x) in self.cells[at..].iter_mut().zip(data) {
            *cell =
                Cell { value: Some(*x), in_flight: false, written: Some((epoch, thread)), read: cell.read };
        }
    }
}
