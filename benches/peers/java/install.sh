#!/usr/bin/env bash
# Installs the peer $2 of this folder from Maven Central, and its program, into the folder $1; with Curator a ZooKeeper.
set -euo pipefail
to=$1 name=$2
source=$(cd "$(dirname "$0")" && pwd)/$name
for needed in java javac mvn; do
    command -v "$needed" >/dev/null || { echo "$needed is not installed" >&2; exit 69; }
done

copy=org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies
mvn -B -q -f "$source/pom.xml" "$copy" -DoutputDirectory="$to/jars" >&2
javac -d "$to/classes" -cp "$to/jars/*" "$source"/*.java
java="java -XX:+UseSerialGC -Xmx256m"
cat >"$to/run" <<END
#!/bin/sh
exec $java -cp '$to/classes:$to/jars/*' Peer "\$@"
END
chmod +x "$to/run"

version() { basename "$to/jars/$1"-[0-9]*.jar .jar | sed "s/$1-//"; }
case $name in
    curator)
        # serve PORT FOLDER: a server alone, with ticks short enough for short sessions.
        cat >"$to/serve" <<END
#!/bin/sh
exec $java -Dzookeeper.admin.enableServer=false -cp '$to/jars/*' \\
    org.apache.zookeeper.server.ZooKeeperServerMain "\$1" "\$2" 500
END
        chmod +x "$to/serve"
        what="Curator $(version curator-recipes) on ZooKeeper $(version zookeeper)"
        ;;
    redisson) what="Redisson $(version redisson)" ;;
    shedlock) what="ShedLock $(version shedlock-core) with Spring Data Redis $(version spring-data-redis)" ;;
esac
echo "$what, Java $(java -version 2>&1 | sed -n '1s/.*"\(.*\)".*/\1/p')" >"$to/version"
