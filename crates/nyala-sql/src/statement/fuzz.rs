//! Mutants of statements, for the limits, the parser, and the look-up of cached plans.

use nyala_fuzz::{Target, corpus};
use nyala_model::config::QueryConfig;

use super::{StatementLimits, parameterise, parse};
use crate::MEMORY;

#[test]
fn statements() {
    let limits = StatementLimits::from(&QueryConfig::default());
    Target { name: "sql", memory: &MEMORY }.run(&corpus::statements(), |text| {
        let text = String::from_utf8_lossy(text);
        let _ = parameterise(&text);
        for statement in parse(&text, &limits).unwrap_or_default() {
            // Parsed statements are also displayed, in lists and in the audit log.
            let _ = statement.to_string();
        }
    });
}
