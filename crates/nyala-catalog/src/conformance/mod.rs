//! The promises of every backend, written once: `conformance_tests!(backend)` turns each promise into
//! a test of that backend.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

pub(crate) mod altered;
pub(crate) mod commits;
pub(crate) mod fixtures;
pub(crate) mod history;
pub(crate) mod jobs;
pub(crate) mod leases;
pub(crate) mod live;
pub(crate) mod objects;
pub(crate) mod relations;
pub(crate) mod roles;
pub(crate) mod segments;

/// Declares one test for each promise. `$backend` is an expression that makes a
/// [`Backend`](fixtures::Backend) over a new, empty catalog.
macro_rules! conformance_tests {
    ($backend:expr) => {
        $crate::conformance::conformance_tests! { $backend;
            objects: [
                a_new_catalog_holds_the_default_schema,
                tables_and_cubes_come_and_go,
                entries_come_back_as_they_were,
                existing_names_are_refused_or_forgiven,
                missing_names_are_refused_or_forgiven,
                tables_and_cubes_share_one_namespace,
                what_is_needed_cannot_be_dropped,
                a_cascade_spares_cubes_of_other_schemas,
                ids_are_never_given_twice,
            ],
            relations: [
                views_come_and_go_with_their_tables,
                a_view_follows_the_tables_it_reads,
                a_view_cannot_read_itself,
                a_name_changes_with_its_grants,
            ],
            segments: [
                a_segment_is_built_then_published,
                a_building_segment_survives_a_reopen,
                publishing_replaces_ready_segments_only,
                a_range_replaces_what_it_holds,
                a_damaged_segment_gives_way_to_what_shares_rows_with_it,
                a_ready_segment_is_immutable,
                a_cuboid_is_replaced_where_it_stands,
                dropped_segments_are_gone,
                segments_are_dropped_together,
                missing_ids_are_refused,
            ],
            altered: [
                cuboids_move_with_their_dimensions,
                builds_of_another_revision_are_refused,
                a_switch_stops_no_build_and_no_alteration_undoes_it,
                segments_being_built_end_with_their_cells,
                a_ready_segment_takes_what_it_lacks,
            ],
            roles: [
                roles_come_and_go,
                grants_are_given_and_taken,
                senseless_grants_are_refused,
                grants_end_with_what_they_are_about,
            ],
            live: [
                stores_and_live_tables_come_and_go,
                a_store_is_not_dropped_under_its_tables,
                a_dropped_table_is_left_over_until_it_is_gone,
                a_live_table_gets_other_columns,
            ],
            jobs: [
                jobs_are_listed_newest_first,
                a_missing_job_is_refused,
                jobs_that_ended_are_forgotten_oldest_first,
            ],
            history: [
                queries_are_listed_by_when_they_were_asked,
                queries_are_replaced_and_forgotten,
                nothing_recorded_is_nothing_lost,
            ],
            leases: [
                one_node_at_a_time_holds_a_lease,
                a_lease_ends_unless_it_is_renewed,
                changes_under_a_lost_lease_are_refused,
                a_node_knows_itself,
            ],
            commits: [
                versions_count_changes,
                watchers_find_what_was_announced,
                twenty_tasks_commit_at_once,
                two_processes_share_one_store,
                a_commit_outlives_its_caller,
                unchanged_entries_are_shared,
                old_snapshots_stay_as_they_were,
            ],
        }
    };
    ($backend:expr; $($group:ident: [$($promise:ident),* $(,)?]),* $(,)?) => {
        $(mod $group {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $promise() {
                    $crate::conformance::$group::$promise(&$backend).await;
                }
            )*
        })*
    };
}

pub(crate) use conformance_tests;
