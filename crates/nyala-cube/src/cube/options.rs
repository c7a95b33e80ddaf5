//! `WITH (…)` of CREATE CUBE and `SET (…)` of ALTER CUBE.

use nyala_model::{CubeOptions, KeyKind, RangePartition, Step};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::{StatementOption, Width, parse_width};

/// The value that resets an option.
const OFF: &str = "off";

/// The options `before`, changed by `set`.
pub fn options(
    mut before: CubeOptions,
    set: &[StatementOption],
    division: Option<&RangePartition>,
) -> Result<CubeOptions> {
    for option in set {
        let off = option.value.eq_ignore_ascii_case(OFF);
        match option.name.as_str() {
            "retention" if off => before.retention = None,
            "retention" => before.retention = Some(width(option, &option.value, division)?),
            "auto_merge" if off => before.auto_merge.clear(),
            "auto_merge" => before.auto_merge = tiers(option, division)?,
            "auto_refresh" => before.auto_refresh = is_on(option)?,
            "answers" => before.answers = is_on(option)?,
            "fold_rows" if off => before.fold_rows = None,
            "fold_rows" => before.fold_rows = Some(fold_rows(option)?),
            "fold_after" if off => before.fold_after_ms = None,
            "fold_after" => before.fold_after_ms = Some(fold_after(option)?),
            other => {
                let message = format!("a cube has no option `{other}`");
                return Err(QueryError::new(ErrorKind::UndefinedObject, message)
                    .hint("there are answers, retention, auto_merge and auto_refresh, and fold_rows and fold_after over live tables"));
            }
        }
    }
    Ok(before)
}

fn is_on(option: &StatementOption) -> Result<bool> {
    match option.value.to_ascii_lowercase().as_str() {
        "on" => Ok(true),
        OFF => Ok(false),
        _ => Err(wrong(option, "on or off")),
    }
}

/// The options of a statement after `set`: later options win, and options with their default value are left out.
pub fn written(before: &[StatementOption], set: &[StatementOption], is_live: bool) -> Vec<StatementOption> {
    let mut all: Vec<StatementOption> = Vec::new();
    for option in before.iter().chain(set) {
        all.retain(|other| other.name != option.name);
        if !is_default(option, is_live) {
            all.push(option.clone());
        }
    }
    all
}

/// Whether the option may be left out. Cubes answer by default, and those over live tables are refreshed.
fn is_default(option: &StatementOption, is_live: bool) -> bool {
    let off = option.value.eq_ignore_ascii_case(OFF);
    match option.name.as_str() {
        "answers" => !off,
        "auto_refresh" if is_live => false,
        _ => off,
    }
}

/// Reads `1 month, 1 year`: ranges of each width must fill the next width exactly.
fn tiers(option: &StatementOption, division: Option<&RangePartition>) -> Result<Vec<Step>> {
    let mut tiers = Vec::new();
    let mut below = division.cloned();
    for text in option.value.split(',') {
        let step = width(option, text.trim(), division)?;
        if let Some(narrow) = &below
            && !narrow.fills(step)
        {
            let message = format!("segments of {} do not fill `{}`", narrow.step, text.trim());
            return Err(QueryError::new(ErrorKind::InvalidDefinition, message)
                .hint("name widths that are multiples of one another, the smallest first"));
        }
        below = below.map(|narrow| RangePartition { step, ..narrow });
        tiers.push(step);
    }
    Ok(tiers)
}

fn width(option: &StatementOption, text: &str, division: Option<&RangePartition>) -> Result<Step> {
    let Some(division) = division else {
        let message = format!("`{}` needs a cube with PARTITION BY RANGE", option.name);
        return Err(QueryError::new(ErrorKind::InvalidDefinition, message)
            .hint("a cube that is not partitioned has one segment only"));
    };
    let step = match (division.kind, text.parse::<i64>(), parse_width(text)) {
        (KeyKind::Integer, Ok(keys), _) => Some(Step::Keys(keys)),
        (KeyKind::Integer, ..) => None,
        (_, _, Some(Width::Step(step))) => Some(step),
        (KeyKind::Timestamp { per_second }, _, Some(Width::Seconds(seconds))) => {
            seconds.checked_mul(per_second).map(Step::Keys)
        }
        _ => None,
    };
    let rule = match division.kind {
        KeyKind::Integer => "a number of values of the column, such as 1000000",
        _ => "an interval such as '2 years'",
    };
    step.filter(|step| step.is_positive()).ok_or_else(|| wrong(option, rule))
}

fn fold_rows(option: &StatementOption) -> Result<u64> {
    let rows = option.value.parse().ok().filter(|rows| *rows > 0);
    rows.ok_or_else(|| wrong(option, "a number of rows, such as 100000"))
}

fn fold_after(option: &StatementOption) -> Result<u64> {
    const DAY_SECONDS: i64 = 86_400;
    let seconds = match parse_width(&option.value) {
        Some(Width::Seconds(seconds)) => Some(seconds),
        Some(Width::Step(Step::Days(days))) => days.checked_mul(DAY_SECONDS),
        _ => None,
    };
    let ms = seconds.and_then(|seconds| u64::try_from(seconds).ok()?.checked_mul(1000));
    ms.ok_or_else(|| wrong(option, "an interval such as '1 minute'"))
}

fn wrong(option: &StatementOption, rule: &str) -> QueryError {
    let message = format!("`{}` is no value of option `{}`", option.value, option.name);
    QueryError::new(ErrorKind::InvalidParameter, message).hint(format!("use {rule}"))
}
