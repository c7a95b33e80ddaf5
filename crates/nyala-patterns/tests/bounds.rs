//! Patterns, texts and values at the limits: nothing panics, and the work stays linear.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use nyala_patterns::{Moment, Read, Span, Template};

#[test]
fn a_long_pattern_is_written_and_read() {
    let long = "HH24".repeat(100_000);
    let mut out = String::new();
    Template::for_times(&long).unwrap().write(&Moment::default(), &mut out);
    assert_eq!(out.len(), 200_000);
    assert!(Template::for_times(&long).unwrap().read(&"12".repeat(100_000)).is_ok());
    for pattern in ["9", "0", "9V", "FM9.", "RN", ",", "\"", "\\\"", "FM", "th", "S9", "9,"] {
        let Ok(template) = Template::for_numbers(&pattern.repeat(20_000)) else { continue };
        let _ = template.write_decimal(-12_345, 2, &mut out);
        let _ = template.write_float(1e300, &mut out);
        let _ = template.read_number(&"1".repeat(50_000));
    }
}

#[test]
fn a_pattern_over_the_limit_is_refused() {
    let over = "9".repeat(Template::MAX_PATTERN_BYTES + 1);
    assert_eq!(Template::for_times(&over).unwrap_err().sqlstate, "54000");
    assert_eq!(Template::for_numbers(&over).unwrap_err().sqlstate, "54000");
    assert!(Template::for_numbers(&over[1..]).is_ok());
}

#[test]
fn fields_of_the_caller_may_hold_anything() {
    let every = "HH HH24 MI SS MS US FF3 SSSS AM Y,YYY YYYY IYYY I BC MONTH Mon MM DAY Dy DDD IDDD DD D ID W WW IW CC \
                 J Q RM TZH TZM OF";
    let template = Template::for_times(every).unwrap();
    let spans =
        Template::for_intervals("HH24 MI SS US SSSS YYYY IYYY MM DDD IDDD IW WW W J Q RM CC").unwrap();
    let mut out = String::new();
    for year in [i32::MIN, -4714, 0, 9999, i32::MAX] {
        for byte in [0, 1, 13, 255] {
            let (month, day, hour, minute, second) = (byte, byte, byte, byte, byte);
            let (micros, offset_seconds) = (u32::MAX, Some(i32::MIN));
            let zone = Some("zone".repeat(100));
            template.write(
                &Moment { year, month, day, hour, minute, second, micros, offset_seconds, zone },
                &mut out,
            );
            let read = Read {
                year,
                month,
                day,
                hour,
                minute,
                second,
                micros,
                offset_seconds,
                fraction_digits: Some(9),
            };
            let _ = (read.unix_days(), read.unix_micros(i32::MAX));
        }
        for micros in [i64::MIN, i64::MAX] {
            spans.write_span(&Span { months: year, days: year, micros }, &mut out).unwrap();
            template.write(&Moment::from_unix_micros(micros, year), &mut out);
        }
    }
}

#[test]
fn extreme_numbers_are_written() {
    let mut out = String::new();
    for pattern in ["9", "FM9.99", "9.99EEEE", "99V99", "RN", "9th", "S9PR", ""] {
        let Ok(template) = Template::for_numbers(pattern) else { continue };
        for unscaled in [i128::MIN, -1, 0, 1, i128::MAX] {
            for scale in [0, 1, 38, 39, u32::MAX] {
                let _ = template.write_decimal(unscaled, scale, &mut out);
            }
        }
        for value in [f64::MIN, f64::MIN_POSITIVE, -0.0, f64::MAX, f64::NAN, f64::INFINITY] {
            let _ = template.write_float(value, &mut out);
            let _ = template.write_real(value as f32, &mut out);
        }
        let _ = template.write_integer(i32::MIN, &mut out);
        let _ = template.write_bigint(i64::MIN, &mut out);
    }
    assert!(out.len() < 100_000);
}

#[test]
fn random_patterns_and_texts_never_panic() {
    let alphabet: Vec<char> = "YMDHISTFXQWJOCRNPGLVEBAd902.,-+:/ \"\\\té€th<".chars().collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for _ in 0..50_000 {
        let mut word = || (0..next(24)).map(|_| alphabet[next(alphabet.len())]).collect::<String>();
        let (pattern, text) = (word(), word());
        let times = Template::for_times(&pattern).unwrap();
        let mut out = String::new();
        times.write(&Moment::from_unix_micros(0, 0), &mut out);
        let _ = times.write_span(&Span { months: -13, days: -1, micros: -1 }, &mut out);
        for text in [&text, &out] {
            let _ = (times.read(text), times.read_date(text), times.read_timestamp(text));
        }
        let Ok(numbers) = Template::for_numbers(&pattern) else { continue };
        out.clear();
        let _ = (numbers.write_decimal(-1_005, 2, &mut out), numbers.write_float(-10.05, &mut out));
        let _ = (numbers.read_number(&text), numbers.read_number(&out));
    }
}
