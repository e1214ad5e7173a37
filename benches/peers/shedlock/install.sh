#!/usr/bin/env bash
# Installs ShedLock with Spring Data and Jedis from Maven Central, and this folder's program into the folder $1.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
to=$1
for needed in java javac mvn; do
    command -v "$needed" >/dev/null || { echo "$needed is not installed" >&2; exit 69; }
done

copy=org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies
mvn -B -q -f "$here/pom.xml" "$copy" -DoutputDirectory="$to/jars" >&2
javac -d "$to/classes" -cp "$to/jars/*" "$here/Peer.java" "$here/ShortKeepAlive.java"
cat >"$to/run" <<END
#!/bin/sh
exec java -XX:+UseSerialGC -Xmx256m -cp '$to/classes:$to/jars/*' Peer "\$@"
END
chmod +x "$to/run"
version() { basename "$to/jars/$1"-[0-9]*.jar .jar | sed "s/$1-//"; }
echo "ShedLock $(version shedlock-core) with Spring Data Redis $(version spring-data-redis), Java $(
    java -version 2>&1 | sed -n '1s/.*"\(.*\)".*/\1/p'
)" >"$to/version"
