//! Names of files in a store's folder.

use super::{BlockHeader, BlockKind};

impl BlockHeader {
    /// The file's name.
    pub fn name(&self) -> String {
        let (table, unit, version) = (self.table, self.unit, self.version);
        match self.kind {
            BlockKind::Values => format!("t{table}-u{unit}.seg"),
            BlockKind::Keys => format!("t{table}-u{unit}-v{version}.key"),
            BlockKind::Dead => format!("t{table}-u{unit}-v{version}.del"),
        }
    }
}

pub fn manifest_name(number: u64) -> String {
    format!("manifest-{number}")
}

/// The number in a manifest's name.
pub fn manifest_number(name: &str) -> Option<u64> {
    let number = name.strip_prefix("manifest-")?.parse().ok()?;
    (manifest_name(number) == name).then_some(number)
}

/// Whether the name is that of a store's file other than a log: the store may remove such files.
pub fn is_ours(name: &str) -> bool {
    let block = name.starts_with('t') && [".seg", ".key", ".del"].iter().any(|end| name.ends_with(end));
    block || manifest_number(name).is_some() || (name.starts_with("manifest-") && name.ends_with(".tmp"))
}
