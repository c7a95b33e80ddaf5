//! The one integration-test binary: linking DataFusion once is enough.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr
)]

mod access;
mod administration;
mod alter;
mod backup;
mod bench;
mod bit_flips;
mod cancel;
mod cancel_operators;
mod catalog_copies;
mod catalog_watch;
mod check_cube;
mod clients;
mod console;
mod crash;
mod cubes;
mod cuboid_homes;
mod cuboids_in_bucket;
mod damage;
mod deleted_rows;
mod deployment;
mod describe_cube;
mod disk_store;
mod distributed;
mod divided_builds;
mod doctor;
mod drop_segments;
mod encryption;
mod export;
mod extensions;
mod file_tables;
mod files;
mod first_user;
mod flight;
mod forwarding;
mod functions;
mod half_open;
mod harness;
mod history;
mod hot;
mod http_answers;
mod ingest;
mod kylin;
mod live;
mod live_conflict;
mod live_crash;
mod live_cubes;
mod live_ddl;
mod live_recovery;
mod live_scan;
mod loads;
mod local_socket;
mod many_cubes;
mod meaning;
mod mutants;
mod near_misses;
mod node_connection;
mod openapi;
mod oracle;
mod overflow;
mod own_files;
mod owners;
mod ping;
mod plans;
mod plans_random;
mod process;
mod profiles;
mod program;
mod property;
mod protocol;
mod python;
mod python_package;
mod query_path;
mod random;
mod ranges;
mod recommend;
mod relations;
mod remote_cache;
mod results;
mod returning;
mod rewrite;
mod rewrite_joins;
mod route;
mod s3;
mod secrets;
mod segments;
mod server;
mod service_manager;
mod serving;
mod sessions;
mod settings;
mod shared_catalog;
mod show_create_cube;
mod slt;
mod sparse_ranges;
mod sql_bombs;
mod star;
mod statements;
mod states;
mod switched_off;
mod tidy;
mod tpch;
mod trouble;
mod unheard;
mod unwaited_builds;
mod upkeep;
mod wrong_answers;
