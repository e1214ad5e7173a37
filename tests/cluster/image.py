#!/usr/bin/env python3
"""Packs a folder as an image of one layer, as `docker save` would: image.py NAME:TAG FOLDER OUT CONFIG-JSON"""

import hashlib
import io
import json
import os
import platform
import sys
import tarfile

name, folder, out, config = sys.argv[1:]


def plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    return info


layer = io.BytesIO()
with tarfile.open(fileobj=layer, mode="w") as tar:
    for entry in sorted(os.listdir(folder)):
        tar.add(os.path.join(folder, entry), arcname=entry, filter=plain)
layer = layer.getvalue()
image = json.dumps({
    "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()],
    "os": "linux",
    "config": json.loads(config),
    "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
}).encode()
image_name = hashlib.sha256(image).hexdigest() + ".json"
manifest = json.dumps([{"Config": image_name, "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
with tarfile.open(out, "w") as tar:
    for path, content in ((image_name, image), ("layer.tar", layer), ("manifest.json", manifest)):
        info = tarfile.TarInfo(path)
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
