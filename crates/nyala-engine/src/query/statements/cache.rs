//! `WARM CACHE` and `DROP CACHE`: blocks of remote files on local disk.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::datatypes::{Schema, SchemaRef};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use nyala_cube::scan::CachedFile;
use nyala_model::{QualifiedName, SegmentState};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::{CacheScope, CacheStatement};
use nyala_storage::object::cache::{BlockCache, FileId, Tally};

use crate::query::answer::Answer;
use crate::query::authorize::Caller;
use crate::query::columns::{number, numbers};
use crate::query::command::Command;
use crate::query::execution::Execution;

/// Files that are read at the same time.
const FILES_AT_ONCE: usize = 4;

/// `WARM CACHE FOR …`, `DROP CACHE [FOR …]`.
pub struct Cache<'s>(pub &'s CacheStatement);

impl Command for Cache<'_> {
    fn schema(&self) -> Option<SchemaRef> {
        Some(schema(self.0))
    }

    fn authorize(&self, caller: &Caller<'_>) -> Result<()> {
        match self.0 {
            CacheStatement::Warm(CacheScope::Table(table)) => caller.may_select(&[caller.name(table)?]),
            CacheStatement::Warm(CacheScope::Cube(cube)) => caller.may_build(caller.name(cube)?),
            CacheStatement::Drop(_) => caller.require_superuser("dropping cached blocks"),
        }
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        async move {
            let counts = match self.0 {
                CacheStatement::Warm(scope) => warm(scope, &execution).await?,
                CacheStatement::Drop(scope) => drop_blocks(scope.as_ref(), &execution).await?,
            };
            let columns = counts.into_iter().map(|count| numbers([Some(count)].into_iter())).collect();
            execution.columns(schema(self.0), columns)
        }
        .boxed()
    }
}

fn schema(statement: &CacheStatement) -> SchemaRef {
    let names: &[&str] = match statement {
        CacheStatement::Warm(_) => &["files", "bytes", "fetched_bytes", "cached_bytes"],
        CacheStatement::Drop(_) => &["blocks"],
    };
    Arc::new(Schema::new(names.iter().map(|name| number(name)).collect::<Vec<_>>()))
}

fn cache<'a>(execution: &'a Execution<'_>) -> Result<&'a Arc<BlockCache>> {
    let off = || {
        QueryError::new(ErrorKind::Unsupported, "remote files are not cached")
            .hint("set `storage.cache.enabled = true` in the configuration")
    };
    execution.engine().snapshots.stores().cache().ok_or_else(off)
}

/// Reads all files, and counts them, their bytes, the bytes that the cache did not have, and those that it has now.
async fn warm(scope: &CacheScope, execution: &Execution<'_>) -> Result<Vec<u64>> {
    let cache = cache(execution)?;
    let tally = Arc::<Tally>::default();
    let files = files_of(scope, execution).await?;
    let count = files.len() as u64;
    let bytes = files.iter().map(CachedFile::bytes).sum();
    let reads = files.iter().map(|file| file.read_all(cache, &tally).boxed()).collect::<Vec<_>>();
    stream::iter(reads).buffer_unordered(FILES_AT_ONCE).try_collect::<()>().await?;
    let cached = files.iter().map(CachedFile::cached_bytes).sum();
    Ok(vec![count, bytes, tally.store_bytes.load(Ordering::Relaxed), cached])
}

/// Deletes blocks, and counts those on disk.
async fn drop_blocks(scope: Option<&CacheScope>, execution: &Execution<'_>) -> Result<Vec<u64>> {
    let cache = Arc::clone(cache(execution)?);
    let files = match scope {
        Some(scope) => Some(files_of(scope, execution).await?),
        None => None,
    };
    let ids = files.map(|files| {
        let ids = files.iter().filter_map(|file| file.id(cache.block_bytes()));
        ids.collect::<HashSet<FileId>>()
    });
    let is_meant = move |file| ids.as_ref().is_none_or(|ids| ids.contains(&file));
    let dropped = tokio::task::spawn_blocking(move || cache.drop_blocks(is_meant)).await;
    Ok(vec![dropped.map_err(QueryError::internal)?])
}

/// The remote files of a table or cube.
async fn files_of(scope: &CacheScope, execution: &Execution<'_>) -> Result<Vec<CachedFile>> {
    match scope {
        CacheScope::Table(name) => {
            let context = execution.engine().snapshots.current();
            context.external(&execution.name(name)?)?.remote_files().await
        }
        CacheScope::Cube(name) => cuboid_files(&execution.name(name)?, execution),
    }
}

fn cuboid_files(name: &QualifiedName, execution: &Execution<'_>) -> Result<Vec<CachedFile>> {
    let engine = execution.engine();
    let snapshot = engine.snapshots.catalog().snapshot();
    let missing = || QueryError::new(ErrorKind::UndefinedTable, format!("cube `{name}` does not exist"));
    let cube = snapshot.cubes.get(name).ok_or_else(missing)?;
    let data = engine.snapshots.stores().segments().opened();
    let ready = cube.segments.iter().filter(|segment| segment.state == SegmentState::Ready);
    let files = ready.flat_map(|segment| {
        let files = segment.cuboids.iter().flat_map(|cuboid| &cuboid.files);
        files.map(|file| CachedFile::of_cuboid(data, &segment.location, file))
    });
    Ok(files.filter(CachedFile::is_remote).collect())
}
