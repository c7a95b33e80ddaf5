//! Lists the files of tables, so that no cube answers from files that have changed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use nyala_cube::scan::TableFiles;
use nyala_model::{QualifiedName, SegmentState};
use nyala_sql::error::Result;
use tokio::task::JoinSet;

use super::Snapshots;
use crate::session::SnapshotContext;

/// How long an old listing stays valid while new ones fail: a store that does not answer for a moment
/// should not send every dashboard to the tables, which lie in the same store.
const GRACE: Duration = Duration::from_secs(60);
/// How long the start waits for the first listing.
const FIRST_CHECK: Duration = Duration::from_secs(10);
/// Most attempts to list files while other listings overtake them.
const LISTINGS: usize = 3;

/// When each table was listed last.
#[derive(Debug, Default)]
pub struct FileChecks {
    listed: Mutex<HashMap<QualifiedName, Instant>>,
    /// When the listing in use began.
    begun: Mutex<HashMap<QualifiedName, Instant>>,
    /// Tables that a round is listing. The next round leaves them out.
    listing: Mutex<BTreeSet<QualifiedName>>,
}

/// A round of listings, until it is dropped.
struct Round<'a> {
    checks: &'a FileChecks,
    tables: Vec<QualifiedName>,
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        let mut listing = self.checks.listing.lock().unwrap_or_else(PoisonError::into_inner);
        self.tables.iter().for_each(|table| drop(listing.take(table)));
    }
}

impl FileChecks {
    /// Takes the tables that no other round is listing, and removes the rest from `tables`.
    fn take(&self, tables: &mut BTreeMap<QualifiedName, bool>) -> Round<'_> {
        let mut listing = self.listing.lock().unwrap_or_else(PoisonError::into_inner);
        tables.retain(|table, _| listing.insert(table.clone()));
        Round { checks: self, tables: tables.keys().cloned().collect() }
    }

    fn succeeded(&self, table: &QualifiedName) {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner).insert(table.clone(), Instant::now());
    }

    /// Whether no listing in use began later: concurrent listings do not end in the order they began. A
    /// listing that has `found` files is in use from now on.
    fn is_newest(&self, table: &QualifiedName, begun: Instant, found: bool) -> bool {
        let mut believed = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        if believed.get(table).is_some_and(|newer| *newer > begun) {
            return false;
        }
        if found {
            believed.insert(table.clone(), begun);
        }
        true
    }

    fn is_too_old(&self, table: &QualifiedName) -> bool {
        let listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        listed.get(table).is_none_or(|at| at.elapsed() > GRACE)
    }
}

/// Checks all tables once, and waits for a while until that is done.
pub async fn first(checks: &FileChecks, snapshots: &Snapshots) {
    if tokio::time::timeout(FIRST_CHECK, checks.check(snapshots, None)).await.is_err() {
        tracing::warn!("the files of tables are not listed yet; until then no cube is used");
    }
}

/// Begins a round of checks at every interval.
pub async fn rounds(checks: Arc<FileChecks>, snapshots: Weak<Snapshots>, every: Duration) {
    let mut rounds = JoinSet::new();
    loop {
        tokio::time::sleep(every).await;
        let Some(snapshots) = snapshots.upgrade() else { return };
        while rounds.try_join_next().is_some() {}
        // A table that does not answer must not keep the next round from the others.
        let (checks, listed) = (Arc::clone(&checks), Arc::clone(&snapshots));
        rounds.spawn(async move {
            if let Err(error) = checks.round(&listed).await {
                tracing::warn!(%error, "cannot list the files of a table that a cube reads");
            }
        });
        // The clean-up after a failed build changes the catalog after its statement has ended.
        if let Err(error) = snapshots.refresh().await {
            tracing::warn!(%error, "cannot open the newest snapshot of the catalog");
        }
    }
}

/// The tables to list, and whether their columns matter too.
fn tables_to_list(
    context: &SnapshotContext,
    only: Option<&[QualifiedName]>,
) -> BTreeMap<QualifiedName, bool> {
    let mut tables = BTreeMap::new();
    for cube in context.snapshot().cubes.values() {
        let built = cube.segments.iter().any(|segment| segment.state == SegmentState::Ready);
        let is_live = |table: &QualifiedName| {
            context.snapshot().tables.get(table).is_some_and(|table| table.live().is_some())
        };
        let sources = cube.definition.sources.iter().enumerate();
        for (position, table) in sources.filter(|(_, table)| !is_live(table)) {
            let wanted = only.map_or(built, |only| only.contains(table));
            if wanted {
                *tables.entry(table.clone()).or_default() |=
                    position == 0 && cube.definition.partition.is_some();
            }
        }
    }
    tables
}

impl FileChecks {
    /// Lists the files of `only` these tables, or of all that a built cube reads. Queries that begin
    /// afterwards are judged by these listings. Fails if a table cannot be listed.
    pub async fn check(&self, snapshots: &Snapshots, only: Option<&[QualifiedName]>) -> Result<()> {
        // A listing without statistics takes less time, and may have replaced one with them.
        for _ in 1..LISTINGS {
            if self.list_files(snapshots, only).await? {
                return Ok(());
            }
        }
        self.list_files(snapshots, only).await.map(|_| ())
    }

    /// Lists files. Returns whether all that was asked for is known.
    async fn list_files(&self, snapshots: &Snapshots, only: Option<&[QualifiedName]>) -> Result<bool> {
        let context = snapshots.current();
        let tables = tables_to_list(&context, only);
        self.list_tables(snapshots, &context, tables).await
    }

    /// Lists tables, and uses each listing at once: the store of another table may not answer.
    async fn list_tables(
        &self,
        snapshots: &Snapshots,
        context: &Arc<SnapshotContext>,
        tables: BTreeMap<QualifiedName, bool>,
    ) -> Result<bool> {
        let begun = Instant::now();
        let together = tables.len().max(1);
        let listings = tables
            .into_iter()
            .map(|(table, statistics)| async move { (context.list(&table, statistics).await, table) });
        let mut listings = listings.collect::<FuturesUnordered<_>>().ready_chunks(together);
        let (mut known, mut failure) = (true, None);
        while let Some(listed) = listings.next().await {
            let mut found: Vec<(QualifiedName, Option<TableFiles>)> = Vec::new();
            for (listing, table) in listed {
                match listing {
                    Ok(files) => {
                        self.succeeded(&table);
                        found.push((table, Some(files)));
                    }
                    Err(error) => {
                        if self.is_too_old(&table) {
                            found.push((table, None));
                        }
                        failure = failure.or(Some(error));
                    }
                }
            }
            known &= self.take_listings(snapshots, found, begun).await;
        }
        failure.map_or(Ok(known), Err)
    }

    /// Lists the tables that no earlier round is still listing.
    async fn round(&self, snapshots: &Snapshots) -> Result<()> {
        let context = snapshots.current();
        let mut tables = tables_to_list(&context, None);
        let _round = self.take(&mut tables);
        self.list_tables(snapshots, &context, tables).await.map(|_| ())
    }

    /// Takes listings into use. Returns false if statistics are still missing, because a newer listing of other files came without them.
    async fn take_listings(
        &self,
        snapshots: &Snapshots,
        found: Vec<(QualifiedName, Option<TableFiles>)>,
        begun: Instant,
    ) -> bool {
        let opening = snapshots.opening().await;
        let context = snapshots.current();
        let mut listings = context.listings().as_ref().clone();
        let (mut changed, mut all) = (false, true);
        for (table, files) in found {
            let before = listings.get(&table);
            let tells_more = files.as_ref().is_some_and(TableFiles::has_statistics)
                && !before.is_some_and(|before| before.has_statistics());
            if !self.is_newest(&table, begun, files.is_some()) {
                let is_same =
                    before.is_some_and(|before| files.as_ref().is_some_and(|files| before.same_as(files)));
                all &= is_same || !tells_more;
                if !(tells_more && is_same) {
                    continue;
                }
            }
            match files {
                Some(files) => {
                    let known = before.is_some_and(|before| {
                        before.same_as(&files) && (before.has_statistics() || !files.has_statistics())
                    });
                    if !known {
                        listings.insert(table, Arc::new(files));
                        changed = true;
                    }
                }
                None => changed |= listings.remove(&table).is_some(),
            }
        }
        if changed {
            opening.publish(context.with_listings(listings));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_leaves_out_what_another_one_is_at() {
        let checks = FileChecks::default();
        let [one, other] = ["one", "other"].map(|name| (QualifiedName::new("public", name), false));
        let mut slow = BTreeMap::from([one.clone()]);
        let first = checks.take(&mut slow);
        let mut next = BTreeMap::from([one.clone(), other.clone()]);
        let second = checks.take(&mut next);
        assert_eq!(next, BTreeMap::from([other]));
        drop(first);
        let mut last = BTreeMap::from([one]);
        let third = checks.take(&mut last);
        assert_eq!(last.len(), 1);
        drop((second, third));
        assert_eq!(checks.listing.lock().unwrap_or_else(PoisonError::into_inner).len(), 0);
    }

    #[test]
    fn a_listing_that_took_long_does_not_take_the_place_of_a_newer_one() {
        let (checks, first) = (FileChecks::default(), Instant::now());
        let second = first + Duration::from_nanos(1);
        let (one, other) = (QualifiedName::new("public", "one"), QualifiedName::new("public", "other"));
        assert!(checks.is_newest(&one, second, true));
        assert!(!checks.is_newest(&one, first, true));
        assert!(checks.is_newest(&one, second, true));
        assert!(checks.is_newest(&other, second, false));
        assert!(checks.is_newest(&other, first, true), "the one that began later has found nothing");
    }
}
