//! Scans of shared files, divided among the nodes: each part of a file is read by its home.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::exec_err;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::error::Result;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedLeafExec, NetworkBoundaryExt,
    RouteTasksEvent, RouteTasksEventResponse, ScaleUpLeafNodeEvent, ScaleUpLeafNodeEventResponse,
};
use nyala_cube::scan::SharedScan;
use nyala_model::{PlacedFile, part_bytes};

use super::executors::Executors;
use super::scan::HomeScanExec;
use super::whole::WholeOn;

/// How many tasks read a leaf: one on each node, so that every part is read at its home.
pub fn task_count(event: DesiredTaskCountEvent<'_>) -> Option<Result<DesiredTaskCountEventResponse>> {
    let executors = event.session_config.get_extension::<Executors>()?;
    if event.plan.is::<EmptyExec>() {
        return Some(Ok(DesiredTaskCountEventResponse::desired(1)));
    }
    let scan = SharedScan::of(event.plan.as_ref())?;
    // A scan still has one partition if an operator above relies on that (`portable::widened`).
    let one_place = event.plan.output_partitioning().partition_count() == 1 || scan.files().is_none();
    Some(Ok(match one_place {
        true => DesiredTaskCountEventResponse::maximum(1),
        false => DesiredTaskCountEventResponse::desired(executors.count()),
    }))
}

/// The leaves of a stage, one for each task.
pub fn divide(event: ScaleUpLeafNodeEvent<'_>) -> Option<Result<ScaleUpLeafNodeEventResponse>> {
    let executors = event.session_config.get_extension::<Executors>()?;
    let scan = SharedScan::of(event.plan.as_ref())?;
    Some(divided(event.plan, &scan, &executors, event.task_count))
}

fn divided(
    plan: &Arc<dyn ExecutionPlan>,
    scan: &SharedScan<'_>,
    executors: &Executors,
    tasks: usize,
) -> Result<ScaleUpLeafNodeEventResponse> {
    let home = |part: Arc<dyn ExecutionPlan>, tags| -> Arc<dyn ExecutionPlan> {
        Arc::new(HomeScanExec { scan: part, table: scan.table.clone(), tags })
    };
    if tasks == 1 {
        let leaf = DistributedLeafExec::try_new(Arc::clone(plan), [home(Arc::clone(plan), scan.tags())])?;
        return Ok(ScaleUpLeafNodeEventResponse::new(Arc::new(leaf)));
    }
    let Some(files) = scan.files() else {
        return exec_err!("a scan of parts of files cannot be divided");
    };
    let groups = plan.output_partitioning().partition_count();
    let mut of_tasks = vec![Vec::new(); tasks];
    for file in &files {
        for (number, part) in parts_of(file, scan.store(), executors) {
            if let Some(parts) = of_tasks.get_mut(number % tasks) {
                parts.push(part);
            }
        }
    }
    let leaves = of_tasks.into_iter().map(|parts| {
        let groups = in_groups(parts, groups);
        let tags = groups.iter().flatten().map(|file| file.object_meta.e_tag.clone()).collect();
        home(scan.with_files(groups), tags)
    });
    let leaf = DistributedLeafExec::try_new(Arc::clone(plan), leaves.collect::<Vec<_>>())?;
    Ok(ScaleUpLeafNodeEventResponse::new(Arc::new(leaf)))
}

/// The parts of a file with the numbers of their homes; neighbouring parts of one home are joined.
pub fn parts_of(file: &PartitionedFile, store: &str, executors: &Executors) -> Vec<(usize, PartitionedFile)> {
    let size = file.object_meta.size;
    let placed = PlacedFile::new(&format!("{store}{}", file.object_meta.location));
    let part_bytes = part_bytes(size);
    let mut parts: Vec<(usize, u64, u64)> = Vec::new();
    for number in 0..size.div_ceil(part_bytes) {
        let home = executors.homes().of(placed, number).unwrap_or_default();
        let start = number * part_bytes;
        let end = size.min(start + part_bytes);
        match parts.last_mut() {
            Some((last, _, until)) if *last == home => *until = end,
            _ => parts.push((home, start, end)),
        }
    }
    let part = |(home, start, end): (usize, u64, u64)| {
        let whole = start == 0 && end == size;
        let file = file.clone();
        (home, if whole { file } else { file.with_range(start.cast_signed(), end.cast_signed()) })
    };
    parts.into_iter().map(part).collect()
}

/// Divides parts into groups of about equally many bytes.
pub fn in_groups(mut parts: Vec<PartitionedFile>, groups: usize) -> Vec<Vec<PartitionedFile>> {
    let mut filled: Vec<(u64, Vec<PartitionedFile>)> = vec![(0, Vec::new()); groups.max(1)];
    parts.sort_by_key(|part| std::cmp::Reverse(part.effective_size()));
    for part in parts {
        if let Some(least) = filled.iter_mut().min_by_key(|(bytes, _)| *bytes) {
            least.0 += part.effective_size();
            least.1.push(part);
        }
    }
    filled.into_iter().map(|(_, parts)| parts).collect()
}

/// The nodes of the tasks of a stage. Tasks are numbered like nodes; a single task runs at the home of the first file that it
/// reads, and tasks that read no file run on any node.
pub fn route(event: RouteTasksEvent<'_>) -> Option<Result<RouteTasksEventResponse>> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let executors = event.task_ctx.session_config().get_extension::<Executors>()?;
    let urls = executors.urls();
    let first = match event.task_ctx.session_config().get_extension::<WholeOn>() {
        Some(whole) => whole.0,
        None if event.task_count == urls.len() => 0,
        None => {
            home_of(event.plan.as_ref(), &executors).unwrap_or_else(|| NEXT.fetch_add(1, Ordering::Relaxed))
        }
    };
    let urls = urls.iter().cycle().skip(first % urls.len().max(1)).take(event.task_count).cloned().collect();
    Some(Ok(RouteTasksEventResponse::new(urls)))
}

/// The home of the first file that the operators of a stage read.
fn home_of(plan: &dyn ExecutionPlan, executors: &Executors) -> Option<usize> {
    if let Some(leaf) = plan.downcast_ref::<DistributedLeafExec>() {
        let scan = SharedScan::of(leaf.original().as_ref())?;
        let first = scan.files()?.into_iter().next()?;
        return executors
            .homes()
            .of(PlacedFile::new(&format!("{}{}", scan.store(), first.object_meta.location)), 0);
    }
    // What is below an exchange runs in another stage.
    let is_end = plan.is_network_boundary();
    let mut children = plan.children().into_iter().filter(|_| !is_end);
    children.find_map(|child| home_of(child.as_ref(), executors))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use arrow::datatypes::Schema;
    use datafusion::execution::TaskContext;
    use datafusion::prelude::SessionConfig;
    use nyala_model::{NodeEntry, NodeId};
    use url::Url;

    use super::*;

    fn executors(names: &[&str]) -> Executors {
        let node = |name: &&str| NodeEntry {
            id: NodeId((*name).to_owned()),
            address: "10.0.0.1:7433".to_owned(),
            ..NodeEntry::default()
        };
        Executors::new(&names.iter().map(node).collect::<Vec<_>>()).unwrap()
    }

    fn ranges(parts: &[(usize, PartitionedFile)]) -> Vec<(i64, i64)> {
        let range = |(_, part): &(usize, PartitionedFile)| match &part.range {
            Some(range) => (range.start, range.end),
            None => (0, part.object_meta.size.cast_signed()),
        };
        parts.iter().map(range).collect()
    }

    #[test]
    fn the_parts_of_a_file_are_all_of_it_once() {
        let executors = executors(&["a", "b", "c"]);
        const PART: u64 = part_bytes(1);
        for size in [1, PART - 1, PART, PART + 1, 40 * PART + 7] {
            let file = PartitionedFile::new("t/0.parquet", size);
            let parts = parts_of(&file, "s3://bucket/", &executors);
            let mut at = 0;
            for (start, end) in ranges(&parts) {
                assert!(start == at && end > start, "{size}: {parts:?}");
                at = end;
            }
            assert_eq!(at, size.cast_signed());
        }
        let file = PartitionedFile::new("t/0.parquet", 40 * PART);
        let homes: std::collections::BTreeSet<usize> =
            parts_of(&file, "s3://bucket/", &executors).iter().map(|(home, _)| *home).collect();
        assert_eq!(homes.len(), 3, "each node is the home of some");
    }

    /// Where the tasks of a stage run.
    fn routed(executors: &Executors, whole: Option<usize>, task_count: usize) -> Vec<Url> {
        let mut config = SessionConfig::new();
        config.set_extension(Arc::new(executors.clone()));
        if let Some(number) = whole {
            config.set_extension(Arc::new(WholeOn(number)));
        }
        let task_ctx = Arc::new(TaskContext::default().with_session_config(config));
        let plan: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::new(Schema::empty())));
        route(RouteTasksEvent { task_ctx, plan: &plan, task_count }).unwrap().unwrap().urls
    }

    /// datafusion-distributed would begin with any node each time, and parts of files would be away from their homes.
    #[test]
    fn a_task_runs_on_the_node_of_its_number() {
        let executors = executors(&["a", "b", "c"]);
        let urls = executors.urls();
        for _ in 0..10 {
            assert_eq!(routed(&executors, None, 3), urls);
            assert_eq!(routed(&executors, Some(2), 1), urls[2..]);
            assert_eq!(routed(&executors, None, 2).len(), 2);
        }
    }

    #[test]
    fn groups_have_about_as_many_bytes() {
        let parts = [5, 1, 4, 2, 3, 3].map(|size| PartitionedFile::new("f", size)).to_vec();
        let bytes = |group: &Vec<PartitionedFile>| group.iter().map(PartitionedFile::effective_size).sum();
        let bytes: Vec<u64> = in_groups(parts, 3).iter().map(bytes).collect();
        assert_eq!(bytes, [6, 6, 6]);
        assert_eq!(in_groups(Vec::new(), 2).iter().map(Vec::len).collect::<Vec<_>>(), [0, 0]);
    }
}
