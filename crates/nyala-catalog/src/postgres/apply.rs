//! Writing a change: one transaction, which waits for others at the row of `nyala.catalog`.

use std::borrow::Cow;

use nyala_model::{CatalogSnapshot, ChangeId};
use sqlx::postgres::{PgConnection, PgPool};
use sqlx::{Connection, Row};
use uuid::Uuid;

use super::entries::{Write, to_json, writes};
use super::store::CHANNEL;
use super::{leases, load};
use crate::change::Change;
use crate::edit::Edit;
use crate::error::CatalogError;
use crate::lease::Fence;
use crate::rules;
use crate::store::Applied;

/// Number of changes that are kept, so that other nodes can make them on their own snapshots.
const KEPT_CHANGES: u64 = 1000;
/// Attempts to find out whether a change was made, after the connection broke while it was committed.
const OUTCOME_ATTEMPTS: u32 = 3;

pub async fn apply(
    pool: &PgPool,
    base: &CatalogSnapshot,
    change: &Change,
    fences: &[Fence],
) -> Result<Applied, CatalogError> {
    let mut connection = pool.acquire().await?;
    let mut transaction = connection.begin().await?;
    lock(&mut transaction).await?;
    for fence in fences {
        check_fence(&mut transaction, fence).await?;
    }
    let newest = load::newest(&mut transaction).await?;
    let base = match newest.is_of(base) {
        true => Cow::Borrowed(base),
        false => {
            let followed = load::follow(&mut transaction, base, newest).await?;
            if followed.is_rewound {
                end_leases(&mut transaction, fences).await?;
            }
            Cow::Owned(followed.snapshot)
        }
    };
    let mut decision = rules::decide(&base, change)?;
    let changed = !decision.edits.is_empty();
    if changed {
        decision.next.change = new_change();
        write(&mut transaction, &decision.edits, &decision.next).await?;
    }
    let applied = Applied { snapshot: decision.next, segment: decision.segment, changed };
    match transaction.commit().await {
        Ok(()) => Ok(applied),
        // A failed commit does not tell whether the change was made.
        Err(error) if changed => {
            connection.close_on_drop();
            drop(connection);
            match was_made(pool, &applied.snapshot).await {
                Some(true) => Ok(applied),
                Some(false) => Err(error.into()),
                None => Err(CatalogError::UnknownOutcome),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// An id that no other change has, in any history of any catalog.
fn new_change() -> ChangeId {
    ChangeId(Uuid::new_v4().simple().to_string().into())
}

/// Keeps other writers out until the transaction ends.
async fn lock(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT 1 FROM nyala.catalog FOR UPDATE").fetch_one(connection).await.map(drop)
}

/// Fails if the lease has ended, whether another node has taken it or not. Until the transaction ends, no node can take it.
async fn check_fence(connection: &mut PgConnection, fence: &Fence) -> Result<(), CatalogError> {
    let select =
        "SELECT 1 FROM nyala.leases WHERE name = $1 AND token = $2 AND until > clock_timestamp() FOR SHARE";
    let held = sqlx::query(select)
        .bind(&fence.lease)
        .bind(fence.token.0.cast_signed())
        .fetch_optional(connection)
        .await?;
    match held {
        Some(_) => Ok(()),
        None => Err(CatalogError::LeaseLost { lease: fence.lease.clone(), is_shared: true }),
    }
}

/// Ends all leases after the database went back to an older state. A change under a lease is refused instead,
/// because the segment that it continues may be among the lost changes.
async fn end_leases(connection: &mut PgConnection, fences: &[Fence]) -> Result<(), CatalogError> {
    match fences.first() {
        Some(fence) => Err(CatalogError::LeaseLost { lease: fence.lease.clone(), is_shared: true }),
        None => Ok(leases::end_all(connection).await?),
    }
}

async fn write(
    connection: &mut PgConnection,
    edits: &[Edit],
    next: &CatalogSnapshot,
) -> Result<(), CatalogError> {
    for edit in edits {
        for row in writes(edit, next)? {
            write_row(connection, row).await?;
        }
    }
    let version = next.version.0.cast_signed();
    let insert = "INSERT INTO nyala.changes (version, attempt, edits) VALUES ($1, $2, $3)";
    let query = sqlx::query(insert).bind(version).bind(&*next.change.0).bind(to_json(&edits)?);
    query.execute(&mut *connection).await?;
    let oldest = next.version.0.saturating_sub(KEPT_CHANGES).cast_signed();
    sqlx::query("DELETE FROM nyala.changes WHERE version <= $1")
        .bind(oldest)
        .execute(&mut *connection)
        .await?;
    sqlx::query("UPDATE nyala.catalog SET version = $1").bind(version).execute(&mut *connection).await?;
    // PostgreSQL sends the notification when the transaction commits.
    sqlx::query("SELECT pg_notify($1, $2)")
        .bind(CHANNEL)
        .bind(version.to_string())
        .execute(connection)
        .await?;
    Ok(())
}

async fn write_row(connection: &mut PgConnection, row: Write) -> Result<(), sqlx::Error> {
    let query = match row {
        Write::Put { kind, key, body } => {
            let upsert = "INSERT INTO nyala.entries (kind, key, body) VALUES ($1, $2, $3) \
                          ON CONFLICT (kind, key) DO UPDATE SET body = excluded.body";
            sqlx::query(upsert).bind(kind.word()).bind(key).bind(body)
        }
        Write::Move { kind, before, key, body } => {
            let update = "UPDATE nyala.entries SET key = $3, body = $4 WHERE kind = $1 AND key = $2";
            sqlx::query(update).bind(kind.word()).bind(before).bind(key).bind(body)
        }
        Write::Remove { kind, key } => {
            let delete = "DELETE FROM nyala.entries WHERE kind = $1 AND key = $2";
            sqlx::query(delete).bind(kind.word()).bind(key)
        }
        Write::RemoveBelow { kind, prefix } => {
            let delete = "DELETE FROM nyala.entries WHERE kind = $1 AND starts_with(key, $2)";
            let query = sqlx::query(delete).bind(kind.word()).bind(prefix);
            // It is no error if there is no such row.
            return query.execute(connection).await.map(|_| ());
        }
    };
    match query.execute(connection).await?.rows_affected() {
        1 => Ok(()),
        _ => Err(sqlx::Error::RowNotFound),
    }
}

/// Whether the change that led to this snapshot is stored, after the connection broke; none if that cannot be found out now.
pub async fn was_made(pool: &PgPool, made: &CatalogSnapshot) -> Option<bool> {
    for _ in 0..OUTCOME_ATTEMPTS {
        match is_stored(pool, made).await {
            Ok(is_stored) => return Some(is_stored),
            Err(error) => {
                tracing::warn!(%error, "it is not known yet whether a change of the catalog was made")
            }
        }
    }
    None
}

/// Waits until the transaction that made the change has ended, and then looks for the change: the server's process of the broken
/// connection may still wait for its disk or for a standby, and no other connection sees the change before.
async fn is_stored(pool: &PgPool, made: &CatalogSnapshot) -> Result<bool, sqlx::Error> {
    let mut connection = pool.acquire().await?;
    let mut transaction = connection.begin().await?;
    lock(&mut transaction).await?;
    // The row of a change is kept until many later changes were made.
    let select = "SELECT 1 FROM nyala.changes WHERE version = $1 AND attempt = $2";
    let query = sqlx::query(select).bind(made.version.0.cast_signed()).bind(&*made.change.0);
    let found = query.fetch_optional(&mut *transaction).await?;
    Ok(found.is_some())
}

/// Writes a whole catalog into an empty one.
pub async fn import(pool: &PgPool, snapshot: &CatalogSnapshot) -> Result<(), CatalogError> {
    let mut connection = pool.acquire().await?;
    let mut transaction = connection.begin().await?;
    lock(&mut transaction).await?;
    // A new catalog has one entry: the default schema.
    let rows = sqlx::query("SELECT count(*) FROM nyala.entries").fetch_one(&mut *transaction).await?;
    if rows.try_get::<i64, _>(0)? > 1 {
        return Err(CatalogError::NotEmpty);
    }
    sqlx::query("DELETE FROM nyala.changes").execute(&mut *transaction).await?;
    let imported = CatalogSnapshot { change: new_change(), ..snapshot.clone() };
    write(&mut transaction, &Edit::all_of(snapshot), &imported).await?;
    Ok(transaction.commit().await?)
}
