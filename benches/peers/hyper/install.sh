#!/usr/bin/env bash
# Builds this folder's program with hyper from crates.io into the folder $1.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
to=$1

CARGO_TARGET_DIR="$to/target" cargo build --quiet --release --locked --manifest-path "$here/Cargo.toml" >&2
cp "$to/target/release/hyper-peer" "$to/run"
rm -rf "$to/target"
echo "hyper $(sed -n '/^name = "hyper"$/{n;s/version = "\(.*\)"/\1/p}' "$here/Cargo.lock")" >"$to/version"
