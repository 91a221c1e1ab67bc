#!/usr/bin/env python3
"""consumer.py POSTGRES KAFKA TOPIC CONSUMER DEAD_LETTER_TOPIC: applies each event once and in order, by docs/inbox-protocol.md.
It needs confluent-kafka, psycopg 3 and the tables of sql/inbox.sql. `handle` is the service's own."""
import json, signal, sys, time, psycopg
from confluent_kafka import Consumer, KafkaException, Producer
AGAIN = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.ReadOnlySqlTransaction, KafkaException)  # Not the event's.

def handle(cursor, event):  # Makes the changes of an event, in the transaction that stores its id.
    if event.get("fail") == "always":
        raise ValueError("the event says that it always fails")
    cursor.execute("UPDATE customers SET lifetime_value = lifetime_value + %s WHERE id = %s", (event["amount"], event["customer_id"]))
    cursor.execute("INSERT INTO applied (event_id, customer_id, seq) VALUES (%s, %s, %s)", (event["id"], event["customer_id"], event["seq"]))

class Inbox:
    def __init__(self, postgres, kafka, topic, consumer, dead_letters):
        self.postgres, self.consumer, self.dead_letters = postgres, consumer, dead_letters
        self.held, self.connection, self.is_over = {}, None, False
        self.producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
        self.kafka = Consumer({"bootstrap.servers": kafka, "group.id": consumer, "enable.auto.commit": False,
                               "auto.offset.reset": "earliest", "isolation.level": "read_committed", "session.timeout.ms": 6000})
        self.kafka.subscribe([topic], on_assign=lambda *_: self.held.clear(), on_revoke=lambda *_: self.held.clear())

    def transaction(self):
        self.connection = self.connection or psycopg.connect(self.postgres)
        return self.connection.transaction()

    def take(self):
        """Takes partitions, and reads from where the last holder has ended; without an offset of the group, it may be another topic."""
        partitions = self.kafka.committed(self.kafka.assignment(), timeout=30)
        for p in partitions:
            with self.transaction():
                values = (self.consumer, p.topic, p.partition, self.consumer)
                *tenure, next_offset = self.connection.execute("SELECT * FROM inbox_take(%s, %s, %s, %s)", values).fetchone()
            self.held[p.partition], p.offset = tenure, p.offset if next_offset is None else min(p.offset, next_offset)
        self.kafka.assign(partitions)

    def end(self, message, is_dead):
        """One transaction: checks that the partition is held and the event new, makes its changes, and stores the offset behind it."""
        tenure = self.held[message.partition()]
        with self.transaction(), self.connection.cursor() as cursor:
            if not cursor.execute("SELECT inbox_enter(%s, %s)", tenure).fetchone()[0]:
                self.held[message.partition()] = None  # Until Kafka assigns it again.
                raise psycopg.Rollback()
            if not is_dead:
                event_id = [value.decode() for name, value in message.headers() or [] if name == "id"][-1]
                if cursor.execute("SELECT inbox_claim(%s, %s, %s)", (self.consumer, message.topic(), event_id)).fetchone()[0]:
                    handle(cursor, json.loads(message.value()) | {"id": event_id})
            cursor.execute("SELECT inbox_ended(%s, %s, %s)", (*tenure, message.offset() + 1))
        if self.held[message.partition()]:
            self.kafka.commit(message, asynchronous=True)

    def apply(self, message):
        try:
            self.end(message, is_dead=False)
        except Exception as error:  # A dead letter is in Kafka before its event has ended. After a crash in between it is written twice.
            if isinstance(error, AGAIN):
                raise
            more = [("outboxd.errors.topic", message.topic()), ("outboxd.errors.message", str(error)[:1000])]
            self.producer.produce(self.dead_letters, message.value(), message.key(), headers=(message.headers() or []) + more)
            if self.producer.flush(30):
                raise RuntimeError("Kafka has not accepted a dead letter")
            self.end(message, is_dead=True)

    def run(self):
        while not self.is_over:
            message = self.kafka.poll(0.5)
            try:
                if self.held.keys() != {p.partition for p in self.kafka.assignment()}:
                    self.take()
                elif message is not None and not message.error() and self.held.get(message.partition()):
                    self.apply(message)
            except AGAIN as error:
                print("again in 0.5 s:", error, file=sys.stderr)
                time.sleep(0.5)
                self.held, self.connection = {}, None  # Taken again, since a failover may have lost the last transactions.
        self.kafka.close()

inbox = Inbox(*sys.argv[1:6])
signal.signal(signal.SIGTERM, lambda *_: setattr(inbox, "is_over", True))
inbox.run()
