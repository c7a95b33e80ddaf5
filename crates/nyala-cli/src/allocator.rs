//! Who gives the process its memory.
//!
//! Planning a query allocates and frees thousands of small objects on several threads, and a server with many
//! clients must not keep what they freed. `benchmarks/serving/allocators.sh` compares the three: with jemalloc queries from
//! cuboids cost the least CPU, in a little more than half the memory that mimalloc keeps in huge pages.

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[cfg(all(feature = "mimalloc", not(feature = "jemalloc")))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
