//! Workloads that come with the program.

/// The queries of the Star Schema Benchmark, with parameters that keep the meaning of each query.
const SSB: &str = include_str!("../../../../../benchmarks/serving/ssb.sql");

/// The queries of the benchmark on cuboids that PostgreSQL holds as tables.
const SSB_POSTGRES: &str = include_str!("../../../../../benchmarks/serving/ssb-postgres.sql");

/// Names of the workloads that come with the program.
pub const NAMES: [&str; 2] = ["ssb", "ssb-postgres"];

/// The text of the workload with this name.
pub fn text(name: &str) -> Option<&'static str> {
    match name {
        "ssb" => Some(SSB),
        "ssb-postgres" => Some(SSB_POSTGRES),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::bench::workload::{Random, read};

    #[test]
    fn both_servers_are_asked_the_same_with_the_same_values() {
        let [ours, theirs] = NAMES.map(|name| read(&[name.to_owned()]).unwrap());
        assert_eq!(ours.queries.len(), 13);
        assert_eq!(theirs.queries.len(), 13);
        for (ours, theirs) in ours.queries.iter().zip(&theirs.queries) {
            assert_eq!((&ours.name, ours.columns), (&theirs.name, theirs.columns));
            assert!(ours.columns.is_some(), "{}", ours.name);
            let draw = |query: &crate::bench::workload::Query| {
                let mut values = query.draw(&mut Random::of_client(7, 7)).unwrap();
                // The order in which the two texts use them does not matter.
                values.sort_by_key(ToString::to_string);
                values
            };
            assert_eq!(draw(ours), draw(theirs), "{}", ours.name);
        }
    }
}
