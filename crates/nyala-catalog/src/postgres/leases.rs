//! Leases, by the database's clock. A row stays when its lease ends, so that its token only grows.
//!
//! A token is no smaller than the time when the lease was taken, in microseconds since 1970: in a database that went back to an older
//! state, a lease that is taken anew has another token than those of the lost state.

use std::time::Duration;

use nyala_model::{LeaseEntry, NodeId};
use sqlx::Row;
use sqlx::postgres::{PgConnection, PgPool, PgRow};

use super::nodes::milliseconds;
use crate::error::CatalogError;
use crate::lease::LeaseToken;

pub async fn take(
    pool: &PgPool,
    name: &str,
    owner: &NodeId,
    hold: Duration,
) -> Result<Option<LeaseToken>, CatalogError> {
    let upsert = "INSERT INTO nyala.leases AS held (name, owner, token, until) \
                  VALUES ($1, $2, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, \
                          clock_timestamp() + $3 * interval '1 ms') \
                  ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until, \
                      token = greatest(held.token + 1, excluded.token) \
                  WHERE held.owner = excluded.owner OR held.until < clock_timestamp() RETURNING token";
    let query = sqlx::query(upsert).bind(name).bind(&owner.0).bind(milliseconds(hold));
    let row = query.fetch_optional(pool).await?;
    row.map(|row| token(&row)).transpose()
}

pub async fn renew(
    pool: &PgPool,
    name: &str,
    token: LeaseToken,
    hold: Duration,
) -> Result<bool, CatalogError> {
    let update = "UPDATE nyala.leases SET until = clock_timestamp() + $3 * interval '1 ms' \
                  WHERE name = $1 AND token = $2 AND until > clock_timestamp()";
    let query = sqlx::query(update).bind(name).bind(token.0.cast_signed()).bind(milliseconds(hold));
    Ok(query.execute(pool).await?.rows_affected() == 1)
}

pub async fn release(pool: &PgPool, name: &str, token: LeaseToken) -> Result<(), CatalogError> {
    let update = "UPDATE nyala.leases SET owner = '', until = clock_timestamp(), token = token + 1 \
                  WHERE name = $1 AND token = $2";
    sqlx::query(update).bind(name).bind(token.0.cast_signed()).execute(pool).await?;
    Ok(())
}

/// Ends the leases of all nodes.
pub async fn end_all(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let update = "UPDATE nyala.leases SET owner = '', until = clock_timestamp(), token = token + 1";
    sqlx::query(update).execute(connection).await.map(drop)
}

pub async fn list(pool: &PgPool) -> Result<Vec<LeaseEntry>, CatalogError> {
    let select = "SELECT name, owner, token, \
                  (extract(epoch FROM until - clock_timestamp()) * 1000)::bigint AS left_ms \
                  FROM nyala.leases WHERE until > clock_timestamp() ORDER BY name";
    let rows = sqlx::query(select).fetch_all(pool).await?;
    let entry = |row: &PgRow| {
        Ok(LeaseEntry {
            name: row.try_get("name")?,
            owner: NodeId(row.try_get("owner")?),
            token: token(row)?.0,
            left_ms: u64::try_from(row.try_get::<i64, _>("left_ms")?).unwrap_or(0),
        })
    };
    rows.iter().map(entry).collect()
}

fn token(row: &PgRow) -> Result<LeaseToken, CatalogError> {
    Ok(LeaseToken(row.try_get::<i64, _>("token")?.cast_unsigned()))
}
