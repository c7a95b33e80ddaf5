#!/usr/bin/env bash
# Builds what a release has, for the machine that it runs on: the binary with the profile `dist`, an archive of it with unit and
# configuration, and the wheel for Python.
#
#   deploy/release.sh [FOLDER]    default: target/packages
#
# From the environment: MAX_MB, above which a binary is refused (default 90); NO_WHEEL=1 leaves the wheel out; ZIG=1 builds one for
# manylinux2014, which needs `ziglang` beside `maturin`.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"
out=$(realpath -m "${1:-$CARGO_TARGET_DIR/packages}")
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
platform=$(rustc -vV | sed -n 's/^host: //p')
name="nyala-$version-$platform"
mkdir -p "$out"

# An archive with the same contents has the same bytes, whenever it is made.
archive() {
    local staged
    staged=$(mktemp -d)
    install -D -m 755 "$CARGO_TARGET_DIR/dist/nyala" "$staged/$name/bin/nyala"
    install -D -m 644 -t "$staged/$name" LICENSE README.md CHANGELOG.md deploy/nyala.toml
    install -D -m 644 -t "$staged/$name/systemd" deploy/systemd/nyala.service deploy/systemd/nyala.sysusers
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" \
        -C "$staged" -c "$name" | gzip -9n >"$out/$name.tar.gz"
    rm -r "$staged"
}

wheel() {
    local tools="$CARGO_TARGET_DIR/packages-venv" zig=()
    if [ ! -x "$tools/bin/maturin" ]; then
        python3 -m venv "$tools"
        "$tools/bin/pip" install --quiet 'maturin>=1.16,<2' ziglang
    fi
    [ -z "${ZIG:-}" ] || zig=(--zig --compatibility manylinux2014)
    # The binary is there already: cargo only looks whether it is new.
    (cd python && PATH="$tools/bin:$PATH" maturin build --profile dist --locked "${zig[@]}" --out "$out")
}

cargo build --profile dist --locked -p nyala-cli
"$CARGO_TARGET_DIR/dist/nyala" --version
archive
[ -n "${NO_WHEEL:-}" ] || wheel
shopt -s nullglob
(cd "$out" && sha256sum -- *.tar.gz *.whl >SHA256SUMS)

bytes=$(stat -c %s "$CARGO_TARGET_DIR/dist/nyala")
printf '%-60s %6.1f MB\n' nyala "$(awk "BEGIN { print $bytes / 1e6 }")"
find "$out" -maxdepth 1 -type f -printf '%f %s\n' | sort | awk '{ printf "%-60s %6.1f MB\n", $1, $2 / 1e6 }'
if [ "$bytes" -gt $((${MAX_MB:-90} * 1000000)) ]; then
    echo "the binary is larger than ${MAX_MB:-90} MB" >&2
    exit 1
fi
