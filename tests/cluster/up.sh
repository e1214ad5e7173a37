#!/usr/bin/env bash
# A one-node Kubernetes for as long as a command runs, a shell if none is named: tests/cluster/up.sh [COMMAND…]
# In it `kubectl` and `helm` are of that cluster; BATON_CLUSTER names the folder of its logs and keys,
# BATON_CLUSTER_NODE the first process of the node. It has the image that `make image` makes (or BATON_IMAGE, another
# archive).
# Nothing is left but the logs, below target/cluster/state.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/wait.sh"
[ "$(id -u)" -eq 0 ] || { echo "tests/cluster/up.sh: a node takes root" >&2; exit 77; }
programs=$("$here/build.sh")
images=$("$here/images.sh")
top=$(cd "$here/../.." && pwd)
image=${BATON_IMAGE:-$(ls "$top"/target/image/baton-*.tar)}
state=$top/target/cluster/state
ip=10.99.0.1

# There is one on a machine: its addresses and its control groups are known by their names.
exec 9>"$top/target/cluster/running"
flock --nonblock 9 || { echo "tests/cluster/up.sh: it runs already" >&2; exit 1; }
# What containers leave in the machine's tree of control groups, here and where an earlier run was killed.
swept() {
    local ours=(-path '*/kubepods*' -o -path '*/k8s.io*')
    find /sys/fs/cgroup -depth -type d \( "${ours[@]}" \) -exec rmdir {} + || true
    [ -z "$(find /sys/fs/cgroup -type d \( "${ours[@]}" \) -print -quit)" ]
}
sweep() {
    # What was killed a moment ago may not have left its groups yet.
    wait_for 10 swept || true
    rm -rf "$state"/{containerd,kubelet,etcd,cni,keys,bin}
}
sweep
rm -rf "$state"
mkdir -p "$state"/{log,bin,etc/cni}
for file in containerd.toml kubelet.yaml proxy.yaml audit.yaml; do
    sed "s|@STATE@|$state|g; s|@IP@|$ip|g" "$here/etc/$file" >"$state/etc/$file"
done
cp "$here/etc/cni.conflist" "$state/etc/cni/10-pods.conflist"
"$programs/keys" -dir "$state/keys" -server "https://$ip:6443" -address "$ip" -node node

began=$SECONDS
unshare --mount --propagation private --net --pid --ipc --uts --fork --kill-child --mount-proc \
    "$here/node.sh" "$state" "$programs" "$images" "$image" "$ip" </dev/null >>"$state/log/node.log" 2>&1 9>&- &
outer=$!
end() {
    kill -9 "$outer" 2>/dev/null || true
    wait "$outer" 2>/dev/null || true
    sweep
}
trap end EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
ready_or_gone() { [ -e "$state/ready" ] || ! kill -0 "$outer"; }
wait_for 180 ready_or_gone
[ -e "$state/ready" ] || { echo "the node has ended: $(tail -n 5 "$state/log/node.log")" >&2; exit 1; }
echo "the node is ready after $((SECONDS - began)) s"

BATON_CLUSTER_NODE=$(pgrep --parent "$outer")
for name in kubectl helm; do
    printf '#!/bin/sh\nexec nsenter --target %s --net env KUBECONFIG=%s %s "$@"\n' \
        "$BATON_CLUSTER_NODE" "$state/keys/admin.kubeconfig" "$programs/$name" >"$state/bin/$name"
    chmod +x "$state/bin/$name"
done
export BATON_CLUSTER_NODE BATON_CLUSTER=$state PATH=$state/bin:$PATH
[ $# -gt 0 ] || set -- "${SHELL:-/bin/sh}"
"$@" 9>&-
