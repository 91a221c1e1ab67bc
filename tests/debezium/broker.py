"""What a broker holds."""

import time
import uuid
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

REQUEST_SECONDS = 10
READ_SECONDS = 30
LEADER_ATTEMPTS = 50


@dataclass(frozen=True)
class Record:
    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple
    """(name, bytes or None), in order."""
    timestamp: int
    """Milliseconds since 1970."""


class Broker:
    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.watcher = self._consumer()

    def create(self, topics, partitions):
        wait(self.admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics]) if topics else {})

    def delete(self, tag=""):
        """Every topic whose name holds the tag."""
        while topics := self._topics(tag):
            wait(self.admin.delete_topics(list(topics), operation_timeout=REQUEST_SECONDS))
            time.sleep(0.1)

    def count(self, tag=""):
        """How many records those topics hold."""
        return sum(high - low for low, high in self._ends(tag).values())

    def read(self, tag=""):
        """All records, by topic, partition and offset."""
        ends = {partition: end for partition, end in self._ends(tag).items() if end[1] > end[0]}
        if not ends:
            return []
        consumer = self._consumer()
        consumer.assign([TopicPartition(topic, number, low) for (topic, number), (low, _) in ends.items()])
        wanted, messages = sum(high - low for low, high in ends.values()), []
        deadline = time.monotonic() + READ_SECONDS
        while len(messages) < wanted and time.monotonic() < deadline:
            messages += [message for message in consumer.consume(500, 0.1) if not message.error()]
        consumer.close()
        if len(messages) < wanted:
            raise TimeoutError(f"{len(messages)} of {wanted} records read")
        messages.sort(key=lambda message: (message.topic().encode(), message.partition(), message.offset()))
        return [as_record(message) for message in messages]

    def _ends(self, tag):
        for _ in range(LEADER_ATTEMPTS):
            partitions = [(name, number) for name, topic in self._topics(tag).items() for number in topic.partitions]
            try:
                return {partition: self._end(*partition) for partition in partitions}
            except KafkaException:  # a topic that was just made has no leader yet, one that was just deleted is still told
                time.sleep(0.1)
        raise TimeoutError(f"one of {partitions} has no leader")

    def _end(self, topic, number):
        return self.watcher.get_watermark_offsets(TopicPartition(topic, number), REQUEST_SECONDS)

    def _topics(self, tag):
        for _ in range(LEADER_ATTEMPTS):
            topics = self.admin.list_topics(timeout=REQUEST_SECONDS).topics
            found = {name: topic for name, topic in topics.items() if tag in name and not name.startswith("_")}
            if all(topic.partitions for topic in found.values()):
                return found
            time.sleep(0.1)
        raise TimeoutError("a topic has no partitions")

    def _consumer(self):
        return Consumer({"bootstrap.servers": self.bootstrap, "group.id": str(uuid.uuid4()),
                         "enable.auto.commit": False, "auto.offset.reset": "earliest"})


def as_record(message):
    return Record(message.topic(), message.partition(), message.key(), message.value(),
                  tuple(message.headers() or ()), message.timestamp()[1])


def wait(futures):
    for future in futures.values():
        try:
            future.result()
        except KafkaException:  # it exists already, or is gone already
            pass
