#!/bin/bash
# bin/kafka-….sh of the official image, for the tools that docker/compose.yaml names.
case ${0##*/} in
    kafka-broker-api-versions.sh) class=org.apache.kafka.tools.BrokerApiVersionsCommand ;;
    kafka-console-consumer.sh) class=org.apache.kafka.tools.consumer.ConsoleConsumer ;;
    *) echo "$0: not in this stand-in" >&2; exit 1 ;;
esac
exec java -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile=/opt/kafka/log4j2.xml \
    -cp '/opt/kafka/libs/*' "$class" "$@"
