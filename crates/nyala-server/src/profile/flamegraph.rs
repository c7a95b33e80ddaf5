//! A profile as a picture: each box a function, as wide as its share, below the function that called it.
//!
//! The picture needs no other file and no script: the name and weight of a box appear when the mouse is over it.

use std::fmt::Write;

use super::Profile;

const WIDTH: f64 = 1400.0;
const ROW: f64 = 17.0;
const TITLE: f64 = 30.0;
/// Narrower boxes cannot be seen.
const NARROWEST: f64 = 0.2;
/// Width of the letters in boxes.
const LETTER: f64 = 6.6;

/// A box: the part of the total weight from `start` to `end`.
#[derive(Debug, PartialEq, Eq)]
struct Span<'a> {
    name: &'a str,
    depth: usize,
    start: u64,
    end: u64,
}

/// Draws a profile.
pub fn svg(profile: &Profile, title: &str) -> String {
    let total = profile.total();
    let mut spans = spans(profile);
    spans.push(Span { name: "all", depth: 0, start: 0, end: total });
    let scale = WIDTH / total.max(1) as f64;
    spans.retain(|span| (span.end - span.start) as f64 * scale >= NARROWEST);
    let depth = spans.iter().map(|span| span.depth).max().unwrap_or_default();
    let height = TITLE + ROW * (depth + 1) as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"monospace\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"4\" y=\"19\" font-size=\"14\">{}</text>\n",
        escaped(&format!("{title}: {}", profile.unit.show(total)))
    );
    for span in &spans {
        draw(&mut out, span, scale, profile, total);
    }
    out += "</svg>\n";
    out
}

fn draw(out: &mut String, span: &Span<'_>, scale: f64, profile: &Profile, total: u64) {
    let weight = span.end - span.start;
    let (x, width) = (span.start as f64 * scale, weight as f64 * scale);
    let y = TITLE + ROW * span.depth as f64;
    let share = 100.0 * weight as f64 / total.max(1) as f64;
    let title = format!("{} ({}, {share:.2} %)", span.name, profile.unit.show(weight));
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "<g><title>{}</title><rect x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{}\" fill=\"{}\"/>\
         <text x=\"{:.2}\" y=\"{}\">{}</text></g>",
        escaped(&title),
        ROW - 1.0,
        colour(span.name),
        x + 3.0,
        y + 12.0,
        escaped(&fitting(span.name, width)),
    );
}

/// Boxes of all functions below the first row. Stacks that begin alike share the boxes of that beginning.
fn spans(profile: &Profile) -> Vec<Span<'_>> {
    let (mut open, mut closed, mut at) = (Vec::new(), Vec::new(), 0);
    for (stack, weight) in profile.stacks() {
        let shared = open.iter().zip(stack).take_while(|((name, _), frame)| name == frame).count();
        close(&mut open, shared, at, &mut closed);
        open.extend(stack.iter().skip(shared).map(|name| (name.as_str(), at)));
        at += weight;
    }
    close(&mut open, 0, at, &mut closed);
    closed
}

fn close<'a>(open: &mut Vec<(&'a str, u64)>, keep: usize, end: u64, closed: &mut Vec<Span<'a>>) {
    let ended = open.drain(keep..).enumerate();
    closed.extend(ended.map(|(below, (name, start))| Span { name, depth: keep + below + 1, start, end }));
}

/// As much of a name as there is room for.
fn fitting(name: &str, width: f64) -> String {
    let letters = ((width - 6.0) / LETTER).max(0.0) as usize;
    if letters < 3 {
        return String::new();
    }
    if name.chars().count() <= letters {
        return name.to_owned();
    }
    name.chars().take(letters - 1).chain(['…']).collect()
}

/// A colour that all functions of a crate share.
fn colour(name: &str) -> String {
    let path = name.trim_start_matches(['<', '&']);
    let of = path.split("::").next().unwrap_or_default();
    let hash =
        of.bytes().fold(2_166_136_261_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(16_777_619));
    format!("hsl({},65%,{}%)", hash % 360, 72 + hash / 360 % 10)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
    use std::time::Duration;

    use super::super::Unit;
    use super::*;

    fn profile(stacks: &[(&str, u64)]) -> Profile {
        let mut profile = Profile::new(Unit::Nanoseconds, 1_000_000, Duration::from_secs(1));
        for (stack, weight) in stacks {
            profile.add(stack.split(' ').map(str::to_owned).collect(), *weight);
        }
        profile
    }

    #[test]
    fn functions_lie_below_their_callers_and_beside_their_siblings() {
        let profile = profile(&[("a b c", 2), ("a d", 3), ("a b", 1), ("e b", 4)]);
        let mut found = spans(&profile);
        found.sort_by_key(|span| (span.depth, span.start));
        let span = |name, depth, start, end| Span { name, depth, start, end };
        let expected = [
            span("a", 1, 0, 6),
            span("e", 1, 6, 10),
            span("b", 2, 0, 3),
            span("d", 2, 3, 6),
            span("b", 2, 6, 10),
            span("c", 3, 1, 3),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn names_are_escaped_shortened_and_told_in_full() {
        let drawn = svg(&profile(&[("main <T&U>::f", 1), (&format!("main {}", "x".repeat(900)), 1)]), "CPU");
        assert!(drawn.contains("<title>&lt;T&amp;U&gt;::f (0 ms, 50.00 %)</title>"), "{drawn}");
        assert!(drawn.contains("xxx…</text>"), "{drawn}");
        assert!(!drawn.contains("<script"), "{drawn}");
    }

    #[test]
    fn nothing_is_a_picture_too() {
        let drawn = svg(&profile(&[]), "CPU");
        assert!(drawn.starts_with("<svg") && drawn.ends_with("</svg>\n"), "{drawn}");
    }
}
