#!/usr/bin/env python3
"""consumer.py POSTGRES KAFKA TOPIC CONSUMER DEAD_LETTER_TOPIC: applies each event once and in order, by docs/inbox-protocol.md.
It needs confluent-kafka and psycopg 3, and the tables of sql/inbox.sql. `handle` is the service's own."""
import json, signal, sys, time
import psycopg
from confluent_kafka import Consumer, Producer

def handle(cursor, event):
    """Whatever the event changes, in the transaction that remembers it."""
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
        self.kafka.subscribe([topic], on_assign=self.take, on_revoke=lambda kafka, gone: [self.held.pop(p.partition, None) for p in gone])

    def transaction(self, work):
        if self.connection is None or self.connection.closed or self.connection.broken:
            self.connection = psycopg.connect(self.postgres)
        with self.connection.transaction(), self.connection.cursor() as cursor:
            return work(cursor)

    def take(self, kafka, partitions):
        """Who takes a partition knows its epoch. The transactions of whoever had it before are over, and where it has ended is known."""
        committed = kafka.committed(partitions, timeout=30)
        for p, offset in zip(partitions, (known.offset for known in committed)):
            call = ("SELECT * FROM inbox_take(%s, %s, %s, %s)", (self.consumer, p.topic, p.partition, self.consumer))
            held, epoch, next_offset = self.transaction(lambda cursor: cursor.execute(*call).fetchone())
            self.held[p.partition], p.offset = (held, epoch), offset if next_offset is None else next_offset
        kafka.assign(partitions)

    def end(self, message, is_dead):
        """One transaction: is the partition still held, is the event new, what it changes, and up to where the partition has ended."""
        tenure = self.held[message.partition()]
        def work(cursor):
            if not cursor.execute("SELECT inbox_enter(%s, %s)", tenure).fetchone()[0]:
                self.held.pop(message.partition(), None)
                raise psycopg.Rollback()
            if not is_dead:
                event_id = [value.decode() for name, value in message.headers() or [] if name == "id"][-1]
                if cursor.execute("SELECT inbox_claim(%s, %s, %s)", (self.consumer, message.topic(), event_id)).fetchone()[0]:
                    handle(cursor, json.loads(message.value()) | {"id": event_id})
            cursor.execute("SELECT inbox_ended(%s, %s, %s)", (*tenure, message.offset() + 1))
        self.transaction(work)

    def give_up(self, message, error):
        """The dead letter is in Kafka before the event has ended. After a crash in between it is written twice."""
        headers = (message.headers() or []) + [("outboxd.errors.topic", message.topic()), ("outboxd.errors.message", str(error)[:1000])]
        self.producer.produce(self.dead_letters, message.value(), message.key(), headers=headers)
        if self.producer.flush(30):
            raise RuntimeError("Kafka has not accepted a dead letter")

    def run(self):
        while not self.is_over:
            message, is_dead = self.kafka.poll(0.5), False
            while message is not None and not message.error() and message.partition() in self.held:
                try:
                    self.end(message, is_dead)
                    break
                except (psycopg.OperationalError, psycopg.InterfaceError):
                    time.sleep(0.5)  # The same event again, by another connection.
                except Exception as error:
                    self.give_up(message, error)
                    is_dead = True
            if message is not None and not message.error() and message.partition() in self.held:
                self.kafka.commit(message, asynchronous=True)
        self.kafka.close()

if __name__ == "__main__":
    inbox = Inbox(*sys.argv[1:6])
    signal.signal(signal.SIGTERM, lambda *_: setattr(inbox, "is_over", True))
    inbox.run()
