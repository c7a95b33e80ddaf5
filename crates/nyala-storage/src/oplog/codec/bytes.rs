//! Little-endian numbers, variable-length numbers and texts.

/// Bytes being written.
#[derive(Debug, Default)]
pub struct Out(pub(crate) Vec<u8>);

impl Out {
    pub fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Unsigned LEB128.
    pub fn var(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// A length, then the bytes.
    pub fn blob(&mut self, bytes: &[u8]) {
        self.var(bytes.len() as u64);
        self.raw(bytes);
    }

    pub fn text(&mut self, text: &str) {
        self.blob(text.as_bytes());
    }
}

/// Bytes being read; `None` when they end too early or make no sense.
#[derive(Debug, Clone, Copy)]
pub struct In<'a>(pub(crate) &'a [u8]);

impl<'a> In<'a> {
    pub fn raw(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(head)
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.raw(N)?.try_into().ok()
    }

    pub fn u8(&mut self) -> Option<u8> {
        let [byte] = self.array()?;
        Some(byte)
    }

    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.array()?))
    }

    pub fn var(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// A number that says how many things of at least a byte follow: never more than bytes are left.
    pub fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.var()?).ok()?;
        (count <= self.0.len()).then_some(count)
    }

    pub fn small(&mut self) -> Option<u32> {
        u32::try_from(self.var()?).ok()
    }

    pub fn blob(&mut self) -> Option<&'a [u8]> {
        let bytes = self.count()?;
        self.raw(bytes)
    }

    pub fn text(&mut self) -> Option<String> {
        String::from_utf8(self.blob()?.to_vec()).ok()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_cut_ones_do_not() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut out = Out::default();
            out.var(value);
            assert_eq!(In(&out.0).var(), Some(value));
            assert_eq!(In(&out.0[..out.0.len() - 1]).var(), None);
        }
        assert_eq!(In(&[0xFF; 10]).var(), None, "more than 64 bits");
        assert_eq!(In(&[9, 1]).blob(), None, "longer than what is there");
    }
}
