#!/usr/bin/env bash
# Builds the programs of a one-node Kubernetes (node/) and Helm (helm/) unless they are there, and prints their folder:
# target/cluster/<hash of the sources>. The first time it downloads some 300 MB of Go modules and takes minutes.
# BATON_KUBERNETES: a version for which node/ has a go-VERSION.mod, in place of the one of go.mod.
set -euo pipefail
cd "$(dirname "$0")"

command -v go >/dev/null || {
    echo "tests/cluster/build.sh: Go is missing; install it from https://go.dev/dl (node/go.mod names the version)" >&2
    exit 77
}
target=$PWD/../../target/cluster
mkdir -p "$target"
target=$(cd "$target" && pwd)
modules=go${BATON_KUBERNETES:+-$BATON_KUBERNETES}
[ -e "node/$modules.mod" ] || {
    echo "tests/cluster/build.sh: BATON_KUBERNETES=$BATON_KUBERNETES: there is no node/$modules.mod" >&2
    exit 1
}
# The compiler belongs to the sources: go.mod only names the oldest that will do.
sources=(build.sh {node/"$modules",helm/go}.{mod,sum} node/cmd/node/*.go)
key=$({ go -C node env GOVERSION GOOS GOARCH; cat "${sources[@]}"; } | sha256sum | cut -c1-16)
exec 9>"$target/lock"
flock 9
if [ ! -e "$target/$key" ]; then
    echo "tests/cluster/build.sh: building Kubernetes and Helm; the first time this takes minutes" >&2
    rm -rf "$target/new"
    unformatted=$(gofmt -l node/cmd)
    [ -z "$unformatted" ] || { echo "tests/cluster/build.sh: gofmt would change: $unformatted" >&2; exit 1; }
    # What the programs say of themselves: the release whose code they are.
    version_of() { go -C "$1" list -modfile="$2.mod" -m -f '{{.Version}}' "$3"; }
    version=$(version_of node "$modules" k8s.io/kubernetes)
    IFS=. read -r major minor _ <<<"${version#v}"
    set=-X=k8s.io/component-base/version
    flags="-s -w $set.gitVersion=$version $set.gitMajor=$major $set.gitMinor=$minor"
    CGO_ENABLED=0 go -C node build -modfile="$modules.mod" -trimpath -buildvcs=false -ldflags="$flags" \
        -o "$target/new/" ./cmd/node >&2
    for name in kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl etcd dns keys; do
        ln -s node "$target/new/$name"
    done
    version=$(version_of helm go helm.sh/helm/v3)
    flags="-s -w -X=helm.sh/helm/v3/internal/version.version=$version"
    CGO_ENABLED=0 go -C helm build -trimpath -buildvcs=false -ldflags="$flags" -o "$target/new/" \
        helm.sh/helm/v3/cmd/helm >&2
    # Moved in one step, so that an interrupted build leaves nothing that looks complete.
    mv "$target/new" "$target/$key"
fi
echo "$target/$key"
