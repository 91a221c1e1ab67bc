// node consumer.js POSTGRES KAFKA TOPIC CONSUMER DEAD_LETTER_TOPIC: applies each event once and in order, by docs/inbox-protocol.md.
// It needs @confluentinc/kafka-javascript and pg, and the tables of sql/inbox.sql. `handle` is the service's own.
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import confluent, { type LibrdKafkaError, type Message, type TopicPartitionOffset } from "@confluentinc/kafka-javascript";
import pg from "pg";

/** Makes the changes of an event, in the transaction that stores its id. */
async function handle(db: pg.Client, id: string, event: { customer_id: number; amount: number; seq: number; fail: string }) {
  if (event.fail === "always") throw new Error("the event says that it always fails");
  await db.query("UPDATE customers SET lifetime_value = lifetime_value + $1 WHERE id = $2", [event.amount, event.customer_id]);
  await db.query("INSERT INTO applied (event_id, customer_id, seq) VALUES ($1, $2, $3)", [id, event.customer_id, event.seq]);
}

const [postgres, kafka, topic, name, deadLetters] = process.argv.slice(2) as [string, string, string, string, string];
const held = new Map<number, [partitionId: number, epoch: string]>();
let assigned: TopicPartitionOffset[] | undefined, connection: pg.Client | undefined, isOver = false;
const connect = () => new pg.Client({ connectionString: postgres, keepAlive: true }).on("error", () => {}).connect(); // Its next statement fails.
const producer = new confluent.HighLevelProducer({ "bootstrap.servers": kafka, "enable.idempotence": true, "message.timeout.ms": 30_000 });
const consumer = new confluent.KafkaConsumer({ "bootstrap.servers": kafka, "group.id": name, "enable.auto.commit": false,
  "auto.offset.reset": "earliest", "isolation.level": "read_committed", "session.timeout.ms": 6000, rebalance_cb: rebalance });
function rebalance({ code }: LibrdKafkaError, partitions: TopicPartitionOffset[]) {
  assigned = code === confluent.CODES.ERRORS.ERR__ASSIGN_PARTITIONS ? partitions : undefined; // They are read once `take` assigns them.
  if (!assigned) held.clear(), consumer.unassign();
}
/** Takes partitions, which ends the transactions of their last holder, and reads from where that has ended. */
async function take(partitions: TopicPartitionOffset[]) {
  const committed = await promisify<TopicPartitionOffset[]>((done) => consumer.committed(partitions, 30_000, done))();
  for (const p of committed) {
    const { rows: [row] } = await (connection ??= await connect()).query("SELECT * FROM inbox_take($1, $2, $3, $1)", [name, p.topic, p.partition]);
    held.set(p.partition, [row.partition_id, row.epoch]);
    if (row.next_offset !== null && p.offset >= 0) p.offset = Math.min(p.offset, Number(row.next_offset)); // None in a topic that was created again.
  }
  if (assigned === partitions) assigned = void consumer.assign(committed); // Not if the group has changed it meanwhile.
}
/** One transaction: checks that the partition is held and the event new, makes its changes, and stores the offset behind it. */
async function end({ partition, offset, value, headers }: Message, isDead: boolean) {
  const db = (connection ??= await connect()), tenure = held.get(partition)!, id = headers?.findLast((h) => "id" in h)?.id?.toString();
  const enter = "SELECT CASE WHEN inbox_enter($1, $2) THEN CASE WHEN $3 THEN false ELSE inbox_claim($4, $5, $6) END END AS is_new";
  await db.query("BEGIN");
  const { rows: [{ is_new }] } = await db.query(enter, [...tenure, isDead, name, topic, id]);
  if (is_new === null && held.delete(partition)) throw new Error("the partition is not held any more");
  if (is_new) await handle(db, id!, JSON.parse(String(value)));
  await db.query("SELECT inbox_ended($1, $2, $3)", [...tenure, offset + 1]);
  if ((await db.query("COMMIT")).command !== "COMMIT") throw new Error("the handler has swallowed the error of a statement");
}
/** Rolls back. After an error of the database (away, read-only, a deadlock) all is taken again: a failover may have lost transactions. */
async function isDatabaseAway(error: unknown) {
  const isAlive = await connection?.query("ROLLBACK").then(() => true, () => false);
  if (isAlive && !(error instanceof pg.DatabaseError && /^(25006|40|53|55|57|58)/.test(error.code ?? ""))) return false;
  console.error("again in 0.5 s:", error);
  connection = void connection?.end().catch(() => {});
  assigned ??= consumer.assignments() as TopicPartitionOffset[];
  return sleep(500, true);
}
/** The dead letter is in Kafka before the event has ended. After a crash in between it is written twice. */
async function giveUp({ value, key = null, headers = [] }: Message, error: unknown) {
  headers = [...headers, { "outboxd.errors.topic": topic }, { "outboxd.errors.message": String(error).slice(0, 1000) }];
  await promisify((done) => producer.produce(deadLetters, null, value, key, null, headers, done))();
}

process.on("SIGTERM", () => (isOver = true));
for (const client of [producer, consumer]) await promisify((done) => client.connect({}, done))();
consumer.subscribe([topic]);
while (!isOver) {
  if (assigned) await take(assigned).catch(async (error) => (await isDatabaseAway(error)) || Promise.reject(error));
  const [message] = await promisify<Message[]>((done) => consumer.consume(1, done))().catch((error) => [void console.error(error)]);
  for (let isDead = false; message && held.has(message.partition) && !assigned && !isOver; isDead = true) {
    try {
      await end(message, isDead);
      consumer.commitMessage(message);
      break;
    } catch (error) {
      if ((await isDatabaseAway(error)) || !held.has(message.partition)) break;
      if (isDead) throw error;
      await giveUp(message, error);
    }
  }
}
consumer.disconnect(() => process.exit());
