#!/usr/bin/env bash
# Installs redis-py from PyPI into an environment of its own, and this folder's program, into the folder $1.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
to=$1
command -v python3 >/dev/null || { echo "python3 is not installed" >&2; exit 69; }

python3 -m venv "$to/venv" >&2
"$to/venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$here/requirements.txt" >&2
cp "$here/peer.py" "$to/peer.py"
cat >"$to/run" <<END
#!/bin/sh
exec '$to/venv/bin/python' '$to/peer.py' "\$@"
END
chmod +x "$to/run"
"$to/venv/bin/python" -c "import platform, redis
print('redis-py', redis.__version__, 'on Python', platform.python_version())" >"$to/version"
