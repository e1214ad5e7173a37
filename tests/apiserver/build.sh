#!/usr/bin/env bash
# Builds the API server and the client-go participants of the tests, of today and of 1.26, unless they are there, and
# prints their folder: target/apiserver/<hash of the sources>. The first time it downloads some 100 MB of Go modules and
# takes minutes.
set -euo pipefail
cd "$(dirname "$0")"
target=${BATON_APISERVER_TARGET:-../../target/apiserver}

command -v go >/dev/null || {
    echo "tests/apiserver/build.sh: Go is missing; install it from https://go.dev/dl (go.mod names the version)." \
        "The server, but not client-go's participant, can be replaced by a cluster of yours: KUBECONFIG" >&2
    exit 69
}
# The compiler belongs to the sources: go.mod only names the oldest that will do.
key=$({ go env GOVERSION GOOS GOARCH; cat build.sh *.mod *.sum cmd/*/*.go; } | sha256sum | cut -c1-16)
mkdir -p "$target"
target=$(cd "$target" && pwd)
exec 9>"$target/lock"
flock 9
if [ ! -e "$target/$key/apiserver" ]; then
    echo "tests/apiserver/build.sh: building the API server; the first time this takes minutes" >&2
    # Not what another run may be using at this moment.
    find "$target" -mindepth 1 -maxdepth 1 -type d -mtime +7 -exec rm -rf {} +
    rm -rf "$target/new"
    unformatted=$(gofmt -l cmd)
    [ -z "$unformatted" ] || { echo "tests/apiserver/build.sh: gofmt would change: $unformatted" >&2; exit 1; }
    # What the API server says of itself: the release whose code it is.
    version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
    IFS=. read -r major minor _ <<<"${version#v}"
    set=-X=k8s.io/component-base/version
    flags="-s -w $set.gitVersion=$version $set.gitMajor=$major $set.gitMinor=$minor"
    # Moved in one step, so that an interrupted build leaves nothing that looks complete.
    go build -trimpath -buildvcs=false -ldflags="$flags" -o "$target/new/" ./cmd/apiserver ./cmd/client >&2
    # The same participant with modules of its own.
    go build -trimpath -buildvcs=false -ldflags='-s -w' -modfile=client-1.26.mod -o "$target/new/client-1.26" \
        ./cmd/client >&2
    mv "$target/new" "$target/$key"
fi
touch "$target/$key"
echo "$target/$key"
