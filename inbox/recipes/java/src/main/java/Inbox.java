import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.*;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.*;
import org.springframework.kafka.support.Acknowledgment;
import org.springframework.transaction.support.TransactionTemplate;

/** The protocol of docs/inbox-protocol.md. The container calls all methods in one thread, with one record at a time. */
record Inbox(String name, String deadLetters, SingleConnectionDataSource postgres, JdbcTemplate jdbc, TransactionTemplate transactions,
        KafkaTemplate<byte[], byte[]> producer, MessageListenerContainer container, Map<TopicPartition, Tenure> held)
        implements AcknowledgingConsumerAwareMessageListener<byte[], byte[]>, ConsumerAwareRebalanceListener {
    record Tenure(int partitionId, long epoch) { }
    /** Takes partitions, which ends the transactions of their last holder, and reads from where that has ended. Waits for the database. */
    @Override public void onPartitionsAssigned(Consumer<?, ?> kafka, Collection<TopicPartition> partitions) {
        for (var left = new ArrayDeque<>(partitions); !left.isEmpty() && container.isRunning(); ) {
            TopicPartition partition = left.element();
            try {
                jdbc.query("SELECT * FROM inbox_take(?, ?, ?, ?)", row -> {
                    held.put(partition, new Tenure(row.getInt("partition_id"), row.getLong("epoch")));
                    if (row.getObject("next_offset") == null) return; // The group's offset counts.
                    var committed = kafka.committed(Set.of(partition)).get(partition); // None if the topic was created again.
                    kafka.seek(partition, committed == null ? 0 : Math.min(committed.offset(), row.getLong("next_offset")));
                }, name, partition.topic(), partition.partition(), name);
                left.remove();
            } catch (DataAccessException error) {
                reconnect(error);
            }
        }
    }
    @Override public void onPartitionsRevoked(Collection<TopicPartition> partitions) { held.keySet().removeAll(partitions); } // Of lost ones, too.
    @Override public void onMessage(ConsumerRecord<byte[], byte[]> record, Acknowledgment acknowledgment, Consumer<?, ?> kafka) {
        var partition = new TopicPartition(record.topic(), record.partition());
        for (boolean isDead = false; held.containsKey(partition); isDead = true) {
            try {
                if (end(record, held.get(partition), isDead)) acknowledgment.acknowledge();
                else held.remove(partition); // Until the group assigns it again.
                return;
            } catch (RuntimeException error) {
                if (Main.isTransient(error)) { // A failover may have lost the last transactions: the database knows where to go on.
                    reconnect(error);
                    kafka.seek(partition, record.offset());
                    onPartitionsAssigned(kafka, held.keySet());
                    return;
                }
                if (isDead) throw error;
                // The dead letter is in Kafka before the record ends. After a crash in between it is written twice.
                var letter = new ProducerRecord<>(deadLetters, null, record.key(), record.value(), record.headers());
                letter.headers().add("outboxd.errors.topic", record.topic().getBytes(UTF_8));
                letter.headers().add("outboxd.errors.message", "%.1000s".formatted(error).getBytes(UTF_8));
                producer.send(letter).join();
            }
        }
    }
    private void reconnect(Exception error) {
        System.err.println("again in 0.5 s: " + error);
        LockSupport.parkNanos(500_000_000);
        postgres.resetConnection();
    }
    /** One transaction: checks that the partition is held and the event new, makes its changes, and stores the offset behind it. */
    private boolean end(ConsumerRecord<byte[], byte[]> record, Tenure tenure, boolean isDead) {
        var enter = "SELECT CASE WHEN inbox_enter(?, ?) THEN CASE WHEN ? THEN false ELSE inbox_claim(?, ?, convert_from(?, 'UTF8')) END END";
        return transactions.execute(status -> {
            var header = record.headers().lastHeader("id");
            byte[] id = header == null ? null : header.value(); // The database refuses one that is absent or not UTF-8.
            Boolean isNew = jdbc.queryForObject(enter, Boolean.class, tenure.partitionId, tenure.epoch, isDead, name, record.topic(), id);
            if (isNew == null) status.setRollbackOnly();
            if (Boolean.TRUE.equals(isNew)) Main.handle(jdbc, new String(id, UTF_8), record.value());
            if (isNew != null) jdbc.query("SELECT inbox_ended(?, ?, ?)", row -> { }, tenure.partitionId, tenure.epoch, record.offset() + 1);
            return isNew != null;
        });
    }
}
