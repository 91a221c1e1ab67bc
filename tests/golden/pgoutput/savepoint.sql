-- What was rolled back is never sent; what surrounds it belongs to one transaction.
create table plain (id int primary key);
create publication p for table plain;
begin;
insert into plain values (1);
savepoint first;
insert into plain values (2);
rollback to first;
insert into plain values (3);
savepoint second;
insert into plain values (4);
release second;
commit;
begin;
insert into plain values (5);
rollback;
