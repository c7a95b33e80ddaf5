//! Reading a snapshot: all entries, or the changes since one that is known.
//!
//! A database may go back to an older state: a standby takes over that lacks the last changes, or a backup is restored. The
//! versions that were lost are then given again, to other changes:
//!
//! ```text
//! a node knows        100 ── 101 ── 102
//! the database has     └─── 101' ── 102' ── 103'
//! ```
//!
//! So a version tells nothing without its change. A snapshot is brought up by the changes since only if the database has its
//! own change, too; otherwise everything is read. All leases end then: ids are versions, and a job that began a segment in a lost change
//! would add to another one that has its id now.

use nyala_model::{CatalogSnapshot, ChangeId, SnapshotVersion};
use sqlx::postgres::{PgConnection, PgPool};
use sqlx::{Connection, Row};

use super::entries::{Assembly, from_json};
use super::{leases, schema};
use crate::edit::Edit;
use crate::error::CatalogError;

/// Most changes that are read one by one; more would cost more than reading everything.
const MAX_CHANGES: u64 = 500;

/// The newest change that is stored, and its version.
#[derive(Debug)]
pub struct Newest {
    version: SnapshotVersion,
    change: ChangeId,
}

impl Newest {
    /// Whether the snapshot has all stored changes, and no other.
    pub fn is_of(&self, snapshot: &CatalogSnapshot) -> bool {
        self.version == snapshot.version && self.change == snapshot.change
    }
}

/// Reads which change is the newest. For the answer to stay true, the caller holds the lock of writers, taken
/// by a statement before this one: a statement that waits for a lock sees no rows that were written meanwhile.
///
/// # Errors
/// [`CatalogError::Newer`], also on a node that could open the catalog: a node of a newer version has migrated it since.
pub async fn newest(connection: &mut PgConnection) -> Result<Newest, CatalogError> {
    let select = "SELECT format, version, \
                  (SELECT attempt FROM nyala.changes WHERE changes.version = catalog.version) FROM nyala.catalog";
    let row = sqlx::query(select).fetch_one(connection).await?;
    schema::check(row.try_get::<i32, _>(0)?.cast_unsigned())?;
    let version = SnapshotVersion(row.try_get::<i64, _>(1)?.cast_unsigned());
    Ok(Newest { version, change: change_id(row.try_get(2)?) })
}

/// A snapshot that was brought up to the newest change.
#[derive(Debug)]
pub struct Followed {
    pub snapshot: CatalogSnapshot,
    /// Whether the database has lost changes that were known.
    pub is_rewound: bool,
}

/// The id of a change; empty in a new catalog, which has no change yet.
fn change_id(attempt: Option<&str>) -> ChangeId {
    ChangeId(attempt.unwrap_or_default().into())
}

/// The catalog as it is now, in one transaction that sees one version.
pub async fn load(pool: &PgPool, known: Option<&CatalogSnapshot>) -> Result<CatalogSnapshot, CatalogError> {
    let mut connection = pool.acquire().await?;
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    let mut transaction = connection.begin_with(begin).await?;
    let newest = newest(&mut transaction).await?;
    let followed = match known {
        Some(known) => follow(&mut transaction, known, newest).await?,
        None => Followed { snapshot: snapshot(&mut transaction, newest).await?, is_rewound: false },
    };
    transaction.commit().await?;
    if followed.is_rewound {
        leases::end_all(&mut connection).await?;
    }
    Ok(followed.snapshot)
}

/// Brings `known` up to the newest change. The caller holds a transaction.
pub async fn follow(
    connection: &mut PgConnection,
    known: &CatalogSnapshot,
    newest: Newest,
) -> Result<Followed, CatalogError> {
    if newest.is_of(known) {
        return Ok(Followed { snapshot: known.clone(), is_rewound: false });
    }
    let later = match newest.version.0.checked_sub(known.version.0) {
        Some(behind) if behind <= MAX_CHANGES => later(connection, known, &newest).await?,
        Some(_) => Later::TooMany,
        None => Later::Rewound,
    };
    let is_rewound = matches!(later, Later::Rewound);
    if is_rewound {
        warn(known, &newest);
    }
    let snapshot = match later {
        Later::Made(made) => CatalogSnapshot { version: newest.version, change: newest.change, ..made },
        Later::TooMany | Later::Rewound => snapshot(connection, newest).await?,
    };
    Ok(Followed { snapshot, is_rewound })
}

/// The changes since a known snapshot.
enum Later {
    /// The entries of the known snapshot, with all changes made.
    Made(CatalogSnapshot),
    /// The changes are too many to be read one by one, or some are deleted already.
    TooMany,
    /// The database does not have the change of the known snapshot.
    Rewound,
}

async fn later(
    connection: &mut PgConnection,
    known: &CatalogSnapshot,
    newest: &Newest,
) -> Result<Later, CatalogError> {
    let select = "SELECT version, attempt, CASE WHEN version > $1 THEN edits END FROM nyala.changes \
                  WHERE version >= $1 AND version <= $2 ORDER BY version";
    let rows = sqlx::query(select)
        .bind(known.version.0.cast_signed())
        .bind(newest.version.0.cast_signed())
        .fetch_all(connection)
        .await?;
    let (mut change, mut later) = (ChangeId::default(), Vec::new());
    for row in &rows {
        match row.try_get::<i64, _>(0)? == known.version.0.cast_signed() {
            true => change = change_id(row.try_get(1)?),
            false => later.push(row),
        }
    }
    if change != known.change {
        return Ok(Later::Rewound);
    }
    if later.len() as u64 != newest.version.0 - known.version.0 {
        return Ok(Later::TooMany);
    }
    let mut next = known.clone();
    for row in later {
        let edits: Vec<Edit> = from_json(row.try_get(2)?)?;
        edits.iter().for_each(|edit| edit.apply_to(&mut next));
    }
    Ok(Later::Made(next))
}

/// Logs that the database lacks changes which this node knows.
fn warn(known: &CatalogSnapshot, newest: &Newest) {
    let (known, found) = (known.version, newest.version);
    tracing::warn!(%known, %found, "the database of the catalog went back to an older state, which counts from now on");
}

/// Reads all entries. The caller holds a transaction.
async fn snapshot(connection: &mut PgConnection, newest: Newest) -> Result<CatalogSnapshot, CatalogError> {
    let select = "SELECT kind, key, body FROM nyala.entries ORDER BY place";
    let mut assembly = Assembly::default();
    for row in sqlx::query(select).fetch_all(connection).await? {
        assembly.add(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)?;
    }
    Ok(CatalogSnapshot { version: newest.version, change: newest.change, ..assembly.finish() })
}
