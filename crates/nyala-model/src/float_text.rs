//! Floating-point numbers as PostgreSQL writes them: `1`, `0.1`, `1e+20`, `Infinity`.

/// Digits that every value of the type keeps.
const DOUBLE_DIGITS: i32 = 15;
const SINGLE_DIGITS: i32 = 6;

/// Text of a double. `extra_digits` is the setting `extra_float_digits`: above 0 the shortest text that
/// reads back as the same value, otherwise rounded.
pub fn double(value: f64, extra_digits: i32) -> String {
    if extra_digits > 0 {
        return layout(&format!("{value:e}"), DOUBLE_DIGITS);
    }
    rounded(value, (DOUBLE_DIGITS + extra_digits).max(1))
}

/// Text of a single.
pub fn single(value: f32, extra_digits: i32) -> String {
    if extra_digits > 0 {
        return layout(&format!("{value:e}"), SINGLE_DIGITS);
    }
    rounded(f64::from(value), (SINGLE_DIGITS + extra_digits).max(1))
}

fn rounded(value: f64, digits: i32) -> String {
    let places = usize::try_from(digits - 1).unwrap_or(0);
    let text = format!("{value:.places$e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) if mantissa.contains('.') => {
            let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
            layout(&format!("{mantissa}e{exponent}"), digits)
        }
        _ => layout(&text, digits),
    }
}

/// Lays a scientific text out plainly while its exponent is small: from -4 up to `digits`.
fn layout(scientific: &str, digits: i32) -> String {
    let (negative, unsigned) = match scientific.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", scientific),
    };
    let Some((mantissa, exponent)) = unsigned.split_once('e') else {
        return special(negative, unsigned);
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..digits).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{negative}{mantissa}e{sign}{:02}", exponent.unsigned_abs());
    }
    let figures = mantissa.replace('.', "");
    let Ok(point) = usize::try_from(exponent + 1) else {
        let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
        return format!("{negative}0.{zeros}{figures}");
    };
    match figures.split_at_checked(point) {
        Some(("", fraction)) => format!("{negative}0.{fraction}"),
        Some((whole, "")) => format!("{negative}{whole}"),
        Some((whole, fraction)) => format!("{negative}{whole}.{fraction}"),
        None => format!("{negative}{figures:0<point$}"),
    }
}

fn special(sign: &str, text: &str) -> String {
    if text == "inf" { format!("{sign}Infinity") } else { "NaN".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_read_as_in_postgresql() {
        let check = |value, text: &str| assert_eq!(double(value, 1), text);
        check(0.0, "0");
        check(-0.0, "-0");
        check(1.0, "1");
        check(-1.5, "-1.5");
        check(0.1, "0.1");
        check(0.0001, "0.0001");
        check(0.00001, "1e-05");
        check(0.1 + 0.2, "0.30000000000000004");
        check(123_456_789_012_345.0, "123456789012345");
        check(1e15, "1e+15");
        check(1.25e100, "1.25e+100");
        check(f64::INFINITY, "Infinity");
        check(f64::NEG_INFINITY, "-Infinity");
        check(f64::NAN, "NaN");
    }

    #[test]
    fn fewer_digits_round() {
        assert_eq!(double(0.1 + 0.2, 0), "0.3");
        assert_eq!(double(2.0 / 3.0, -12), "0.667");
        assert_eq!(double(1e20, 0), "1e+20");
        assert_eq!(double(f64::INFINITY, 0), "Infinity");
        assert_eq!(single(0.1, 1), "0.1");
        assert_eq!(single(1e6, 1), "1e+06");
    }
}
