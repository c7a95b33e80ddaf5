//! Adds cuboids to a ready segment after its cube was altered.
//!
//! ```text
//! lacks a cuboid that some other contains      other cuboid ──▶ Parquet
//! lacks a measure                              rows ──Partial──▶ new states ┐
//!                                              its cuboid ──▶ old states ───┴──▶ Parquet
//! lacks a dimension                            rows ──Partial──▶ all states ──▶ Parquet
//! ```
//!
//! Each cuboid is visible as soon as it is whole. The finished cuboids of a build that ends early stay, and the
//! next build makes the others.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::DataFusionError;
use nyala_catalog::{Catalog, CatalogError, Change};
use nyala_model::{CubeDefinition, CuboidEntry, DimensionSet, Lattice, SegmentEntry};
use nyala_sql::error::Result;
use nyala_storage::SegmentStore;
use uuid::Uuid;

use super::abandoned::STRAGGLERS;
use super::home::Home;
use super::leftovers::{named, names_of, newest};
use super::order::{cell_order, sort_order};
use super::run::{BuildContext, compiled};
use super::segment_home::SegmentHome;
use super::work::{Root, Work};
use crate::cube::rewrite::ReadyCube;

/// Makes the missing cuboids of `segment`. Cuboids from rows are kept only if the rows are `unchanged` after
/// the read.
pub async fn extend(
    cube: &ReadyCube,
    segment: &SegmentEntry,
    context: &BuildContext,
    unchanged: impl Future<Output = Result<()>>,
) -> Result<()> {
    let compiled = compiled(cube)?.restricted(segment.range)?;
    let Outstanding { mut parents, roots, rest } = Outstanding::of(&cube.entry.definition, segment);
    let order = if roots.is_empty() {
        cell_order(&compiled, segment, &context.state).await?
    } else {
        sort_order(&compiled, &context.state).await?
    };
    let ready = ReadySegment::new(&cube.entry.definition, segment, &context.home, !roots.is_empty());
    let work = Work::new((cube, &compiled), context, order, Home::Ready(&ready));
    if !roots.is_empty() {
        let (made, _) = work.build_roots(roots, Vec::new()).await?;
        unchanged.await?;
        ready.release().await?;
        parents.extend(made);
    }
    work.roll_up(&rest, parents).await
}

/// Whether a missing cuboid of `segment` can only come from rows.
pub fn needs_rows(definition: &CubeDefinition, segment: &SegmentEntry) -> bool {
    !Outstanding::of(definition, segment).roots.is_empty()
}

/// The outstanding work for a segment.
struct Outstanding {
    /// Cuboids with all measures.
    parents: Vec<CuboidEntry>,
    /// Sets that need rows.
    roots: Vec<Root>,
    /// All others, largest first.
    rest: Vec<DimensionSet>,
}

impl Outstanding {
    fn of(definition: &CubeDefinition, segment: &SegmentEntry) -> Self {
        let outstanding = Lattice::new(definition.outstanding(segment));
        let all = |cuboid: &&CuboidEntry| definition.has_all_measures(cuboid);
        let parents: Vec<CuboidEntry> = segment.cuboids.iter().filter(all).cloned().collect();
        let has_parent = |set: &DimensionSet| parents.iter().any(|p| p.dimensions.is_superset(*set));
        let without = outstanding.sets().iter().filter(|set| !has_parent(set)).copied();
        let roots: Vec<DimensionSet> = Lattice::new(without).roots().collect();
        let rest = outstanding.sets().iter().filter(|set| !roots.contains(set)).copied().collect();
        let older = |set: DimensionSet| {
            let useful = |cuboid: &&CuboidEntry| {
                let measures = definition.measures.iter();
                cuboid.dimensions.is_superset(set) && measures.clone().any(|m| m.number < cuboid.measures)
            };
            // The cuboid with the most measures leaves the fewest to compute from rows; of several, the one with the fewest cells is read.
            let best = segment.cuboids.iter().filter(useful);
            best.min_by_key(|cuboid| (std::cmp::Reverse(cuboid.measures), cuboid.rows)).cloned()
        };
        let roots = roots.into_iter().map(|set| Root { set, states: older(set) }).collect();
        Self { parents, roots, rest }
    }
}

/// A ready segment that is given further cuboids.
pub struct ReadySegment {
    home: SegmentHome,
    before: SegmentEntry,
    revision: u32,
    mark: String,
    /// Cuboids from rows that may have changed while they were read. None when nothing is to be held back.
    held: Mutex<Option<Vec<CuboidEntry>>>,
    /// Held while a cuboid is made visible, because only afterwards is it known which files are needed.
    publishing: Arc<tokio::sync::Mutex<()>>,
    /// Whether the catalog may yet name files that it does not name now: a commit ended without an answer.
    unknown: Arc<AtomicBool>,
}

impl ReadySegment {
    fn new(definition: &CubeDefinition, segment: &SegmentEntry, home: &SegmentHome, hold: bool) -> Self {
        Self {
            home: home.clone(),
            before: segment.clone(),
            revision: definition.revision,
            mark: format!("-{}", Uuid::now_v7().simple()),
            held: Mutex::new(hold.then(Vec::new)),
            publishing: Arc::default(),
            unknown: Arc::default(),
        }
    }

    /// Folder of its files within the data store, with a trailing slash.
    pub fn folder(&self) -> &str {
        &self.before.location
    }

    /// Part of the names of the new files, and of no other file of the folder.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// Makes a cuboid visible, or holds it back.
    pub async fn add(&self, cuboid: &CuboidEntry) -> Result<()> {
        if let Some(held) = self.held.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            held.push(cuboid.clone());
            return Ok(());
        }
        self.publish(cuboid.clone()).await
    }

    /// Makes the held cuboids visible, and holds none back any more.
    async fn release(&self) -> Result<()> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).take();
        for cuboid in held.into_iter().flatten() {
            self.publish(cuboid).await?;
        }
        Ok(())
    }

    /// Makes a cuboid visible. Files of the replaced cuboid stay until no query can be reading them. The task
    /// goes on if the build is stopped meanwhile, so that they are deleted.
    async fn publish(&self, cuboid: CuboidEntry) -> Result<()> {
        let replaced: Vec<CuboidEntry> =
            self.before.cuboids.iter().filter(|old| old.dimensions == cuboid.dimensions).cloned().collect();
        let (segment, revision) = (self.before.id, self.revision);
        let (home, folder) = (self.home.clone(), self.folder().to_owned());
        let (held, unknown) = (Arc::clone(&self.publishing).lock_owned().await, Arc::clone(&self.unknown));
        let publishing = async move {
            let _held = held;
            let sealed = home.store.seal(&folder, names_of(std::slice::from_ref(&cuboid))).await;
            sealed.map_err(DataFusionError::from)?;
            let committed = home.commit(Change::ExtendSegment { segment, revision, cuboid }).await;
            if committed.as_ref().is_err_and(CatalogError::may_be_made) {
                unknown.store(true, Ordering::Relaxed);
            }
            let after = committed?.snapshot;
            home.retire_files(&folder, &replaced, after.version);
            Ok(())
        };
        self.home.background.complete(publishing).await
    }
}

impl Drop for ReadySegment {
    /// Deletes the files of failed attempts. Files that the catalog names stay, and so do files that it may still name. Files that stay
    /// without need are found by the periodic search for leftovers, or at the next start.
    fn drop(&mut self) {
        let (catalog, store) = (Arc::clone(&self.home.catalog), self.home.store.clone());
        let (folder, mark) = (self.folder().to_owned(), std::mem::take(&mut self.mark));
        let (publishing, unknown) = (Arc::clone(&self.publishing), Arc::clone(&self.unknown));
        self.home.background.finish(async move {
            for _ in 0..2 {
                tokio::time::sleep(STRAGGLERS).await;
                let _over = publishing.lock().await;
                if !unknown.load(Ordering::Relaxed) {
                    remove_unlisted(&catalog, &store, &folder, &mark).await;
                }
            }
        });
    }
}

async fn remove_unlisted(catalog: &Catalog, store: &SegmentStore, folder: &str, mark: &str) {
    let Some(snapshot) = newest(catalog, folder).await else { return };
    match store.names(folder).await {
        Ok(mut names) => {
            let listed = named(&snapshot, folder);
            names.retain(|name| name.contains(mark) && !listed.contains(name.as_str()));
            store.remove_files(folder, &names).await;
        }
        Err(error) => {
            tracing::warn!(folder, %error, "cannot find files of a build that failed; the next start does")
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use nyala_model::CuboidFile;

    use super::super::segment::tests::{PATIENCE, Subject, facts};
    use super::*;

    #[tokio::test]
    async fn files_that_the_catalog_names_or_may_yet_name_stay() {
        for (is_made, is_unknown) in [(false, false), (true, false), (false, true)] {
            let subject = Subject::new().await;
            subject.built().await.publish(&subject.cube, facts()).await.unwrap();
            let cube = Arc::clone(&subject.catalog.snapshot().cubes[&subject.cube]);
            let segment = &cube.segments[0];
            let ready = ReadySegment::new(&cube.definition, segment, &subject.home(), false);
            let name = format!("1-0{}.parquet", ready.mark());
            let path = subject.folder.path().join(ready.folder()).join(&name);
            std::fs::write(&path, "cells").unwrap();
            let file = CuboidFile { name, ..segment.cuboids[0].files[0].clone() };
            let dimensions = DimensionSet::from_bits(1);
            let cuboid = CuboidEntry { dimensions, files: vec![file], ..segment.cuboids[0].clone() };
            if is_made {
                // The answer to the commit was lost: this process does not know that the catalog has the cuboid.
                let there =
                    Catalog::open_sqlite(&subject.folder.path().join("catalog.sqlite")).await.unwrap();
                let extend = Change::ExtendSegment { segment: segment.id, revision: 0, cuboid };
                there.commit(extend).await.unwrap();
            }
            ready.unknown.store(is_unknown, Ordering::Relaxed);
            drop(ready);
            subject.background.finished(PATIENCE).await;
            assert_eq!(path.exists(), is_made || is_unknown, "{is_made} {is_unknown}");
        }
    }
}
