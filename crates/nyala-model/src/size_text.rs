//! Text form of sizes, in the configuration and for people.

use bytesize::ByteSize;

/// A number of bytes, or one with `kB`, `MB`, `GB`, `TB` (powers of 1000) or `KiB`, `MiB`, `GiB`, `TiB`
/// (powers of 1024), in any case; none for other texts and for sizes beyond 64 bits.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.parse::<u64>() {
        Ok(bytes) => Some(bytes),
        // `ByteSize` gives `u64::MAX` for larger sizes.
        Err(_) => text.parse::<ByteSize>().ok().map(|size| size.as_u64()).filter(|bytes| *bytes < u64::MAX),
    }
}

/// A number of bytes for people, in powers of 1024: `1.5 GiB`.
pub fn show_size(bytes: u64) -> String {
    ByteSize::b(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_in_the_largest_unit() {
        let check = |bytes, text: &str| assert_eq!(show_size(bytes), text);
        check(0, "0 B");
        check(3 << 29, "1.5 GiB");
        check(512 << 20, "512.0 MiB");
    }

    #[test]
    fn sizes_are_read_with_their_units() {
        let check = |text, bytes: Option<u64>| assert_eq!(parse_size(text), bytes, "{text}");
        check("0", Some(0));
        check(" 1048576 ", Some(1 << 20));
        check("2GB", Some(2_000_000_000));
        check("2 gb", Some(2_000_000_000));
        check("512MiB", Some(512 << 20));
        check("1.5 GiB", Some(3 << 29));
        check("64KiB", Some(64 << 10));
        check("3TiB", Some(3 << 40));
        for nonsense in [
            "",
            "GB",
            "-1",
            "-2GB",
            "2XB",
            "2GB2",
            "many",
            "99999999999999TiB",
            "18446744073709551616",
            "NaN",
        ] {
            check(nonsense, None);
        }
    }
}
