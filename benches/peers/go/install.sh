#!/usr/bin/env bash
# Builds one of this folder's programs, $2, with its Go modules into the folder $1; for etcd, Debian's server besides.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
to=$1 which=$2
command -v go >/dev/null || { echo "go is not installed" >&2; exit 69; }

mkdir -p "$to"
(cd "$here" && go build -trimpath -buildvcs=false -o "$to/run" "./cmd/$which") >&2
module() { (cd "$here" && go list -m -f '{{.Version}}' "$1"); }

case $which in
    client-go) echo "client-go $(module k8s.io/client-go)" ;;
    net-http) echo "net/http of $(go env GOVERSION)" ;;
    redsync) echo "redsync $(module github.com/go-redsync/redsync/v4)" ;;
    etcd)
        server=$(command -v etcd || true)
        if [ -z "$server" ]; then
            # Unpacked, not installed: it needs no rights, and nothing is started.
            command -v apt-get >/dev/null || { echo "etcd is not installed, and this is not a Debian" >&2; exit 69; }
            mkdir -p "$to/debian"
            (cd "$to/debian" && apt-get download -q etcd-server && dpkg-deb -x etcd-server_*.deb .) >&2
            server=$to/debian/usr/bin/etcd
        fi
        # serve PORT FOLDER [HOST]
        cat >"$to/serve" <<END
#!/bin/sh
exec '$server' --data-dir "\$2" --listen-client-urls "http://\${3:-127.0.0.1}:\$1" --log-level error \\
    --advertise-client-urls "http://\${3:-127.0.0.1}:\$1" --listen-peer-urls http://127.0.0.1:0 \\
    --initial-advertise-peer-urls http://127.0.0.1:1 --initial-cluster default=http://127.0.0.1:1
END
        chmod +x "$to/serve"
        version=$("$server" --version | sed -n 's/etcd Version: //p')
        echo "etcd $version with its client $(module go.etcd.io/etcd/client/v3)"
        ;;
esac >"$to/version.new"
mv "$to/version.new" "$to/version"
