//! The 13 queries of the Star Schema Benchmark.

/// A query by the number the paper gives it.
#[derive(Debug, Clone, Copy)]
pub struct Query {
    /// The name, such as `Q1.1`.
    pub name: &'static str,
    /// The statement, with comments.
    pub text: &'static str,
}

macro_rules! query {
    ($number:literal) => {
        Query {
            name: concat!("Q", $number),
            text: include_str!(concat!("../../../../benchmarks/ssb/queries/q", $number, ".sql")),
        }
    };
}

/// All queries, in the paper's order.
pub const QUERIES: [Query; 13] = [
    query!("1.1"),
    query!("1.2"),
    query!("1.3"),
    query!("2.1"),
    query!("2.2"),
    query!("2.3"),
    query!("3.1"),
    query!("3.2"),
    query!("3.3"),
    query!("3.4"),
    query!("4.1"),
    query!("4.2"),
    query!("4.3"),
];

#[cfg(test)]
mod tests {
    use super::QUERIES;
    use nyala_client::split::split;

    #[test]
    fn every_file_holds_one_statement() {
        for query in QUERIES {
            assert_eq!(split(query.text).len(), 1, "{}", query.name);
        }
    }
}
