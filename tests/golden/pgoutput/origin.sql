-- A transaction that came from elsewhere says from where, behind its Begin.
create table plain (id int primary key);
create publication p for table plain;
insert into plain values (1);
select pg_replication_origin_create('outboxd_golden elsewhere');
select pg_replication_origin_session_setup('outboxd_golden elsewhere');
begin;
select pg_replication_origin_xact_setup('16/B374D848', '2024-02-29 12:00:00+00');
insert into plain values (2);
commit;
select pg_replication_origin_session_reset();
insert into plain values (3);
