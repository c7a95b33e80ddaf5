//! Charts of a server's memory, threads, files, throughput and errors in the course of a long run.

use super::chart::{Chart, Scale};
use super::document::{Report, RunReport};
use crate::bench::load::Held;

/// The charts of each long run.
pub fn courses(report: &Report) -> String {
    let long = report.runs.iter().filter(|run| !run.course.is_empty());
    let section = |run: &RunReport| {
        let charts = course(&run.course);
        format!("<h2>The server with {} clients</h2><div class=\"charts\">{charts}</div>\n", run.clients)
    };
    long.map(section).collect()
}

fn course(course: &[Held]) -> String {
    let places = named_seconds(course);
    let chart = |title, lines| {
        Chart { title, axis: "seconds", places: places.clone(), lines, scale: Scale::Linear }.svg()
    };
    let line = |name: &str, value: fn(&Held) -> Option<f64>| {
        (name.to_owned(), course.iter().map(value).collect::<Vec<_>>())
    };
    let megabytes = vec![
        line("proportional set size", |held| Some(held.memory_bytes? as f64 / 1e6)),
        line("resident set size", |held| Some(held.resident_bytes? as f64 / 1e6)),
    ];
    let held = [
        chart("Memory in MB", megabytes),
        chart("Threads", vec![line("threads", |held| Some(held.threads? as f64))]),
        chart("Open files and sockets", vec![line("open", |held| Some(held.open_files? as f64))]),
        chart("Queries per second", vec![("queries".to_owned(), rates(course))]),
        chart("Errors so far", vec![line("errors", |held| Some(held.errors as f64))]),
    ];
    held.concat()
}

/// Names of the seconds: the first, the last, and every sixth part between have one.
fn named_seconds(course: &[Held]) -> Vec<String> {
    let last = course.len().saturating_sub(1);
    let step = (last / 6).max(1);
    let name = |(place, held): (usize, &Held)| {
        let named = place == last || (place.is_multiple_of(step) && place + step / 2 <= last);
        if named { format!("{:.0}", held.at_seconds) } else { String::new() }
    };
    course.iter().enumerate().map(name).collect()
}

/// Queries a second since the measurement before; none for the first one.
fn rates(course: &[Held]) -> Vec<Option<f64>> {
    let rate = |pair: &[Held]| match pair {
        [before, now] => {
            let seconds = now.at_seconds - before.at_seconds;
            Some(now.ended.saturating_sub(before.ended) as f64 / seconds.max(1e-9))
        }
        _ => None,
    };
    std::iter::once(None).chain(course.windows(2).map(rate)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(at_seconds: f64, ended: u64) -> Held {
        let (memory_bytes, resident_bytes) = (Some(2_000_000), Some(3_000_000));
        Held {
            at_seconds,
            memory_bytes,
            resident_bytes,
            threads: Some(4),
            open_files: None,
            ended,
            errors: 0,
        }
    }

    #[test]
    fn rates_are_those_between_looks() {
        let looks = [look(0.0, 100), look(2.0, 300), look(3.0, 300)];
        assert_eq!(rates(&looks), [None, Some(100.0), Some(0.0)]);
    }

    #[test]
    fn every_course_is_drawn_with_its_last_second_named() {
        for count in [1, 2, 5, 119, 360] {
            let looks: Vec<_> = (0..count).map(|place| look(f64::from(place) * 10.0, 7)).collect();
            let names = named_seconds(&looks);
            assert!(names.iter().filter(|name| !name.is_empty()).count() <= 8, "{names:?}");
            assert_eq!(names.last(), Some(&format!("{}", (count - 1) * 10)));
            let drawn = course(&looks);
            assert_eq!(drawn.matches("<svg").count(), 5);
            assert!(drawn.contains("resident set size: 3<") && !drawn.contains("NaN"), "{drawn}");
        }
    }
}
