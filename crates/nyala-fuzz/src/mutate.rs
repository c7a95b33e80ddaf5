//! Mutants of valid bodies. They keep most of the structure, so that a decoder gets past its first check.

use crate::random::Random;

/// Most changes in one mutant.
const MAX_CHANGES: usize = 4;
/// Longest run of bytes that one change inserts, repeats or removes.
const MAX_RUN_BYTES: usize = 64;
/// Repetition makes a body at most this long.
const MAX_BODY_BYTES: usize = 1 << 20;
/// Values at which lengths and counts overflow, or are just beyond a limit.
const EDGES: [u64; 14] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_fff8,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_fff8,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_ffff,
];

/// A mutant of one of the bodies.
pub fn mutant(random: &mut Random, bodies: &[Vec<u8>]) -> Vec<u8> {
    let mut body = random.pick(bodies).clone();
    for _ in 0..=random.below(MAX_CHANGES) {
        mutate(random, &mut body, bodies);
    }
    body
}

/// One change: of a bit, a byte, a possible length field, or the body's length, or a splice with another
/// body.
pub fn mutate(random: &mut Random, body: &mut Vec<u8>, bodies: &[Vec<u8>]) {
    if body.is_empty() {
        body.push(random.number() as u8);
        return;
    }
    let at = random.below(body.len());
    match random.below(11) {
        0 | 1 => body[at] ^= 1 << random.below(8),
        2 => body[at] = random.number() as u8,
        3 | 4 => overwrite(random, body, at),
        5 => varint(random, body, at),
        6 => body.truncate(at),
        7 => drop(body.drain(at..(at + run(random)).min(body.len()))),
        8 => drop(body.splice(at..at, (0..run(random)).map(|_| random.number() as u8).collect::<Vec<_>>())),
        9 => repeat(random, body, at),
        _ => splice(random, body, at, bodies),
    }
}

fn run(random: &mut Random) -> usize {
    1 + random.below(MAX_RUN_BYTES)
}

/// Replaces 2, 4 or 8 bytes by an edge, or by a number near the old one, in either byte order.
fn overwrite(random: &mut Random, body: &mut [u8], at: usize) {
    let width = *random.pick(&[2, 4, 8]);
    // Lengths lie at multiples of their width in most formats.
    let at = if random.below(2) == 0 { at - at % width } else { at };
    let Some(place) = body.get_mut(at..at + width) else { return };
    let mut old = [0; 8];
    old[..width].copy_from_slice(place);
    let near = u64::from_le_bytes(old).wrapping_add(random.number() % 33).wrapping_sub(16);
    let value = if random.below(3) == 0 { near } else { *random.pick(&EDGES) };
    if random.below(2) == 0 {
        place.copy_from_slice(&value.to_le_bytes()[..width]);
    } else {
        place.copy_from_slice(&value.to_be_bytes()[8 - width..]);
    }
}

/// Replaces one byte by an edge as a variable-length number, as in Thrift and Parquet's encodings.
fn varint(random: &mut Random, body: &mut Vec<u8>, at: usize) {
    let mut value = *random.pick(&EDGES);
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    body.splice(at..=at, bytes);
}

/// Repeats a part up to 1024 times.
fn repeat(random: &mut Random, body: &mut Vec<u8>, at: usize) {
    let part = body[at..(at + run(random)).min(body.len())].to_vec();
    let times = 1 << random.below(11);
    let room = MAX_BODY_BYTES.saturating_sub(body.len()) / part.len();
    body.splice(at..at, part.repeat(times.min(room)));
}

/// Replaces the end by that of another body.
fn splice(random: &mut Random, body: &mut Vec<u8>, at: usize, bodies: &[Vec<u8>]) {
    let other = random.pick(bodies);
    body.truncate(at);
    body.extend_from_slice(&other[random.below(other.len() + 1)..]);
}
