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

#[cfg(test)]
mod tests {
    use super::*;
    use std::{cell::Cell, io::Write, net::TcpListener, thread, time::Duration};

    /// What is read of bytes that come in pieces, up to the end of the connection.
    fn read(bytes: &[u8], piece: usize) -> (Vec<Frame>, End) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        thread::scope(|scope| {
            scope.spawn(move || {
                // Who reads no more is not written to.
                bytes.chunks(piece.max(1)).try_for_each(|piece| sender.write_all(piece)).ok()
            });
            let heard = Cell::new(0);
            let mut reader =
                Reader { stop: || false, stream: &stream, heard: &|| heard.set(heard.get() + 1) };
            let mut frames = Vec::new();
            loop {
                match reader.frame() {
                    Ok(frame) => frames.push(frame),
                    Err(end) => {
                        assert!(bytes.is_empty() || heard.get() > 0);
                        return (frames, end);
                    }
                }
            }
        })
    }

    fn bytes(frames: &[Frame]) -> Vec<u8> {
        let one = |frame: &Frame| match frame {
            Frame::Data { bytes, .. } => [frame.head(), bytes.clone()].concat(),
            other => other.head(),
        };
        frames.iter().flat_map(one).collect()
    }

    fn some() -> Vec<Frame> {
        vec![
            Frame::Alive,
            Frame::Data { what: "all_reduce".into(), bytes: (0..700).map(|n| n as u8).collect() },
            Frame::Data { what: String::new(), bytes: Vec::new() },
            Frame::Lost(Lost { rank: 3, what: "gone".into() }),
            Frame::Read,
            Frame::Bye { calls: u64::MAX },
        ]
    }

    #[test]
    fn frames_come_in_any_pieces() {
        for piece in [1, 7, 4096] {
            assert_eq!(read(&bytes(&some()), piece), (some(), End::Closed));
        }
        let large = vec![Frame::Data { what: "x".into(), bytes: vec![7; 3 * PIECE + 5] }];
        assert_eq!(read(&bytes(&large), 100_000), (large, End::Closed));
    }

    #[test]
    fn half_a_frame_is_none() {
        let whole = bytes(&some()[1..2]);
        for length in [0, 1, 4, 6, 20, whole.len() - 1] {
            assert_eq!(read(&whole[..length], 4096), (Vec::new(), End::Closed), "{length}");
        }
        // A length that is a lie takes no room.
        let lie = [&data_head("x", 0)[..6], &(u64::MAX >> 1).to_le_bytes()].concat();
        assert_eq!(read(&lie, 4096), (Vec::new(), End::Closed));
    }

    #[test]
    fn noise_ends_the_reading() {
        assert_eq!(read(&[9], 1), (Vec::new(), End::Nonsense));
        assert_eq!(read(&[DATA, 255, 255, 255, 255], 5), (Vec::new(), End::Nonsense));
        assert_eq!(read(&[DATA, 1, 0, 0, 0, 0xff], 6), (Vec::new(), End::Nonsense));
        assert_eq!(read(&[LOST, 1, 0, 0, 0, 3], 6), (Vec::new(), End::Nonsense));
        let mut state = 7u64;
        for _ in 0..300 {
            let mut random = || {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 33) as usize
            };
            let mut noise = bytes(&some());
            for _ in 0..4 {
                let at = random() % noise.len();
                noise[at] = random() as u8;
            }
            noise.truncate(1 + random() % noise.len());
            let _ = read(&noise, 64);
        }
    }
}
