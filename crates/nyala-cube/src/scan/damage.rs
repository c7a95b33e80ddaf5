//! Damaged files of cuboids: the error for the statement, and the report to the engine.

use std::io;
use std::time::Duration;

use nyala_sql::error::{ErrorKind, QueryError};
use nyala_storage::object::refusal;
use object_store::path::Path;
use tokio::sync::{mpsc, oneshot};

/// How long a scan waits until the catalog has recorded the damage.
const RECORDING: Duration = Duration::from_secs(10);
/// `EIO`: the disk cannot read back written data.
const IO_ERROR: i32 = 5;

/// Why a cuboid's file cannot be read.
#[derive(Debug)]
pub enum Damage {
    /// The file is missing, or differs from what was written.
    Found(String),
    /// The file may be intact, but cannot be read now.
    Unreadable(QueryError),
}

impl Damage {
    /// The error of a statement that reads the file.
    pub fn into_error(self, path: &Path) -> QueryError {
        match self {
            Self::Found(reason) => damaged(path, &reason),
            Self::Unreadable(error) => error,
        }
    }
}

fn damaged(path: &Path, reason: &str) -> QueryError {
    QueryError::new(ErrorKind::Corrupt, format!("cuboid file `{path}` is damaged: {reason}"))
        .hint("run the statement again: it reads the tables instead; BUILD CUBE makes the segment anew")
}

impl From<object_store::Error> for Damage {
    fn from(error: object_store::Error) -> Self {
        let reason = match &error {
            // If the whole bucket is missing, the file is not taken for damaged.
            object_store::Error::NotFound { .. } if refusal(&error).is_none() => Some("it is missing"),
            _ if has_code(&error, IO_ERROR) => Some("the disk cannot read it back"),
            _ => None,
        };
        match reason {
            Some(reason) => Self::Found(reason.to_owned()),
            None => Self::Unreadable(datafusion::common::DataFusionError::from(error).into()),
        }
    }
}

/// Whether the system's error is the one with this number.
fn has_code(error: &object_store::Error, code: i32) -> bool {
    let first: &(dyn std::error::Error + 'static) = error;
    let mut causes = std::iter::successors(Some(first), |cause| cause.source());
    causes.any(|cause| cause.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) == Some(code))
}

/// A damaged file that was found.
#[derive(Debug)]
pub struct FoundDamage {
    /// Path of the file within the data folder.
    pub path: String,
    /// The damage.
    pub reason: String,
    /// Gets a message when the catalog has recorded the damage.
    pub recorded: oneshot::Sender<()>,
}

/// The channel by which scans report damaged files. It is in the configuration of every session.
#[derive(Debug)]
pub struct DamageReports(mpsc::UnboundedSender<FoundDamage>);

impl DamageReports {
    /// The reports, and the end that receives them.
    pub fn new() -> (Self, mpsc::UnboundedReceiver<FoundDamage>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    /// Reports the damage, and waits until it is recorded: before, other statements would read the same file.
    pub async fn report(&self, path: &Path, reason: &str) {
        let (recorded, done) = oneshot::channel();
        let found = FoundDamage { path: path.to_string(), reason: reason.to_owned(), recorded };
        if self.0.send(found).is_ok() {
            // If the receiver is gone or takes too long, the statement fails anyway.
            let _ = tokio::time::timeout(RECORDING, done).await;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use super::*;

    #[test]
    fn a_missing_file_is_told_from_a_missing_bucket() {
        let check = |code: &str, lost: bool| {
            let source = format!(
                "Error performing GET http://127.0.0.1:9/b/cubes/1/2/0-0.parquet in 1ms - Server returned non-2xx status \
                 code: 404 Not Found: <Error><Code>{code}</Code></Error>"
            );
            let error =
                object_store::Error::NotFound { path: "cubes/1/2/0-0.parquet".into(), source: source.into() };
            match (Damage::from(error), lost) {
                (Damage::Found(_), true) | (Damage::Unreadable(_), false) => {}
                (damage, _) => panic!("{code}: {damage:?}"),
            }
        };
        check("NoSuchKey", true);
        check("NoSuchBucket", false);
    }
}
