-- of the shop
SET 'auto.offset.reset' = 'earliest';
CREATE STREAM orders (id INT KEY) WITH (kafka_topic = 'orders', value_format = 'json');
CREATE SOURCE CONNECTOR IF NOT EXISTS `orders` WITH (
  'connector.class' = 'io.debezium.connector.postgresql.PostgresConnector',
  'database.port' = 5432,
  'heartbeat.action.query' = 'SELECT ''it''''s''',
  "tasks.max" = '1'
);
CREATE SINK CONNECTOR search WITH ('connector.class' = 'org.example.Sink');
