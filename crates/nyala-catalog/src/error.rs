//! Why a change was refused, or the catalog could not be read or written.

use std::io;
use std::path::PathBuf;

use nyala_model::{NodeId, SegmentId};

/// Why a change was refused, or the catalog could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// A name or id of the request does not exist: correct it.
    #[error("{what} `{name}` does not exist; {}", next_step(what, suggestion.as_deref()))]
    NotFound {
        /// `schema`, `table`, `cube`, `segment` or `job`.
        what: &'static str,
        /// The name or id asked for.
        name: String,
        /// The nearest name that exists.
        suggestion: Option<String>,
    },
    /// The name is taken: choose another, or drop the object that has it.
    #[error("{what} `{name}` already exists; choose another name or drop it first")]
    AlreadyExists {
        /// `schema`, `table` or `cube`: the kind of the object that has the name.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// The name belongs to an object of another kind: use the other statement.
    #[error("`{name}` is a {is}, not a {wanted}; use the statement for a {is}")]
    WrongKind {
        /// The name.
        name: String,
        /// `table` or `cube`: the kind of the named object.
        is: &'static str,
        /// `table` or `cube`: the kind that the request expects.
        wanted: &'static str,
    },
    /// Another object would break or be lost: drop that first.
    #[error("{what} `{name}` is needed by {by}; {}", release(what, by))]
    InUse {
        /// `schema` or `table`.
        what: &'static str,
        /// Its name.
        name: String,
        /// The objects that need it, for example "cube `public.ssb`".
        by: String,
    },
    /// A view would read its own rows: leave it out of its query.
    #[error("view `{name}` would read itself; leave it out of its query")]
    ReadsItself {
        /// The view.
        name: String,
    },
    /// The object must always exist: drop its contents instead.
    #[error("{what} `{name}` always exists; drop what it holds instead")]
    Protected {
        /// `schema`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A segment that queries may read is immutable: begin a new one.
    #[error("segment `{segment}` is ready and cannot be changed any more; begin a new segment")]
    SegmentReady {
        /// The segment.
        segment: SegmentId,
    },
    /// The cube was altered after the change was planned: repeat the statement.
    #[error("cube `{name}` was altered meanwhile; run the statement again")]
    Altered {
        /// The cube.
        name: String,
    },
    /// No row may be in two segments: build a range that holds the other as a whole.
    #[error("segment `{segment}` shares rows with segment `{other}`, which has others besides")]
    SegmentsOverlap {
        /// The segment that was to be published.
        segment: SegmentId,
        /// The ready segment that it overlaps.
        other: SegmentId,
    },
    /// Roles would be members of each other: leave one of them out.
    #[error("role `{role}` cannot be a member of `{group}`, which is a member of it")]
    RoleCircle {
        /// The role that was to become a member.
        role: String,
        /// The role that it was to become a member of.
        group: String,
    },
    /// A newer version of Nyala has written the catalog, maybe while this process had it open: run that version.
    #[error(
        "the catalog has format {found}, but this version of nyala knows formats up to {known}: this node is older than its \
         catalog; upgrade it to the version that wrote it"
    )]
    Newer {
        /// Format of the stored catalog.
        found: u32,
        /// Newest format this version can read.
        known: u32,
    },
    /// The stored catalog cannot be read: restore it.
    #[error("{what}")]
    Corrupt {
        /// The file, its damage, and the next step.
        what: String,
    },
    /// The catalog's file cannot be opened or created: check its folder.
    #[error("cannot open catalog `{}`: {source}; {}", path.display(), opening_step(source))]
    Open {
        /// The catalog's file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The URL of the shared catalog cannot be read: correct it.
    #[error("`catalog.url` is no URL of a PostgreSQL database; write `postgres://USER@HOST:PORT/DATABASE`")]
    Url,
    /// The shared catalog cannot be used for the moment: try again.
    #[error("the catalog in PostgreSQL at `{place}` failed: {reason}; check that it runs, and try again")]
    Unreachable {
        /// Host, port and database.
        place: String,
        /// The cause.
        reason: String,
    },
    /// The connection broke while a change was committed: look whether it was made.
    #[error(
        "the connection to PostgreSQL broke while the catalog was changed; check whether the change was made"
    )]
    UnknownOutcome,
    /// A catalog is moved into an empty one only.
    #[error("the shared catalog has entries already; name a database that has none")]
    NotEmpty,
    /// A lease of this node has ended, and with it the job that held it: nothing more of the job is committed. Run the statement
    /// again.
    #[error("lease `{lease}` of this node ended{}; run the statement again", why_ended(*is_shared))]
    LeaseLost {
        /// Its name.
        lease: String,
        /// Whether several nodes share the catalog, so that another one may have taken the lease.
        is_shared: bool,
    },
    /// Another process has the name of this node, and started later: one of the two has a copy of the other's data folder.
    #[error(
        "another process runs as node `{node}`{}: one of the two data folders is a copy of the other; stop the process of the \
         copy, and delete the file `node` there before it starts again",
        at(address)
    )]
    NodeTaken {
        /// The node.
        node: NodeId,
        /// Address of the other process; empty if its record has none.
        address: String,
    },
    /// The process began to shut down during a change: check whether the change was made.
    #[error("the catalog change was interrupted by a shutdown; check whether it was made after the restart")]
    Interrupted,
    /// The database failed: the change was not made.
    #[error("{}", store_failure(.0))]
    Store(#[from] sqlx::Error),
}

impl CatalogError {
    /// Whether the change may have been made, or may still be made: then files that it names must stay.
    pub fn may_be_made(&self) -> bool {
        matches!(self, Self::UnknownOutcome | Self::Interrupted)
    }

    /// Whether the cause is a full disk: freeing space cures it, and nothing is lost.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::Store(error) => is_disk_full(error),
            Self::Open { source, .. } => source.kind() == io::ErrorKind::StorageFull,
            _ => false,
        }
    }
}

fn next_step(what: &str, suggestion: Option<&str>) -> String {
    match (suggestion, what) {
        (Some(name), _) => format!("did you mean `{name}`?"),
        (None, "schema") => "create it with CREATE SCHEMA".to_owned(),
        (None, "disk store") => "the table `system.disk_stores` lists what does".to_owned(),
        (None, "live table") => "the table `system.live_tables` lists what does".to_owned(),
        (None, "view") => "the table `information_schema.views` lists what does".to_owned(),
        (None, _) => format!("SHOW {}S lists what does", what.to_uppercase()),
    }
}

fn at(address: &str) -> String {
    if address.is_empty() { String::new() } else { format!(" at `{address}`") }
}

fn opening_step(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull => "free some space and try again",
        _ => "check that its folder exists and may be written",
    }
}

fn release(what: &str, by: &str) -> &'static str {
    match what {
        "schema" => "drop that first or add CASCADE",
        _ if by.starts_with("view") => "drop that first or add CASCADE",
        _ => "drop that first",
    }
}

/// A single node loses a lease only if its process did not run for longer than a lease is held.
fn why_ended(is_shared: bool) -> &'static str {
    match is_shared {
        true => ", and another node may have taken over",
        false => ": its process was halted or overloaded for about half a minute, and did not renew it",
    }
}

fn store_failure(error: &sqlx::Error) -> String {
    if is_disk_full(error) {
        return "the catalog cannot be written because its disk is full; free some space and try again"
            .to_owned();
    }
    match sqlite_code(error) {
        Some(SQLITE_BUSY) => {
            "another process keeps the catalog locked; stop that process or try again".to_owned()
        }
        _ => format!("the catalog's database failed: {error}; check its disk and try again"),
    }
}

const SQLITE_BUSY: u32 = 5;
const SQLITE_CORRUPT: u32 = 11;
const SQLITE_FULL: u32 = 13;
const SQLITE_NOTADB: u32 = 26;
/// Extended code: the shared-memory index beside the file could not grow, which only a full disk causes.
const SQLITE_IOERR_SHMSIZE: u32 = 4874;

/// Whether the database reports a full disk.
pub fn is_disk_full(error: &sqlx::Error) -> bool {
    sqlite_code(error) == Some(SQLITE_FULL) || extended_sqlite_code(error) == Some(SQLITE_IOERR_SHMSIZE)
}

/// Whether the database reports a damaged file, or a row has a value that this crate never stores.
pub fn is_damage(error: &sqlx::Error) -> bool {
    matches!(sqlite_code(error), Some(SQLITE_CORRUPT | SQLITE_NOTADB))
        || matches!(
            error,
            sqlx::Error::Decode(_)
                | sqlx::Error::ColumnDecode { .. }
                | sqlx::Error::ColumnNotFound(_)
                | sqlx::Error::RowNotFound
        )
}

/// Whether another process holds the database's lock.
pub fn is_busy(error: &sqlx::Error) -> bool {
    sqlite_code(error) == Some(SQLITE_BUSY)
}

/// The primary result code is the low byte of the extended one.
fn sqlite_code(error: &sqlx::Error) -> Option<u32> {
    extended_sqlite_code(error).map(|code| code & 0xff)
}

fn extended_sqlite_code(error: &sqlx::Error) -> Option<u32> {
    error.as_database_error()?.code()?.parse().ok()
}
