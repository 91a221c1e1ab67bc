-- The text forms of the types that outbox tables use.
create table outbox (
    id uuid primary key, sequence bigint, flag boolean, small smallint, amount numeric(12, 2), ratio double precision,
    fixed char(4), short varchar(10), document json, binary_document jsonb, bytes bytea, day date, at timestamp(3),
    at_zone timestamptz, clock time, pause interval, tags text[], address inet
);
create publication p for table outbox;
insert into outbox values (
    '7f3c1d2e-0000-4000-8000-0123456789ab', 9223372036854775807, true, -32768, 10.50, 0.1,
    'ab', 'cd', '{"b": 1,  "a": [null]}', '{"b": 1,  "a": [null]}', '\x00ff10', '2024-02-29', '2024-02-29 23:59:59.9994',
    '2024-02-29 23:59:59.999999+02', '12:34:56.789', '1 day 02:03:04', '{a,NULL,"c d"}', '10.0.0.1/8'
);
insert into outbox (id, ratio, day, at_zone)
values ('00000000-0000-0000-0000-000000000000', 'NaN', 'infinity', '-infinity');
