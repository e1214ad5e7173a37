#!/usr/bin/env bash
# Makes the images of what stands beside Baton in the cluster, without a registry and without a daemon, and prints their
# folder. They are made of this machine's own programs and of the libraries that those are linked to.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$here/../../target/cluster"
# Another script makes other images.
images=$(cd "$here/../../target/cluster" && pwd)/images-$(cat "$here"/image{s.sh,.py} | sha256sum | cut -c1-16)
exec 9>"$images.lock"
flock 9
if [ -e "$images" ]; then
    echo "$images"
    exit
fi
rm -rf "$images.new"
mkdir "$images.new"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

root() { # NAME
    mkdir -p "$work/$1"/{etc,bin,tmp}
    chmod 1777 "$work/$1/tmp"
    printf 'root:x:0:0::/:\nnonroot:x:65532:65532::/:\n' >"$work/$1/etc/passwd"
}
# What the dynamic loader needs for these, at the same paths.
libraries() { # ROOT PROGRAM…
    local root=$1 path
    shift
    { ldd "$@" 2>/dev/null || true; } | grep -o '/[^ :]*' | sort -u | while read -r path; do
        if [ -e "$path" ] && [ ! -e "$root$path" ]; then
            mkdir -p "$root$(dirname "$path")"
            cp -L "$path" "$root$path"
        fi
    done
}
shell() { # ROOT NAME…
    local root=$1 name
    shift
    cp /bin/busybox "$root/bin/busybox"
    for name in sh "$@"; do
        ln -s busybox "$root/bin/$name"
    done
}
pack() { # NAME:TAG FOLDER CONFIG
    "$here/image.py" "$1" "$work/$2" "$images.new/$2.tar" "$3"
}

root pause
shell "$work/pause" sleep
pack baton.test/pause:1 pause \
    '{"Entrypoint": ["/bin/sh", "-c", "trap \"exit 0\" TERM INT; while :; do sleep 3600 & wait $!; done"]}'

root redis
mkdir -p "$work/redis/data"
cp -L "$(command -v redis-server)" "$(command -v redis-cli)" "$work/redis/bin/"
libraries "$work/redis" "$work"/redis/bin/redis-*
shell "$work/redis"
pack docker.io/library/redis:7 redis '{"Cmd": ["redis-server", "--bind", "0.0.0.0", "--protected-mode", "no"],
    "Env": ["PATH=/bin"], "WorkingDir": "/data"}'

root python
read -r program library < <(/usr/bin/python3 -c \
    'import os, sys, sysconfig; print(os.path.realpath(sys.executable), sysconfig.get_path("stdlib"))')
mkdir -p "$work/python/usr/bin" "$work/python$library"
cp "$program" "$work/python/usr/bin/"
ln -s "$(basename "$program")" "$work/python/usr/bin/python3"
cp -r "$library/." "$work/python$library"
rm -rf "$work/python$library"/{test,idlelib,ensurepip,tkinter,turtledemo,lib2to3,pydoc_data,config-*}
find "$work/python" -name __pycache__ -prune -exec rm -rf {} +
libraries "$work/python" "$program" "$library"/lib-dynload/*.so
shell "$work/python" ls cat wget nslookup sleep ps kill env
pack docker.io/library/python:3.13-alpine python '{"Cmd": ["python3"], "Env": ["PATH=/usr/bin:/bin"]}'

mv "$images.new" "$images"
echo "$images"
