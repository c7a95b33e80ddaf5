//! "Did you mean …" for names a user mistyped.

/// The candidate nearest to `wanted`, if it is similar: at most a third of the longer name may
/// differ, and never more than three edits.
pub fn nearest<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = wanted.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&wanted, &candidate.to_lowercase()), candidate))
        .filter(|(edits, candidate)| {
            let longer = wanted.chars().count().max(candidate.chars().count());
            *edits <= 3 && *edits * 3 <= longer
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// The candidate with the fewest edits from `wanted`, however many; none if there are no candidates.
pub fn closest<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = wanted.to_lowercase();
    candidates
        .into_iter()
        .min_by_key(|candidate| strsim::damerau_levenshtein(&wanted, &candidate.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn suggests_only_what_is_near() {
        let names = ["lineorder", "customer", "dates"];
        assert_eq!(nearest("lineordr", names), Some("lineorder"));
        assert_eq!(nearest("CUSTOMERS", names), Some("customer"));
        assert_eq!(nearest("date", names), Some("dates"));
        assert_eq!(nearest("zebra", names), None);
        assert_eq!(nearest("x", names), None);
    }
}
