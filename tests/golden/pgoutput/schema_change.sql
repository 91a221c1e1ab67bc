-- A relation is described anew when it changes, also in the middle of a transaction.
create table plain (id int primary key, a text);
create publication p for table plain;
insert into plain values (1, 'a');
begin;
insert into plain values (2, 'before');
alter table plain add column b varchar(8) default 'filled';
insert into plain values (3, 'after', 'b');
alter table plain rename column a to renamed;
insert into plain values (4, 'renamed', 'b');
commit;
alter table plain drop column renamed;
insert into plain values (5, 'b');
alter table plain alter column b type text;
insert into plain values (6, 'wider');
alter table plain rename to other;
insert into other values (7, 'other name');
