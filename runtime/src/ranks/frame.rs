//! What connected ranks say to each other.

use super::{health::Lost, wire::is_late};
use std::{
    io::{self, Read},
    net::TcpStream,
};

const ALIVE: u8 = 0;
const DATA: u8 = 1;
const BYE: u8 = 2;
const READ: u8 = 3;
const LOST: u8 = 4;

/// Bytes of the text that says what a message belongs to, and of a reason.
const LONGEST: usize = 4096;
/// Room that is taken before bytes have come.
const PIECE: usize = 1 << 20;

#[derive(Debug, PartialEq)]
pub(super) enum Frame {
    /// Nothing but that it is there.
    Alive,
    /// Bytes of a call, and which call that is.
    Data { what: String, bytes: Vec<u8> },
    /// It leaves, after so many calls with the reader.
    Bye { calls: u64 },
    /// Everything up to its `Bye` has been read.
    Read,
    /// It gives up.
    Lost(Lost),
}

impl Frame {
    /// The frame, but for the bytes of data, which come behind it.
    pub(super) fn head(&self) -> Vec<u8> {
        let text = |kind: u8, text: &[u8]| {
            let mut head = vec![kind];
            head.extend((text.len() as u32).to_le_bytes());
            head.extend(text);
            head
        };
        match self {
            Frame::Alive => vec![ALIVE],
            Frame::Data { what, bytes } => data_head(what, bytes.len()),
            Frame::Bye { calls } => [&[BYE][..], &calls.to_le_bytes()].concat(),
            Frame::Read => vec![READ],
            Frame::Lost(lost) => text(LOST, &postcard::to_allocvec(lost).unwrap_or_default()),
        }
    }
}

/// What comes before the bytes of data.
pub(super) fn data_head(what: &str, bytes: usize) -> Vec<u8> {
    let mut head = vec![DATA];
    head.extend((what.len() as u32).to_le_bytes());
    head.extend(what.as_bytes());
    head.extend((bytes as u64).to_le_bytes());
    head
}

/// How reading ended.
#[derive(Debug, PartialEq)]
pub(super) enum End {
    /// The connection is closed.
    Closed,
    /// What came is no frame.
    Nonsense,
    /// `stop` said so.
    Stopped,
}

/// Reads frames of a stream whose reads end after a while.
pub(super) struct Reader<'a, S> {
    /// Asked whenever nothing has come for that while.
    pub(super) stop: S,
    pub(super) stream: &'a TcpStream,
    /// Told whenever bytes have come.
    pub(super) heard: &'a dyn Fn(),
}

impl<S: FnMut() -> bool> Reader<'_, S> {
    pub(super) fn frame(&mut self) -> Result<Frame, End> {
        let [kind] = self.array()?;
        Ok(match kind {
            ALIVE => Frame::Alive,
            READ => Frame::Read,
            BYE => Frame::Bye { calls: u64::from_le_bytes(self.array()?) },
            DATA => {
                let what = String::from_utf8(self.text()?).map_err(|_| End::Nonsense)?;
                let length = u64::from_le_bytes(self.array()?);
                let length = usize::try_from(length).map_err(|_| End::Nonsense)?;
                Frame::Data { what, bytes: self.bytes(length)? }
            }
            LOST => Frame::Lost(postcard::from_bytes(&self.text()?).map_err(|_| End::Nonsense)?),
            _ => return Err(End::Nonsense),
        })
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], End> {
        let mut array = [0; N];
        self.fill(&mut array)?;
        Ok(array)
    }

    fn text(&mut self) -> Result<Vec<u8>, End> {
        let length = u32::from_le_bytes(self.array()?) as usize;
        if length > LONGEST {
            return Err(End::Nonsense);
        }
        self.bytes(length)
    }

    /// Takes room as bytes come: a length may be a lie.
    fn bytes(&mut self, length: usize) -> Result<Vec<u8>, End> {
        let mut bytes = Vec::new();
        while bytes.len() < length {
            let from = bytes.len();
            bytes.resize(length.min(from.saturating_add(PIECE.max(from))), 0);
            self.fill(&mut bytes[from..])?;
        }
        Ok(bytes)
    }

    fn fill(&mut self, mut room: &mut [u8]) -> Result<(), End> {
        while !room.is_empty() {
            let mut stream = self.stream;
            match stream.read(room) {
                Ok(0) => return Err(End::Closed),
                Ok(read) => {
                    room = &mut room[read..];
                    (self.heard)();
                }
                Err(error) if is_late(&error) => {
                    if (self.stop)() {
                        return Err(End::Stopped);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Err(End::Closed),
                Err(_) => return Err(End::Closed),
            }
        }
        Ok(())
    }
}
