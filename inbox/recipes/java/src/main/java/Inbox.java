import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.*;
import java.util.concurrent.CancellationException;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BiConsumer;
import org.apache.commons.logging.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.springframework.dao.*;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.*;
import org.springframework.kafka.support.Acknowledgment;
import org.springframework.transaction.CannotCreateTransactionException;
import org.springframework.transaction.support.*;

/** The protocol of docs/inbox-protocol.md. The container calls all methods in one thread. */
record Inbox(String consumer, String deadLetters, SingleConnectionDataSource postgres, JdbcTemplate jdbc, TransactionTemplate transactions,
        KafkaTemplate<byte[], byte[]> producer, MessageListenerContainer container, BiConsumer<String, byte[]> handler,
        Map<TopicPartition, Tenure> held) implements AcknowledgingMessageListener<byte[], byte[]>, ConsumerAwareRebalanceListener {
    record Tenure(int partitionId, long epoch, Long nextOffset) { }

    private static final Log LOG = LogFactory.getLog(Inbox.class);

    /** Who takes a partition knows its epoch. The transactions of whoever had it before are over, and where it has ended is known. */
    @Override
    public void onPartitionsAssigned(Consumer<?, ?> kafka, Collection<TopicPartition> partitions) {
        for (TopicPartition partition : partitions) {
            Tenure tenure = transaction(status -> jdbc.queryForObject("SELECT * FROM inbox_take(?, ?, ?, ?)",
                (row, n) -> new Tenure(row.getInt("partition_id"), row.getLong("epoch"), row.getObject("next_offset", Long.class)),
                consumer, partition.topic(), partition.partition(), consumer));
            held.put(partition, tenure);
            if (tenure.nextOffset != null) kafka.seek(partition, tenure.nextOffset); // Otherwise from where the group has committed.
        }
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) { // Of lost partitions, too.
        held.keySet().removeAll(partitions);
    }

    @Override
    public void onMessage(ConsumerRecord<byte[], byte[]> record, Acknowledgment acknowledgment) {
        var partition = new TopicPartition(record.topic(), record.partition());
        Tenure tenure = held.remove(partition); // It is held again when the record has ended, so that nothing can overtake the record.
        if (tenure != null && end(record, tenure)) {
            held.put(partition, tenure);
            acknowledgment.acknowledge();
        }
    }

    private boolean end(ConsumerRecord<byte[], byte[]> record, Tenure tenure) {
        try {
            return end(record, tenure, false);
        } catch (CancellationException error) {
            return false;
        } catch (RuntimeException error) { // The dead letter is in Kafka before the record ends. After a crash in between it is written twice.
            LOG.warn("A dead letter: offset " + record.offset() + " of partition " + record.partition(), error);
            var letter = new ProducerRecord<>(deadLetters, null, record.key(), record.value(), record.headers());
            letter.headers().add("outboxd.errors.topic", record.topic().getBytes(UTF_8));
            letter.headers().add("outboxd.errors.message", "%.1000s".formatted(error).getBytes(UTF_8));
            producer.send(letter).join();
            return end(record, tenure, true);
        }
    }

    /** One transaction: is the partition still held, is the event new, what it changes, and up to where the partition has ended. */
    private boolean end(ConsumerRecord<byte[], byte[]> record, Tenure tenure, boolean isDead) {
        return transaction(status -> {
            if (!jdbc.queryForObject("SELECT inbox_enter(?, ?)", Boolean.class, tenure.partitionId, tenure.epoch)) {
                LOG.warn("Another holder has taken partition " + record.partition());
                status.setRollbackOnly();
                return false;
            }
            if (!isDead) {
                // The database refuses an id that is not UTF-8. In Java two such ids could become equal.
                byte[] id = record.headers().lastHeader("id").value();
                boolean isNew = jdbc.queryForObject("SELECT inbox_claim(?, ?, convert_from(?, 'UTF8'))", Boolean.class, consumer, record.topic(), id);
                if (isNew) handler.accept(new String(id, UTF_8), record.value());
            }
            jdbc.query("SELECT inbox_ended(?, ?, ?)", row -> { }, tenure.partitionId, tenure.epoch, record.offset() + 1);
            return true;
        });
    }

    /** The same again by another connection after an error that is none of the event: the server is away, or another transaction in the way. */
    private <T> T transaction(TransactionCallback<T> work) {
        while (true) {
            try {
                return transactions.execute(work);
            } catch (TransientDataAccessException | DataAccessResourceFailureException | CannotCreateTransactionException error) {
                if (!container.isRunning()) throw new CancellationException("the program ends");
                LOG.warn("The same again in 0.5 s: " + error.getMostSpecificCause());
                postgres.resetConnection();
                LockSupport.parkNanos(500_000_000);
            }
        }
    }
}
