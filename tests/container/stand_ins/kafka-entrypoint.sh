#!/bin/bash
# Does what the official image's entry point does, as far as docker/compose.yaml and the test rely on it: settings come
# from KAFKA_…, the storage is formatted once.
set -euo pipefail

properties=/tmp/server.properties
# KAFKA_LOG_DIRS becomes log.dirs.
env | sed -n 's/^KAFKA_\([A-Z0-9_]*\)=/\1=/p' | while IFS='=' read -r name value; do
    name=${name,,}
    printf '%s=%s\n' "${name//_/.}" "$value"
done >$properties
printf 'log.dirs=/tmp/kraft-combined-logs\n' >>$properties

export CLASSPATH='/opt/kafka/libs/*'
java -Xmx128m -Dlog4j2.configurationFile=/opt/kafka/log4j2.xml kafka.tools.StorageTool format \
    --ignore-formatted --cluster-id 5L6g3nShT-eMCtK--X86sw --config $properties
exec java -Xmx384m -XX:+UseSerialGC -Dlog4j2.configurationFile=/opt/kafka/log4j2.xml kafka.Kafka $properties
