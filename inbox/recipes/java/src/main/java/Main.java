import java.net.URI;
import java.sql.SQLException;
import java.util.*;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.serialization.*;
import org.springframework.dao.*;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.kafka.core.*;
import org.springframework.kafka.listener.*;
import org.springframework.transaction.CannotCreateTransactionException;
import org.springframework.transaction.support.TransactionTemplate;
import tools.jackson.databind.*;

/**
 * Called as: Main POSTGRES KAFKA TOPIC CONSUMER DEAD_LETTER_TOPIC. It applies each event once and in order, by docs/inbox-protocol.md.
 * It needs the tables of sql/inbox.sql in the database. The method handle is the service's own; the protocol itself is in Inbox.java.
 */
public class Main {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Makes the changes of an event, in the transaction that stores its id. */
    static void handle(JdbcTemplate jdbc, String id, byte[] value) {
        JsonNode event = JSON.readTree(value);
        if ("always".equals(event.path("fail").stringValue(null))) {
            throw new IllegalArgumentException("the event says that it always fails");
        }
        long customer = event.required("customer_id").longValue();
        jdbc.update("UPDATE customers SET lifetime_value = lifetime_value + ? WHERE id = ?", event.required("amount").longValue(), customer);
        jdbc.update("INSERT INTO applied (event_id, customer_id, seq) VALUES (?, ?, ?)", id, customer, event.required("seq").longValue());
    }

    /** Reports whether the same may succeed later: the database is away or read-only, or another transaction was in the way. */
    static boolean isTransient(RuntimeException error) {
        return error instanceof TransientDataAccessException || error instanceof DataAccessResourceFailureException
            || error instanceof CannotCreateTransactionException
            || error.getCause() instanceof SQLException cause && "25006".equals(cause.getSQLState());
    }

    public static void main(String[] args) {
        String[] login = URI.create(args[0]).getUserInfo().split(":", 2);
        String url = args[0].replaceFirst("^postgres(ql)?://[^@]*@", "jdbc:postgresql://");
        // One connection: the container has one thread, and so one transaction at a time.
        var postgres = new SingleConnectionDataSource(url, login[0], login.length > 1 ? login[1] : null, true);
        var jdbc = new JdbcTemplate(postgres);
        var producer = new KafkaTemplate<>(new DefaultKafkaProducerFactory<>(
            Map.of("bootstrap.servers", args[1]), new ByteArraySerializer(), new ByteArraySerializer()));

        Map<String, Object> settings = Map.of("bootstrap.servers", args[1], "group.id", args[3], "enable.auto.commit", false,
            "auto.offset.reset", "earliest", "isolation.level", "read_committed", "session.timeout.ms", 6000, "heartbeat.interval.ms", 2000,
            "partition.assignment.strategy", RangeAssignor.class.getName(), // Clients in all languages have it, so that they can be in one group.
            "max.poll.records", 1); // None of an earlier poll is left when a partition is taken again.
        var container = new KafkaMessageListenerContainer<>(
            new DefaultKafkaConsumerFactory<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer()), new ContainerProperties(args[2]));
        var inbox = new Inbox(args[3], args[4], postgres, jdbc, new TransactionTemplate(new JdbcTransactionManager(postgres)), producer, container,
            new HashMap<>());
        ContainerProperties properties = container.getContainerProperties();
        properties.setConsumerRebalanceListener(inbox);
        properties.setMessageListener(inbox);
        properties.setAckMode(ContainerProperties.AckMode.MANUAL);
        properties.setSyncCommits(false); // What Kafka misses is known in the database.
        properties.setStopImmediate(true); // After the record at work, without the others that were read.
        properties.setShutdownTimeout(30_000); // So long may it take.
        container.setCommonErrorHandler(new CommonContainerStoppingErrorHandler()); // Whatever Inbox does not handle ends the program.
        container.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            container.stop();
            Runtime.getRuntime().halt(container.isInExpectedState() ? 0 : 1); // By itself Java would exit with 143 after SIGTERM.
        }));
    }
}
