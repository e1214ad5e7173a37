#!/usr/bin/env bash
# Builds the API server of the tests, for which client-go needs one, and says in the folder $1 which it is.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
to=$1

mkdir -p "$to"
"$here/../../../tests/apiserver/build.sh" >"$to/folder"
version=$(cd "$here/../../../tests/apiserver" && go list -m -f '{{.Version}}' k8s.io/kubernetes)
echo "Kubernetes' API server $version with its etcd" >"$to/version"
