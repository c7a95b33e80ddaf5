//! The fields of date and time patterns: what they are called and what they mean.

use super::names::Case::{self, Lower, Title, Upper};

/// What a field stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    /// `FX`: the rest of the pattern is read to the letter.
    Exact,
    /// `AM`, `PM`, and `A.M.`, `P.M.` with dots.
    Meridiem {
        dotted: bool,
        case: Case,
    },
    /// `AD`, `BC`, and `A.D.`, `B.C.` with dots.
    Era {
        dotted: bool,
        case: Case,
    },
    Hour12,
    Hour24,
    Minute,
    Second,
    /// `SSSS`, `SSSSS`: seconds past midnight.
    DaySecond,
    Millisecond,
    Microsecond,
    /// `FF1` to `FF6`: that many digits of the second's fraction.
    Fraction(u8),
    /// `TZ`: abbreviation of the time zone.
    Zone(Case),
    ZoneHour,
    ZoneMinute,
    /// `OF`: offset from UTC.
    Offset,
    /// `Y`, `YY`, `YYY`, `YYYY`: that many digits of the year.
    Year(u8),
    /// `Y,YYY`.
    YearComma,
    /// `I`, `IY`, `IYY`, `IYYY`: that many digits of the ISO year.
    IsoYear(u8),
    Century,
    Quarter,
    Month,
    MonthName(Case),
    MonthShort(Case),
    RomanMonth(Case),
    /// `WW`: weeks from 1 January.
    Week,
    IsoWeek,
    /// `W`: weeks from the first of the month.
    MonthWeek,
    /// `DDD`.
    YearDay,
    IsoYearDay,
    /// `DD`.
    MonthDay,
    DayName(Case),
    DayShort(Case),
    /// `D`: Sunday is 1.
    Weekday,
    /// `ID`: Monday is 1.
    IsoWeekday,
    /// `J`: Julian day.
    Julian,
}

/// The two ways to count days, which one text must not mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Convention {
    Gregorian,
    IsoWeek,
}

impl Key {
    /// Whether a reader expects digits here: then the field before must take no more digits than its width.
    pub(super) fn is_number(self) -> bool {
        use Key::*;
        match self {
            Exact | Meridiem { .. } | Era { .. } | Zone(_) | ZoneHour | Offset => false,
            MonthName(_) | MonthShort(_) | RomanMonth(_) | DayName(_) | DayShort(_) => false,
            Hour12 | Hour24 | Minute | Second | DaySecond | Millisecond | Microsecond | Fraction(_) => true,
            ZoneMinute | Year(_) | YearComma | IsoYear(_) | Century | Quarter | Month | Week | IsoWeek => {
                true
            }
            MonthWeek | YearDay | IsoYearDay | MonthDay | Weekday | IsoWeekday | Julian => true,
        }
    }

    /// The way of counting days that the field belongs to.
    pub(super) fn convention(self) -> Option<Convention> {
        use Key::*;
        match self {
            Year(_) | YearComma | Month | MonthName(_) | MonthShort(_) | RomanMonth(_) | Week | MonthWeek
            | YearDay | MonthDay | Weekday => Some(Convention::Gregorian),
            IsoYear(_) | IsoWeek | IsoYearDay | IsoWeekday => Some(Convention::IsoWeek),
            _ => None,
        }
    }

    /// Whether an interval has the field. Names of days and months, eras and zones belong to a date.
    pub(super) fn is_of_spans(self) -> bool {
        use Key::*;
        !matches!(
            self,
            Zone(_)
                | ZoneHour
                | ZoneMinute
                | Offset
                | Era { .. }
                | MonthName(_)
                | MonthShort(_)
                | DayName(_)
                | DayShort(_)
                | Weekday
                | IsoWeekday
        )
    }
}

/// A field's spelling and meaning.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keyword {
    pub(super) name: &'static str,
    pub(super) key: Key,
}

const fn word(name: &'static str, key: Key) -> Keyword {
    Keyword { name, key }
}

/// The field at the start of a pattern. Where several fit, the table has the longest one first.
pub(super) fn find_keyword(pattern: &str) -> Option<Keyword> {
    let first = pattern.bytes().next()?;
    let table = if first.is_ascii_lowercase() { LOWER } else { UPPER };
    table.iter().copied().find(|keyword| pattern.starts_with(keyword.name))
}

const UPPER: &[Keyword] = &[
    word("A.D.", Key::Era { dotted: true, case: Upper }),
    word("A.M.", Key::Meridiem { dotted: true, case: Upper }),
    word("AD", Key::Era { dotted: false, case: Upper }),
    word("AM", Key::Meridiem { dotted: false, case: Upper }),
    word("B.C.", Key::Era { dotted: true, case: Upper }),
    word("BC", Key::Era { dotted: false, case: Upper }),
    word("CC", Key::Century),
    word("DAY", Key::DayName(Upper)),
    word("DDD", Key::YearDay),
    word("DD", Key::MonthDay),
    word("DY", Key::DayShort(Upper)),
    word("Day", Key::DayName(Title)),
    word("Dy", Key::DayShort(Title)),
    word("D", Key::Weekday),
    word("FF1", Key::Fraction(1)),
    word("FF2", Key::Fraction(2)),
    word("FF3", Key::Fraction(3)),
    word("FF4", Key::Fraction(4)),
    word("FF5", Key::Fraction(5)),
    word("FF6", Key::Fraction(6)),
    word("FX", Key::Exact),
    word("HH24", Key::Hour24),
    word("HH12", Key::Hour12),
    word("HH", Key::Hour12),
    word("IDDD", Key::IsoYearDay),
    word("ID", Key::IsoWeekday),
    word("IW", Key::IsoWeek),
    word("IYYY", Key::IsoYear(4)),
    word("IYY", Key::IsoYear(3)),
    word("IY", Key::IsoYear(2)),
    word("I", Key::IsoYear(1)),
    word("J", Key::Julian),
    word("MI", Key::Minute),
    word("MM", Key::Month),
    word("MONTH", Key::MonthName(Upper)),
    word("MON", Key::MonthShort(Upper)),
    word("MS", Key::Millisecond),
    word("Month", Key::MonthName(Title)),
    word("Mon", Key::MonthShort(Title)),
    word("OF", Key::Offset),
    word("P.M.", Key::Meridiem { dotted: true, case: Upper }),
    word("PM", Key::Meridiem { dotted: false, case: Upper }),
    word("Q", Key::Quarter),
    word("RM", Key::RomanMonth(Upper)),
    word("SSSSS", Key::DaySecond),
    word("SSSS", Key::DaySecond),
    word("SS", Key::Second),
    word("TZH", Key::ZoneHour),
    word("TZM", Key::ZoneMinute),
    word("TZ", Key::Zone(Upper)),
    word("US", Key::Microsecond),
    word("WW", Key::Week),
    word("W", Key::MonthWeek),
    word("Y,YYY", Key::YearComma),
    word("YYYY", Key::Year(4)),
    word("YYY", Key::Year(3)),
    word("YY", Key::Year(2)),
    word("Y", Key::Year(1)),
];

const LOWER: &[Keyword] = &[
    word("a.d.", Key::Era { dotted: true, case: Lower }),
    word("a.m.", Key::Meridiem { dotted: true, case: Lower }),
    word("ad", Key::Era { dotted: false, case: Lower }),
    word("am", Key::Meridiem { dotted: false, case: Lower }),
    word("b.c.", Key::Era { dotted: true, case: Lower }),
    word("bc", Key::Era { dotted: false, case: Lower }),
    word("cc", Key::Century),
    word("day", Key::DayName(Lower)),
    word("ddd", Key::YearDay),
    word("dd", Key::MonthDay),
    word("dy", Key::DayShort(Lower)),
    word("d", Key::Weekday),
    word("ff1", Key::Fraction(1)),
    word("ff2", Key::Fraction(2)),
    word("ff3", Key::Fraction(3)),
    word("ff4", Key::Fraction(4)),
    word("ff5", Key::Fraction(5)),
    word("ff6", Key::Fraction(6)),
    word("fx", Key::Exact),
    word("hh24", Key::Hour24),
    word("hh12", Key::Hour12),
    word("hh", Key::Hour12),
    word("iddd", Key::IsoYearDay),
    word("id", Key::IsoWeekday),
    word("iw", Key::IsoWeek),
    word("iyyy", Key::IsoYear(4)),
    word("iyy", Key::IsoYear(3)),
    word("iy", Key::IsoYear(2)),
    word("i", Key::IsoYear(1)),
    word("j", Key::Julian),
    word("mi", Key::Minute),
    word("mm", Key::Month),
    word("month", Key::MonthName(Lower)),
    word("mon", Key::MonthShort(Lower)),
    word("ms", Key::Millisecond),
    word("of", Key::Offset),
    word("p.m.", Key::Meridiem { dotted: true, case: Lower }),
    word("pm", Key::Meridiem { dotted: false, case: Lower }),
    word("q", Key::Quarter),
    word("rm", Key::RomanMonth(Lower)),
    word("sssss", Key::DaySecond),
    word("ssss", Key::DaySecond),
    word("ss", Key::Second),
    word("tzh", Key::ZoneHour),
    word("tzm", Key::ZoneMinute),
    word("tz", Key::Zone(Lower)),
    word("us", Key::Microsecond),
    word("ww", Key::Week),
    word("w", Key::MonthWeek),
    word("y,yyy", Key::YearComma),
    word("yyyy", Key::Year(4)),
    word("yyy", Key::Year(3)),
    word("yy", Key::Year(2)),
    word("y", Key::Year(1)),
];
