//! The manifest: which files make up a store, as of one LSN.

use super::{FileRef, HeldTable, manifest_name, manifest_number};
use crate::oplog::codec::{In, Out};
use crate::oplog::error::{OplogError, Result};
use crate::oplog::labels::Labels;
use crate::oplog::meta::TableMeta;
use crate::oplog::unit::Facts;
use crate::oplog::vfs::Folder;

const MAGIC: &[u8; 8] = b"NYALAMAN";
/// Format 2 added labels.
const FORMAT: u32 = 2;
const OLDEST_FORMAT: u32 = 1;

/// A log that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEntry {
    pub number: u64,
    pub first_lsn: u64,
    /// The end of the log; of the newest log, the length that was on disk.
    pub bytes: u64,
}

/// Where a unit's rows are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Sealed,
    Log { number: u64, from: u64, to: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnitFiles {
    pub seg: Option<FileRef>,
    pub key: Option<FileRef>,
    pub del: Option<FileRef>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitEntry {
    pub table: u32,
    pub unit: u64,
    pub schema: u32,
    pub rows: u32,
    pub dead: u32,
    pub source: Source,
    pub facts: Facts,
    pub files: UnitFiles,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Manifest {
    pub store: [u8; 16],
    pub number: u64,
    /// Units hold everything up to this LSN.
    pub lsn: u64,
    /// Log and offset where reading goes on.
    pub log: (u64, u64),
    pub next_table: u32,
    pub next_unit: u64,
    /// LSNs, each with the milliseconds since 1970 at which the changes after it were written.
    pub clock: Vec<(u64, u64)>,
    pub logs: Vec<LogEntry>,
    pub tables: Vec<TableMeta>,
    pub units: Vec<UnitEntry>,
    pub held: Vec<HeldTable>,
    /// The labels of each table that has some, by the table's number.
    pub labels: Vec<(u32, Labels)>,
}

impl Manifest {
    fn body(&self) -> Result<Vec<u8>> {
        let mut out = Out::default();
        out.raw(&self.store);
        for number in [self.number, self.lsn, self.log.0, self.log.1, self.next_table.into(), self.next_unit]
        {
            out.var(number);
        }
        out.var(self.clock.len() as u64);
        self.clock.iter().flat_map(|(lsn, ms)| [lsn, ms]).for_each(|number| out.var(*number));
        out.var(self.logs.len() as u64);
        for log in &self.logs {
            [log.number, log.first_lsn, log.bytes].into_iter().for_each(|number| out.var(number));
        }
        out.var(self.tables.len() as u64);
        self.tables.iter().try_for_each(|table| table.write(&mut out))?;
        out.var(self.units.len() as u64);
        self.units.iter().for_each(|unit| unit.write(&mut out));
        out.var(self.held.len() as u64);
        self.held.iter().for_each(|held| held.write(&mut out));
        out.var(self.labels.len() as u64);
        for (table, labels) in &self.labels {
            out.var((*table).into());
            labels.write(&mut out);
        }
        Ok(out.0)
    }

    fn parse(bytes: &[u8], format: u32) -> Option<Self> {
        let mut input = In(bytes);
        let mut manifest = Self {
            store: input.array()?,
            number: input.var()?,
            lsn: input.var()?,
            log: (input.var()?, input.var()?),
            next_table: input.small()?,
            next_unit: input.var()?,
            ..Self::default()
        };
        for _ in 0..input.count()? {
            manifest.clock.push((input.var()?, input.var()?));
        }
        for _ in 0..input.count()? {
            let (number, first_lsn, bytes) = (input.var()?, input.var()?, input.var()?);
            manifest.logs.push(LogEntry { number, first_lsn, bytes });
        }
        for _ in 0..input.count()? {
            manifest.tables.push(TableMeta::read(&mut input)?);
        }
        for _ in 0..input.count()? {
            manifest.units.push(UnitEntry::read(&mut input)?);
        }
        for _ in 0..input.count()? {
            manifest.held.push(HeldTable::read(&mut input)?);
        }
        let labelled = if format > OLDEST_FORMAT { input.count()? } else { 0 };
        for _ in 0..labelled {
            manifest.labels.push((input.small()?, Labels::read(&mut input)?));
        }
        input.is_empty().then_some(manifest)
    }

    fn copy(&self) -> Result<Vec<u8>> {
        let body = self.body()?;
        let mut out = Out::default();
        out.raw(MAGIC);
        out.u32(FORMAT);
        out.u32(body.len() as u32);
        out.raw(&body);
        let crc = crc32c::crc32c(&out.0);
        out.u32(crc);
        Ok(out.0)
    }

    fn parse_copy(bytes: &[u8]) -> Option<Self> {
        let (text, crc) = bytes.split_last_chunk()?;
        let mut input = In(text);
        let (magic, format) = (input.raw(8)?, input.u32()?);
        let fixed = magic == MAGIC && (OLDEST_FORMAT..=FORMAT).contains(&format);
        let whole =
            input.u32()? as usize == input.0.len() && crc32c::crc32c(text) == u32::from_le_bytes(*crc);
        if fixed && whole { Self::parse(input.0, format) } else { None }
    }

    /// Makes this the store's manifest, durably. The files it names must be durable before.
    pub fn store(&self, folder: &Folder) -> Result<()> {
        let copy = self.copy()?;
        let name = manifest_name(self.number);
        let temporary = format!("{name}.tmp");
        let file = folder.create_file(&temporary)?;
        file.write_all(&[copy.as_slice(), copy.as_slice()].concat(), 0)?;
        file.sync()?;
        folder.rename(&temporary, &name)?;
        folder.sync()
    }

    /// The manifest of this number, and the damage if only one of its copies is whole.
    pub fn load(folder: &Folder, number: u64) -> Result<(Self, Option<OplogError>)> {
        let file = folder.open(&manifest_name(number))?;
        let mut bytes = vec![0; file.bytes()? as usize];
        file.read_exact(&mut bytes, 0)?;
        let middle = bytes.len() / 2;
        let (first, second) = bytes.split_at_checked(middle).unwrap_or_default();
        let right = |manifest: &Self| manifest.number == number;
        let copies = (Self::parse_copy(first).filter(right), Self::parse_copy(second).filter(right));
        match copies {
            (Some(manifest), Some(other)) if manifest == other => Ok((manifest, None)),
            (Some(manifest), None) => {
                Ok((manifest, Some(file.damaged(middle as u64, "the second copy is not valid"))))
            }
            (None, Some(manifest)) => Ok((manifest, Some(file.damaged(0, "the first copy is not valid")))),
            _ => Err(file.damaged(0, "neither copy of the manifest is valid")),
        }
    }

    /// Number of the newest manifest in the folder.
    pub fn newest(names: &[String]) -> Option<u64> {
        names.iter().filter_map(|name| manifest_number(name)).max()
    }
}

impl UnitEntry {
    fn write(&self, out: &mut Out) {
        out.var(self.table.into());
        out.var(self.unit);
        for number in [self.schema, self.rows, self.dead] {
            out.var(number.into());
        }
        match self.source {
            Source::Sealed => out.u8(1),
            Source::Log { number, from, to } => {
                out.u8(2);
                [number, from, to].into_iter().for_each(|number| out.var(number));
            }
        }
        out.var(self.facts.lsns.0);
        out.var(self.facts.lsns.1);
        out.u8(u8::from(self.facts.keys.is_some()));
        for key in self.facts.keys.iter().flat_map(|(lowest, highest)| [lowest, highest]) {
            out.text(key);
        }
        for file in [self.files.seg, self.files.key, self.files.del] {
            out.u8(u8::from(file.is_some()));
            if let Some(file) = file {
                out.var(file.version);
                out.var(file.bytes);
                out.u32(file.crc);
            }
        }
    }

    fn read(input: &mut In<'_>) -> Option<Self> {
        let (table, unit) = (input.small()?, input.var()?);
        let (schema, rows, dead) = (input.small()?, input.small()?, input.small()?);
        let source = match input.u8()? {
            1 => Source::Sealed,
            2 => Source::Log { number: input.var()?, from: input.var()?, to: input.var()? },
            _ => return None,
        };
        let lsns = (input.var()?, input.var()?);
        let keys = match input.u8()? {
            0 => None,
            1 => Some((input.text()?, input.text()?)),
            _ => return None,
        };
        let facts = Facts { lsns, keys };
        let mut file = || match input.u8()? {
            0 => Some(None),
            1 => Some(Some(FileRef { version: input.var()?, bytes: input.var()?, crc: input.u32()? })),
            _ => None,
        };
        let files = UnitFiles { seg: file()?, key: file()?, del: file()? };
        Some(Self { table, unit, schema, rows, dead, source, facts, files })
    }
}
