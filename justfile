# Recipes for https://just.systems. Each is a plain command that can be typed instead.

# Lists the recipes
default:
    @just --list

# Generates a benchmark, builds its cube, compares 13 queries and serves until Ctrl-C
demo *arguments:
    cargo run --release -- demo {{arguments}}

# Serves a data folder
serve *arguments:
    cargo run --release -- serve {{arguments}}

# All tests
test *arguments:
    cargo test --release --workspace {{arguments}}

# Tests while editing: compiles only what has changed, without optimising it, with the same dependencies
quick *arguments:
    cargo test --release --workspace --config quick.toml {{arguments}}

# Shows mutants to every decoder, each for this many seconds; `NYALA_FUZZ=10000000` instead counts them
fuzz seconds="60":
    NYALA_FUZZ_SECONDS={{seconds}} cargo test --release -p nyala-cli -p nyala-server -p nyala-sql -p nyala-cube --lib fuzz -- --test-threads=1 --nocapture

# Sends damaged bodies of every format to a running server
mutants count="100000":
    NYALA_MUTANTS={{count}} cargo test --release -p nyala-cli --test it mutants

# Asks DataFusion's and SQLite's test files and random queries of PostgreSQL and Nyala; `EVERY=1` asks all of them, for hours
foreign *suites:
    tests/foreign/run.sh {{suites}}

# What needs a binary that takes profiles; its dependencies make a second build of DataFusion
test-profiling:
    cargo test --release --workspace --features profiling profile

# Rewrites the golden file of stored states; raise a state version when it changes
golden:
    NYALA_UPDATE_GOLDEN=1 cargo test --release -p nyala-cli --test it stored_states

# Formatting and lints
check:
    cargo fmt --all --check
    cargo clippy --release --workspace --all-targets -- -D warnings

# What takes too long for each change: `crashes`, `fuzz`, `mutants`, `foreign` or `licences`
night mode:
    .ci/night {{mode}}

# Builds the packages of a release: archive, wheel, chart, checksums
release *arguments:
    deploy/release.sh {{arguments}}

# Licences, advisories and sources of the dependencies; needs `cargo install cargo-deny`
deny:
    cargo deny check

# What must pass before a change is merged
ci: check test deny
