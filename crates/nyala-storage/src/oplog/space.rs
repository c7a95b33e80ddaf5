//! Memory for much data at once, as of a section of a file.

use arrow_buffer::{Buffer, MutableBuffer};
use memmap2::MmapMut;

/// Memory of at least this size is mapped from the system, in huge pages where there are any: a fault for each 4 KiB
/// takes a quarter of the time in which a recovery reads values.
const MAPPED_BYTES: usize = 4 << 20;

/// Short-lived memory of at least this size is mapped: an allocator keeps freed memory for seconds, and a recovery
/// needs much at once.
const BRIEFLY_MAPPED_BYTES: usize = 256 << 10;

/// Zeroed memory, aligned for every type.
pub enum Space {
    Allocated(MutableBuffer),
    Mapped(MmapMut),
}

impl Space {
    pub fn new(bytes: usize) -> Self {
        Self::mapped_from(MAPPED_BYTES, bytes)
    }

    /// Zeroed memory that is soon given back.
    pub fn brief(bytes: usize) -> Self {
        Self::mapped_from(BRIEFLY_MAPPED_BYTES, bytes)
    }

    fn mapped_from(least: usize, bytes: usize) -> Self {
        // Mapping may fail, because a process may have only so many mappings.
        let mapped = (bytes >= least).then(|| MmapMut::map_anon(bytes).ok()).flatten();
        match mapped {
            Some(mapped) => {
                if bytes >= MAPPED_BYTES {
                    ask_for_huge_pages(&mapped);
                }
                Self::Mapped(mapped)
            }
            // Memory of zeros, which the allocator need not write before it is read.
            None => Self::Allocated(MutableBuffer::from(vec![0_i128; bytes.div_ceil(size_of::<i128>())])),
        }
    }

    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        match self {
            Self::Allocated(buffer) => buffer.as_slice_mut(),
            Self::Mapped(mapped) => mapped,
        }
    }

    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Allocated(buffer) => buffer.as_slice(),
            Self::Mapped(mapped) => mapped,
        }
    }

    /// The first `bytes` bytes.
    pub fn into_buffer(self, bytes: usize) -> Buffer {
        match self {
            Self::Allocated(mut buffer) => {
                buffer.truncate(bytes);
                buffer.into()
            }
            Self::Mapped(mapped) => {
                Buffer::from(bytes::Bytes::from_owner(mapped)).slice_with_length(0, bytes)
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn ask_for_huge_pages(mapped: &MmapMut) {
    // A kernel without huge pages refuses; small pages do as well.
    let _refused = mapped.advise(memmap2::Advice::HugePage);
}

#[cfg(not(target_os = "linux"))]
fn ask_for_huge_pages(_: &MmapMut) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_sections_keep_what_was_written() {
        let sizes = [BRIEFLY_MAPPED_BYTES, MAPPED_BYTES].map(|bytes| [bytes - 16, bytes, bytes + 4096]);
        let sizes = sizes.into_iter().flatten().chain([0, 1, 4096]);
        let spaces = sizes.flat_map(|bytes| {
            let room = bytes.next_multiple_of(16);
            [(bytes, Space::new(room)), (bytes, Space::brief(room))]
        });
        for (bytes, mut space) in spaces {
            assert!(space.as_mut_slice().iter().all(|byte| *byte == 0));
            assert_eq!(space.as_mut_slice().len(), bytes.next_multiple_of(16));
            space.as_mut_slice().fill(7);
            let buffer = space.into_buffer(bytes);
            assert_eq!(buffer.len(), bytes);
            assert_eq!(buffer.as_ptr().align_offset(16), 0);
            assert!(buffer.iter().all(|byte| *byte == 7));
        }
    }
}
