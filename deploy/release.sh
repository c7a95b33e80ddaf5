#!/usr/bin/env bash
# Builds what a release has, for the machine that it runs on, and puts it into a folder:
#
#   nyala-VERSION-PLATFORM.tar.gz   the binary of the profile `dist`, unit, configuration and licences
#   nyala-VERSION-py3-….whl         the wheel for Python
#   nyala-VERSION.tgz               the chart, where there is Helm
#   SHA256SUMS                      checksums of these files
#
#   deploy/release.sh [FOLDER]      default: `packages` in the target folder
#
# Optimisation of the whole program takes an hour on two processors, and 17 GB of memory.
#
# It needs Rust, Git, Python 3 with its module `venv`, PyPI for maturin, and tar and coreutils of GNU. From the environment:
#
#   MAX_MB=…              refuses a larger binary; default 240: it had 215 in November 2026
#   NO_WHEEL=1            leaves the wheel out
#   ZIG=1                 compiles everything once more, by Zig, for a wheel of manylinux2014
#   SOURCE_DATE_EPOCH=…   the time of the files in the archive; default: that of the last commit
set -euo pipefail

if [[ $# -gt 1 || "${1:-}" == -* ]]; then
    echo "usage: $0 [FOLDER]" >&2
    exit 2
fi
root=$(cd "$(dirname "$0")/.." && pwd)
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")
export CARGO_TARGET_DIR
out=$(realpath -m "${1:-$CARGO_TARGET_DIR/packages}")
cd "$root"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
platform=$(rustc --print host-tuple)
name="nyala-$version-$platform"
time=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
binary="$CARGO_TARGET_DIR/dist/nyala"
venv="$CARGO_TARGET_DIR/packages-venv"
staged=$(mktemp -d)
notices="$staged/LICENSE-THIRD-PARTY.txt"
copied=()
trap 'rm -rf "$staged" "${copied[@]}"' EXIT
packages="$staged/packages"
mkdir -p "$out" "$packages"

warn_of_changes() {
    if [ -n "$(git status --porcelain 2>/dev/null)" ]; then
        echo "warning: the packages of $version are built with changes that are in no commit" >&2
    fi
}

# All that can be missing is looked for before the build, which takes long.
prepare() {
    warn_of_changes
    deploy/third-party.py "$platform" "$notices"
    [ -z "${NO_WHEEL:-}" ] || return 0
    # An environment that was broken off has no pip.
    [ -x "$venv/bin/pip" ] || python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check 'maturin>=1.16,<2' ${ZIG:+ziglang}
}

# An archive with the same contents has the same bytes, whenever it is made.
archive() {
    install -D -m 755 "$binary" "$staged/$name/bin/nyala"
    install -D -m 644 -t "$staged/$name" LICENSE "$notices" README.md CHANGELOG.md deploy/nyala.toml
    install -D -m 644 -t "$staged/$name/systemd" deploy/systemd/nyala.service deploy/systemd/nyala.sysusers
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$time" -C "$staged" -c "$name" \
        | gzip -9n >"$packages/$name.tar.gz"
}

wheel() {
    local zig=()
    [ -z "${ZIG:-}" ] || zig=(--zig --compatibility manylinux2014)
    # Maturin takes licences from the folder of the package only.
    copied=("$root/python/$(basename "$notices")")
    cp "$notices" "${copied[0]}"
    # The binary is there already, and stripped: cargo only looks whether it is new. To strip it by maturin would be a flag of the compiler, and
    # with another flag cargo optimises the whole program again.
    (cd python && PATH="$venv/bin:$PATH" maturin build --profile dist --locked --strip false "${zig[@]}" --out "$packages")
}

chart() {
    local helm
    helm=$(command -v helm || echo "$CARGO_TARGET_DIR/tools/helm")
    if [ ! -x "$helm" ]; then
        echo "there is no Helm, and so no package of the chart" >&2
        return
    fi
    "$helm" package --app-version "$version" --destination "$packages" deploy/helm/nyala
}

prepare
cargo build --profile dist --locked -p nyala-cli
"$binary" --version
bytes=$(stat -c %s "$binary")
if [ "$bytes" -gt $((${MAX_MB:-240} * 1000000)) ]; then
    echo "$binary has $((bytes / 1000000)) MB, more than the ${MAX_MB:-240} of MAX_MB: nothing is packaged" >&2
    exit 1
fi
archive
[ -n "${NO_WHEEL:-}" ] || wheel
chart
(cd "$packages" && sha256sum -- * >"$staged/SHA256SUMS")

# Nothing is replaced before everything is made; the folder may have files of other releases.
made=("$packages"/*)
mv -- "${made[@]}" "$staged/SHA256SUMS" "$out"
for file in "$binary" "${made[@]/#$packages/$out}" "$out/SHA256SUMS"; do
    printf '%-60s %6.1f MB\n' "$(basename "$file")" "$(stat -c %s "$file" | awk '{ print $1 / 1e6 }')"
done
echo "in $out"
warn_of_changes
