#!/bin/sh
# The program that the suite for all clients runs: conformance.sh ROLE. `mvn verify` builds what it needs.
set -eu
client=$(dirname "$0")/client/target
exec java -cp "$client/classes:$client/test-classes:$client/lib/*" com.example.baton.Conformance "$@"
