-- Three services. They share a database here, so that the example needs one; nothing joins their tables.
CREATE SCHEMA IF NOT EXISTS orders;
CREATE TABLE IF NOT EXISTS orders.orders (
    id       text   PRIMARY KEY,
    customer text   NOT NULL,
    item     text   NOT NULL,
    amount   bigint NOT NULL,
    status   text   NOT NULL DEFAULT 'placed'
);

CREATE SCHEMA IF NOT EXISTS payments;
CREATE TABLE IF NOT EXISTS payments.accounts (customer text PRIMARY KEY, balance bigint NOT NULL);
CREATE TABLE IF NOT EXISTS payments.payments (order_id text PRIMARY KEY, customer text NOT NULL, amount bigint NOT NULL);

CREATE SCHEMA IF NOT EXISTS shipping;
CREATE TABLE IF NOT EXISTS shipping.stock (item text PRIMARY KEY, count bigint NOT NULL);

DO $$
DECLARE
    service text;
BEGIN
    FOREACH service IN ARRAY ARRAY['orders', 'payments', 'shipping'] LOOP
        -- The table of sql/outbox.sql.
        EXECUTE format(
            'CREATE TABLE IF NOT EXISTS %I.outbox (
                 id             uuid         PRIMARY KEY DEFAULT gen_random_uuid(),
                 aggregate_type varchar(255) NOT NULL,
                 aggregate_id   varchar(255) NOT NULL,
                 event_type     varchar(255) NOT NULL,
                 payload        jsonb,
                 headers        jsonb,
                 created_at     timestamptz  NOT NULL DEFAULT now()
             )',
            service
        );
    END LOOP;
END
$$;
