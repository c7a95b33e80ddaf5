//! How much a recommendation may propose.

use std::collections::BTreeMap;

use nyala_cube::cube::Advice;
use nyala_model::size_text::parse_size;
use nyala_model::{QualifiedName, QueryHistoryEntry};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::StatementOption;

/// Cubes over one fact table. Each takes time to build, and a long tail of rare queries is not worth it.
const CUBES: usize = 12;

/// A proposed cube over the fact table `fact`.
pub struct Proposal {
    pub fact: QualifiedName,
    pub advice: Advice,
}

/// `WITH (cubes = …, bytes = …)`
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Cubes over one fact table.
    cubes: usize,
    /// Bytes of all cubes.
    bytes: u64,
}

impl Budget {
    pub fn of(options: &[StatementOption]) -> Result<Self> {
        let mut budget = Self { cubes: CUBES, bytes: u64::MAX };
        for option in options {
            match option.name.as_str() {
                "cubes" => {
                    let cubes = option.value.parse().ok().filter(|cubes| *cubes > 0);
                    budget.cubes = cubes.ok_or_else(|| wrong(option, "a number of cubes, such as 3"))?;
                }
                "bytes" => {
                    let bytes = parse_size(&option.value);
                    budget.bytes = bytes.ok_or_else(|| wrong(option, "a size, such as '10 GB'"))?;
                }
                other => {
                    let message = format!("a recommendation has no option `{other}`");
                    return Err(QueryError::new(ErrorKind::UndefinedObject, message)
                        .hint("there are cubes, for each fact table, and bytes, of all cubes"));
                }
            }
        }
        Ok(budget)
    }

    /// The proposals that save most time, and the queries of the others with the reason.
    pub fn keep(self, mut proposals: Vec<Proposal>) -> (Vec<Proposal>, Vec<(QueryHistoryEntry, String)>) {
        proposals.sort_by_key(|proposal| std::cmp::Reverse(time_of(&proposal.advice)));
        let (mut kept, mut beyond) = (Vec::new(), Vec::new());
        let mut counts: BTreeMap<QualifiedName, usize> = BTreeMap::new();
        let mut bytes = 0_u64;
        for proposal in proposals {
            let count = counts.entry(proposal.fact.clone()).or_default();
            let with = bytes.saturating_add(proposal.advice.bytes);
            let reason = if *count >= self.cubes {
                format!("others save more time than its cube, beyond {} cubes over one table", self.cubes)
            } else if with > self.bytes {
                "others save more time than its cube, which would not fit into the bytes".to_owned()
            } else {
                (*count, bytes) = (*count + 1, with);
                kept.push(proposal);
                continue;
            };
            beyond.extend(proposal.advice.served.into_iter().map(|entry| (entry, reason.clone())));
        }
        (kept, beyond)
    }
}

fn time_of(advice: &Advice) -> u64 {
    advice.served.iter().map(|entry| entry.total_us).sum()
}

fn wrong(option: &StatementOption, rule: &str) -> QueryError {
    let message = format!("`{}` is no value of option `{}`", option.value, option.name);
    QueryError::new(ErrorKind::InvalidParameter, message).hint(format!("use {rule}"))
}
