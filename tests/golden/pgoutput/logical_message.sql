-- pg_logical_emit_message: inside and outside transactions, empty, binary, surviving or sharing a rollback.
create table plain (id int primary key);
create publication p for table plain;
select pg_logical_emit_message(true, 'transactional', 'alone');
select pg_logical_emit_message(false, 'not transactional', 'alone');
begin;
select pg_logical_emit_message(true, 'transactional', 'before the row');
insert into plain values (1);
select pg_logical_emit_message(false, 'not transactional', 'between the rows');
insert into plain values (2);
select pg_logical_emit_message(true, 'transactional', 'after the rows');
commit;
begin;
select pg_logical_emit_message(true, 'transactional', 'never seen');
select pg_logical_emit_message(false, 'not transactional', 'seen in spite of the rollback');
rollback;
select pg_logical_emit_message(true, '', '');
select pg_logical_emit_message(true, 'Präfix', '\x00ff'::bytea);
