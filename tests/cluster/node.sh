#!/usr/bin/env bash
# The node: the first process of its own PID, mount, network, IPC and UTS namespaces. Started by up.sh. When it ends,
# everything of the cluster ends with it, containers too.
set -euo pipefail
. "$(dirname "$0")/wait.sh"
state=$1 programs=$2 images=$3 baton=$4 ip=$5
log=$state/log keys=$state/keys
export PATH=$programs:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
unset KUBECONFIG HTTP_PROXY HTTPS_PROXY http_proxy https_proxy

hostname node
# A mount namespace of our own; what containers mount is shared inside it only.
mount --make-rshared /
mount -t tmpfs tmpfs /run
mkdir -p /run/lock /run/netns "$state"/{containerd,kubelet,cni,etcd} "$log"/{pods,containers}
mkdir -p /var/lib/kubelet /var/log/pods /var/log/containers /var/lib/cni
mount --bind "$state/kubelet" /var/lib/kubelet
mount --bind "$log/pods" /var/log/pods
mount --bind "$log/containers" /var/log/containers
mount --bind "$state/cni" /var/lib/cni
# Another network, other names.
echo "nameserver $ip" >"$state/resolv.conf"
printf '127.0.0.1 localhost\n%s node\n' "$ip" >"$state/hosts"
mount --bind "$state/hosts" /etc/hosts
mount --bind "$state/resolv.conf" /etc/resolv.conf
# The kubelet sets these for the whole machine; it finds copies.
mkdir "$state/sysctl"
for key in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys \
    kernel/keys/root_maxbytes; do
    cat "/proc/sys/$key" >"$state/sysctl/${key//\//.}"
    mount --bind "$state/sysctl/${key//\//.}" "/proc/sys/$key"
done

ip link set lo up
ip addr add "$ip/32" dev lo
# kube-proxy and the kubelet want a default route to find the node's address; it leads nowhere.
ip link add uplink type veth peer name nowhere
ip addr add 10.99.1.1/24 dev uplink
ip link set uplink up
ip link set nowhere up
ip route add default via 10.99.1.2 dev uplink
sysctl -qw net.ipv4.ip_forward=1

start() { # NAME PROGRAM ARGUMENT…
    local name=$1
    shift
    "$@" >>"$log/$name.log" 2>&1 &
    echo $! >"$state/$name.pid"
}
admin() { kubectl --kubeconfig "$keys/admin.kubeconfig" "$@"; }

start containerd containerd --config "$state/etc/containerd.toml"
start etcd etcd --data-dir "$state/etcd" --listen http://127.0.0.1:2379
start apiserver kube-apiserver --etcd-servers=http://127.0.0.1:2379 --bind-address=0.0.0.0 --secure-port=6443 \
    --advertise-address="$ip" --service-cluster-ip-range=10.96.0.0/16 --authorization-mode=Node,RBAC \
    --enable-admission-plugins=NodeRestriction --allow-privileged=true --client-ca-file="$keys/ca.crt" \
    --tls-cert-file="$keys/apiserver.crt" --tls-private-key-file="$keys/apiserver.key" \
    --kubelet-client-certificate="$keys/kubelet-client.crt" --kubelet-client-key="$keys/kubelet-client.key" \
    --kubelet-preferred-address-types=InternalIP \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local \
    --service-account-signing-key-file="$keys/accounts.key" --service-account-key-file="$keys/accounts.key" \
    --audit-policy-file="$state/etc/audit.yaml" --audit-log-path="$log/audit.log"
wait_for 60 admin get --raw /readyz
start controllers kube-controller-manager --kubeconfig="$keys/controllers.kubeconfig" \
    --authentication-kubeconfig="$keys/controllers.kubeconfig" \
    --authorization-kubeconfig="$keys/controllers.kubeconfig" \
    --service-account-private-key-file="$keys/accounts.key" --root-ca-file="$keys/ca.crt" \
    --use-service-account-credentials=true --leader-elect=false --bind-address=127.0.0.1
start scheduler kube-scheduler --kubeconfig="$keys/scheduler.kubeconfig" --leader-elect=false --bind-address=127.0.0.1 \
    --authentication-kubeconfig="$keys/scheduler.kubeconfig" --authorization-kubeconfig="$keys/scheduler.kubeconfig"
wait_for 30 ctr version
for image in "$images"/*.tar "$baton"; do
    ctr --namespace k8s.io images import "$image" >>"$log/images.log" 2>&1
done
# Where docs/install.md pushes it.
name=$(ctr --namespace k8s.io images list --quiet | grep '/baton:')
ctr --namespace k8s.io images tag "$name" "registry.example.com/baton:${name##*:}"
# Started again when it is killed, as systemd would.
kubelets() {
    while true; do
        kubelet "$@" || true
        # As long as it is away.
        last_for 1
    done
}
start kubelets kubelets --config="$state/etc/kubelet.yaml" --kubeconfig="$keys/kubelet.kubeconfig" \
    --hostname-override=node --node-ip="$ip" --root-dir=/var/lib/kubelet
start proxy kube-proxy --config="$state/etc/proxy.yaml"
start dns dns --listen "$ip:53" --kubeconfig "$keys/admin.kubeconfig"
wait_for 60 admin get node node
admin wait --for=condition=Ready node/node --timeout=60s
touch "$state/ready"
# Goes on until it is killed, and reaps what nobody else waits for.
wait
