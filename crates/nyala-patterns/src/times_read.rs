//! Reads the fields of a pattern from a text. `times_resolve` combines them into a date and a time.

use super::error::PatternError;
use super::keywords::{Convention, Key};
use super::names::{DAYS, DAYS_SHORT, MONTHS, MONTHS_SHORT, ROMAN_MONTHS, eras, meridiems};
use super::scan::Scanner;
use super::tokens::{Field, Node};

/// The values that were read, field by field. As in PostgreSQL 0 means "not given", and numbers wrap at 32 bits.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) convention: Option<Convention>,
    pub(super) is_12_hour: bool,
    /// 1 for the afternoon.
    pub(super) afternoon: i32,
    pub(super) hour: i32,
    pub(super) minute: i32,
    pub(super) second: i32,
    pub(super) day_second: i32,
    pub(super) millis: i32,
    pub(super) micros: i32,
    pub(super) fraction_digits: u8,
    pub(super) century: i32,
    pub(super) year: i32,
    /// Digits of the pattern's year field.
    pub(super) year_digits: u8,
    /// 1 for the years before 1.
    pub(super) before_era: i32,
    pub(super) month: i32,
    pub(super) week: i32,
    pub(super) month_week: i32,
    pub(super) year_day: i32,
    pub(super) month_day: i32,
    /// Sunday is 1.
    pub(super) weekday: i32,
    pub(super) julian: i32,
    /// 1 or -1 where the text has an offset.
    pub(super) zone_sign: i32,
    pub(super) zone_hours: i32,
    pub(super) zone_minutes: i32,
    /// Takes the values that are read and then ignored.
    ignored: i32,
}

/// Reads a text until the pattern or the text ends, whichever is first.
pub(super) fn read_fields(nodes: &[Node], text: &str) -> Result<Fields, PatternError> {
    let mut reader =
        Reader { scanner: Scanner::new(text), fields: Fields::default(), spare: 0, is_exact: false };
    for (place, node) in nodes.iter().enumerate() {
        if reader.scanner.is_done() {
            break;
        }
        reader.skip_leading_spaces(node, place == 0);
        match node {
            Node::Separator(_) | Node::Space(_) => reader.pass_separator(),
            Node::Text(_) => reader.pass_text(),
            Node::Field(field) => {
                let next_is_digit = nodes.get(place + 1).is_some_and(|next| next.is_digit());
                let is_loose = field.fill || field.ordinal.is_some() || !next_is_digit;
                reader.read_field(field, is_loose)?;
            }
        }
    }
    Ok(reader.fields)
}

struct Reader<'a> {
    scanner: Scanner<'a>,
    fields: Fields,
    /// Characters passed in the text beyond those that the pattern has.
    spare: i64,
    /// Whether `FX` was met.
    is_exact: bool,
}

impl Reader<'_> {
    fn skip_leading_spaces(&mut self, node: &Node, is_first: bool) {
        let is_switch = matches!(node, Node::Field(Field { key: Key::Exact, .. }));
        let is_field = matches!(node, Node::Field(_));
        if !self.is_exact && !is_switch && (is_field || is_first) {
            self.spare += self.scanner.skip_spaces() as i64;
        }
    }

    /// A separator of the pattern takes one of the text or, where the text has none there, nothing.
    fn pass_separator(&mut self) {
        if self.is_exact {
            return self.scanner.advance();
        }
        if !self.scanner.skip_separator() {
            self.spare -= 1;
        }
    }

    /// A literal takes one character, whichever it is, unless more were passed than the pattern has: the next
    /// character may belong to a field.
    fn pass_text(&mut self) {
        if !self.is_exact && self.spare > 0 {
            self.spare -= 1;
        } else {
            self.scanner.advance();
        }
    }

    fn read_field(&mut self, field: &Field, is_loose: bool) -> Result<(), PatternError> {
        self.set_convention(field)?;
        match field.key {
            Key::Exact => self.is_exact = true,
            Key::Zone(_) | Key::Offset => return Err(only_written(field)),
            Key::ZoneHour => self.read_zone_hour(field, is_loose)?,
            Key::ZoneMinute => self.read_zone_minute(field, is_loose)?,
            key if key.is_number() => {
                self.read_number(field, is_loose)?;
                self.skip_ordinal(field);
            }
            _ => self.read_name(field)?,
        }
        if !self.is_exact {
            self.spare = self.scanner.skip_spaces() as i64;
        }
        Ok(())
    }

    fn set_convention(&mut self, field: &Field) -> Result<(), PatternError> {
        let Some(convention) = field.key.convention() else { return Ok(()) };
        if *self.fields.convention.get_or_insert(convention) == convention {
            return Ok(());
        }
        Err(PatternError::format("invalid combination of date conventions")
            .hint("Do not mix Gregorian and ISO week date conventions in a formatting template."))
    }

    fn read_name(&mut self, field: &Field) -> Result<(), PatternError> {
        let (scanner, fields) = (&mut self.scanner, &mut self.fields);
        match field.key {
            Key::Meridiem { dotted, .. } => {
                let place = scanner.read_word(&meridiems(dotted), field)?;
                set(&mut fields.afternoon, place as i32, field)?;
                fields.is_12_hour = true;
            }
            Key::Era { dotted, .. } => {
                let place = scanner.read_word(&eras(dotted), field)?;
                set(&mut fields.before_era, place as i32, field)?;
            }
            Key::RomanMonth(_) => {
                let place = scanner.read_word(&ROMAN_MONTHS, field)?;
                set(&mut fields.month, 12 - place as i32, field)?;
            }
            Key::DayName(_) | Key::DayShort(_) => {
                let days = if matches!(field.key, Key::DayName(_)) { &DAYS } else { &DAYS_SHORT };
                // PostgreSQL compares before it counts from 1, so a second weekday conflicts with the first.
                set(&mut fields.weekday, scanner.read_word(days, field)? as i32, field)?;
                fields.weekday += 1;
            }
            key => {
                let months = if matches!(key, Key::MonthName(_)) { &MONTHS } else { &MONTHS_SHORT };
                set(&mut fields.month, scanner.read_word(months, field)? as i32 + 1, field)?;
            }
        }
        Ok(())
    }

    fn read_number(&mut self, field: &Field, is_loose: bool) -> Result<(), PatternError> {
        if field.key == Key::YearComma {
            let message = "invalid input string for \"Y,YYY\"";
            let year = self.scanner.read_comma_year().ok_or_else(|| PatternError::format(message))?;
            self.fields.year_digits = 4;
            return set(&mut self.fields.year, year, field);
        }
        let (value, used) = self.scanner.read_integer(field, width(field), is_loose)?;
        set(self.fields.slot(field.key), value, field)?;
        self.fields.finish(field.key, used);
        Ok(())
    }

    /// The sign may already have been taken for a separator; then it is the last character passed.
    fn read_zone_hour(&mut self, field: &Field, is_loose: bool) -> Result<(), PatternError> {
        let sign = self.scanner.peek().filter(|byte| matches!(byte, b'+' | b'-' | b' '));
        let is_negative = match sign {
            Some(sign) => sign == b'-',
            None => self.spare > 0 && self.scanner.previous() == Some(b'-'),
        };
        if sign.is_some() {
            self.scanner.advance();
        }
        self.fields.zone_sign = if is_negative { -1 } else { 1 };
        let (hours, _) = self.scanner.read_integer(field, width(field), is_loose)?;
        set(&mut self.fields.zone_hours, hours, field)
    }

    fn read_zone_minute(&mut self, field: &Field, is_loose: bool) -> Result<(), PatternError> {
        if self.fields.zone_sign == 0 {
            self.fields.zone_sign = 1;
        }
        let (minutes, _) = self.scanner.read_integer(field, width(field), is_loose)?;
        set(&mut self.fields.zone_minutes, minutes, field)
    }

    /// An ordinal's ending is two characters, whichever they are.
    fn skip_ordinal(&mut self, field: &Field) {
        if field.ordinal.is_some() {
            self.scanner.advance();
            self.scanner.advance();
        }
    }
}

impl Fields {
    /// Where the number of a field is kept.
    fn slot(&mut self, key: Key) -> &mut i32 {
        match key {
            Key::Hour12 | Key::Hour24 => &mut self.hour,
            Key::Minute => &mut self.minute,
            Key::Second => &mut self.second,
            Key::DaySecond => &mut self.day_second,
            Key::Millisecond => &mut self.millis,
            Key::Microsecond | Key::Fraction(_) => &mut self.micros,
            Key::Year(_) | Key::IsoYear(_) => &mut self.year,
            Key::Century => &mut self.century,
            Key::Month => &mut self.month,
            Key::Week | Key::IsoWeek => &mut self.week,
            Key::MonthWeek => &mut self.month_week,
            Key::YearDay | Key::IsoYearDay => &mut self.year_day,
            Key::MonthDay => &mut self.month_day,
            Key::Weekday | Key::IsoWeekday => &mut self.weekday,
            Key::Julian => &mut self.julian,
            // A quarter does not say which of its days is meant, so it is read and then not used. Two quarters
            // never conflict, hence the 0.
            _ => {
                self.ignored = 0;
                &mut self.ignored
            }
        }
    }

    /// Converts the number of a field, which was read from `used` bytes, to the unit in which it is kept.
    fn finish(&mut self, key: Key, used: usize) {
        match key {
            Key::Hour12 => self.is_12_hour = true,
            // 25 is 0.25 s and 250 is too, while 025 is 0.025 s.
            Key::Millisecond => self.millis = scale(self.millis, used, 3),
            Key::Microsecond => self.micros = scale(self.micros, used, 6),
            Key::Fraction(digits) => {
                self.fraction_digits = digits;
                self.micros = scale(self.micros, used, 6);
            }
            Key::Year(digits) | Key::IsoYear(digits) => {
                self.year_digits = digits;
                if digits < 4 && used < 4 {
                    self.year = nearest_to_2020(self.year);
                }
            }
            // Monday is 1 in `ID`, and 2 in the field that is kept.
            Key::IsoWeekday => {
                self.weekday = self.weekday.wrapping_add(1);
                if self.weekday > 7 {
                    self.weekday = 1;
                }
            }
            _ => {}
        }
    }
}

/// Keeps a value. A field that was given twice must have been given the same.
fn set(slot: &mut i32, value: i32, field: &Field) -> Result<(), PatternError> {
    if *slot != 0 && *slot != value {
        let message = format!("conflicting values for \"{}\" field in formatting string", field.name);
        let detail = "This value contradicts a previous setting for the same field type.";
        return Err(PatternError::format(message).detail(detail));
    }
    *slot = value;
    Ok(())
}

/// The characters a field takes where another number follows it.
fn width(field: &Field) -> usize {
    match field.key {
        Key::Hour12 | Key::Hour24 | Key::ZoneHour | Key::ZoneMinute => 2,
        Key::IsoYearDay | Key::Millisecond => 3,
        Key::IsoWeekday => 1,
        Key::Microsecond => 6,
        Key::Fraction(digits) => usize::from(digits),
        _ => field.name.len(),
    }
}

/// A fraction of the second written with `used` of `digits` digits.
fn scale(value: i32, used: usize, digits: usize) -> i32 {
    let missing = digits.saturating_sub(used);
    (0..missing).fold(value, |value, _| value.wrapping_mul(10))
}

/// The year a short form means: 70 is 1970, 69 is 2069, 520 is 1520.
fn nearest_to_2020(year: i32) -> i32 {
    match year {
        ..70 => year.wrapping_add(2000),
        70..100 => year + 1900,
        100..520 => year + 2000,
        520..1000 => year + 1000,
        _ => year,
    }
}

fn only_written(field: &Field) -> PatternError {
    PatternError::unsupported(format!("formatting field \"{}\" is only supported in to_char", field.name))
}
