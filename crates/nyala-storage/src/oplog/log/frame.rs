//! One frame: a header of 24 bytes and a payload, drawn in `docs/formats/disk-store.md`.

use crate::oplog::codec::In;
use crate::oplog::labels::FrameLabel;

/// Bytes of a frame's header.
pub const HEAD_BYTES: usize = 24;
/// Table numbers are below this.
pub const TABLE_LIMIT: u32 = 1 << 24;

/// The operation of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Write,
    Truncate,
    Expire,
    CreateTable,
    DropTable,
    AlterTable,
    Clock,
    /// A write with a key that has the hash of another key: replay has to compare keys.
    WriteExact,
}

/// The meaning of the numbers from 1 on, and whether a label is in front of the payload.
const KINDS: &[(Kind, bool)] = &[
    (Kind::Write, false),
    (Kind::Truncate, false),
    (Kind::Expire, false),
    (Kind::CreateTable, false),
    (Kind::DropTable, false),
    (Kind::AlterTable, false),
    (Kind::Clock, false),
    (Kind::WriteExact, false),
    (Kind::Write, true),
    (Kind::WriteExact, true),
];

impl Kind {
    /// Whether a frame has rows.
    pub fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::WriteExact)
    }

    fn number(self, labelled: bool) -> u32 {
        KINDS.iter().position(|known| *known == (self, labelled)).map_or(0, |at| at as u32 + 1)
    }

    fn of(number: u32) -> Option<(Self, bool)> {
        KINDS.get((number as usize).checked_sub(1)?).copied()
    }
}

/// A frame to be written, without its LSN and its place in the log.
#[derive(Debug)]
pub struct Record {
    pub kind: Kind,
    pub table: u32,
    /// Whether the payload begins with a label.
    labelled: bool,
    pub payload: Vec<u8>,
    payload_crc: Option<u32>,
}

/// Checksums of payloads of at least this size are computed when the record is made; for smaller payloads computing
/// them anew costs less than combining them with the header's.
const COMBINE_BYTES: usize = 4096;

impl Record {
    pub fn new(kind: Kind, table: u32, payload: Vec<u8>) -> Self {
        let payload_crc = (payload.len() >= COMBINE_BYTES).then(|| crc32c::crc32c(&payload));
        Self { kind, table, labelled: false, payload, payload_crc }
    }

    /// Marks the payload as one that begins with a label.
    pub fn labelled(self) -> Self {
        Self { labelled: true, ..self }
    }

    pub fn bytes(&self) -> u64 {
        (HEAD_BYTES + self.payload.len()) as u64
    }

    /// Appends the header, for a log of this `seed`; `back` is the distance to the part known to be on disk.
    pub fn write_head(&self, out: &mut Vec<u8>, seed: u32, lsn: u64, back: u64) {
        let length = (self.payload.len() as u32).to_le_bytes();
        let tagged = (self.table | self.kind.number(self.labelled) << 24).to_le_bytes();
        let back = u32::try_from(back).unwrap_or(u32::MAX).to_le_bytes();
        let crc = [&lsn.to_le_bytes()[..], &tagged, &back]
            .into_iter()
            .fold(crc32c::crc32c_append(seed, &length), crc32c::crc32c_append);
        let crc = match self.payload_crc {
            Some(payload) => crc32c::crc32c_combine(crc, payload, self.payload.len()),
            None => crc32c::crc32c_append(crc, &self.payload),
        };
        let crc = crc.to_le_bytes();
        [&length[..], &crc, &lsn.to_le_bytes(), &tagged, &back]
            .iter()
            .for_each(|part| out.extend_from_slice(part));
    }
}

/// A whole, valid frame.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    pub kind: Kind,
    pub table: u32,
    pub lsn: u64,
    pub back: u32,
    pub label: Option<FrameLabel<'a>>,
    /// The payload behind the label.
    pub payload: &'a [u8],
    bytes: u64,
}

impl<'a> Frame<'a> {
    /// Bytes of the payload, as the header says; not yet verified.
    pub fn payload_bytes(head: &[u8]) -> Option<usize> {
        Some(In(head).u32()? as usize)
    }

    /// The LSN in the header; not yet verified.
    pub fn claimed_lsn(head: &[u8]) -> Option<u64> {
        In(head.get(8..)?).u64()
    }

    /// The frame at the start of `bytes`, if it is whole and valid.
    pub fn parse(seed: u32, bytes: &'a [u8]) -> Option<Self> {
        let mut input = In(bytes);
        let length = input.array::<4>()?;
        let crc = input.u32()?;
        let rest = input.0.get(..HEAD_BYTES - 8 + u32::from_le_bytes(length) as usize)?;
        if crc32c::crc32c_append(crc32c::crc32c_append(seed, &length), rest) != crc {
            return None;
        }
        let mut input = In(rest);
        let lsn = input.u64()?;
        let tagged = input.u32()?;
        let back = input.u32()?;
        let (kind, labelled) = Kind::of(tagged >> 24)?;
        let bytes = (HEAD_BYTES + input.0.len()) as u64;
        let label = if labelled { Some(FrameLabel::read(&mut input)?) } else { None };
        Some(Self { kind, table: tagged & (TABLE_LIMIT - 1), lsn, back, label, payload: input.0, bytes })
    }

    /// Whether flipping one bit outside of the length makes the invalid frame `bytes` valid.
    pub fn is_one_bit_off(seed: u32, bytes: &[u8]) -> bool {
        let (Some(length), Some(stored), Some(rest)) =
            (bytes.get(..4), bytes.get(4..).and_then(|rest| In(rest).u32()), bytes.get(8..))
        else {
            return false;
        };
        let difference = stored ^ crc32c::crc32c_append(crc32c::crc32c_append(seed, length), rest);
        // The change of the checksum for each bit of the last byte, then of the byte before it, and so on.
        let mut changes: [u32; 8] =
            std::array::from_fn(|bit| crc32c::crc32c(&[1 << bit]) ^ crc32c::crc32c(&[0]));
        let zero = crc32c::crc32c(&[0]);
        let in_rest = (0..rest.len()).any(|_| {
            let is_found = changes.contains(&difference);
            changes = changes.map(|change| crc32c::crc32c_append(change, &[0]) ^ zero);
            is_found
        });
        in_rest || difference.is_power_of_two()
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_flipped_bit_is_noticed() {
        let record = Record::new(Kind::Write, 7, b"payload".to_vec());
        let mut bytes = Vec::new();
        record.write_head(&mut bytes, 99, 5, 1000);
        assert_eq!(bytes.len(), HEAD_BYTES);
        bytes.extend_from_slice(&record.payload);
        let frame = Frame::parse(99, &bytes).unwrap();
        assert_eq!((frame.kind, frame.table, frame.lsn, frame.back), (Kind::Write, 7, 5, 1000));
        assert_eq!(frame.payload, b"payload");
        assert!(Frame::parse(98, &bytes).is_none(), "a frame of another log");
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Frame::parse(99, &bytes).is_none(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
