#!/usr/bin/env bash
# Builds what a release has, for the machine that it runs on: the binary with the profile `dist`, an archive of it with unit and
# configuration, the wheel for Python and, where there is Helm, the chart.
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
staged=$(mktemp -d)
trap 'rm -rf "$staged"' EXIT
# Files of this release; the folder may have those of others.
made=()

# An archive with the same contents has the same bytes, whenever it is made.
archive() {
    install -D -m 755 "$CARGO_TARGET_DIR/dist/nyala" "$staged/$name/bin/nyala"
    install -D -m 644 -t "$staged/$name" LICENSE README.md CHANGELOG.md deploy/nyala.toml
    install -D -m 644 -t "$staged/$name/systemd" deploy/systemd/nyala.service deploy/systemd/nyala.sysusers
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" \
        -C "$staged" -c "$name" | gzip -9n >"$out/$name.tar.gz"
    made+=("$name.tar.gz")
}

wheel() {
    local tools="$CARGO_TARGET_DIR/packages-venv" wheels="$staged/wheels" zig=() file
    if [ ! -x "$tools/bin/maturin" ]; then
        python3 -m venv "$tools"
        "$tools/bin/pip" install --quiet 'maturin>=1.16,<2' ziglang
    fi
    [ -z "${ZIG:-}" ] || zig=(--zig --compatibility manylinux2014)
    # The binary is there already: cargo only looks whether it is new.
    (cd python && PATH="$tools/bin:$PATH" maturin build --profile dist --locked "${zig[@]}" --out "$wheels")
    for file in "$wheels"/*.whl; do
        made+=("$(basename "$file")")
        mv "$file" "$out"
    done
}

chart() {
    local helm charts="$staged/charts" file
    helm=$(command -v helm || echo "$CARGO_TARGET_DIR/tools/helm")
    if [ ! -x "$helm" ]; then
        echo "there is no Helm, and so no package of the chart" >&2
        return
    fi
    "$helm" package --app-version "$version" --destination "$charts" deploy/helm/nyala
    for file in "$charts"/*.tgz; do
        made+=("$(basename "$file")")
        mv "$file" "$out"
    done
}

cargo build --profile dist --locked -p nyala-cli
"$CARGO_TARGET_DIR/dist/nyala" --version
archive
[ -n "${NO_WHEEL:-}" ] || wheel
chart
(cd "$out" && sha256sum -- "${made[@]}" >SHA256SUMS)

bytes=$(stat -c %s "$CARGO_TARGET_DIR/dist/nyala")
for file in "$CARGO_TARGET_DIR/dist/nyala" "${made[@]/#/$out/}"; do
    printf '%-60s %6.1f MB\n' "$(basename "$file")" "$(stat -c %s "$file" | awk '{ print $1 / 1e6 }')"
done
if [ "$bytes" -gt $((${MAX_MB:-90} * 1000000)) ]; then
    echo "the binary is larger than ${MAX_MB:-90} MB" >&2
    exit 1
fi
