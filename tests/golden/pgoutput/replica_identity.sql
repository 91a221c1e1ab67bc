-- What a relation says of its replica identity, and what old rows then carry.
create table by_default (id int primary key, a text, b text);
create table by_nothing (id int primary key, a text, b text);
create table by_full (id int primary key, a text, b text);
create table by_index (id int primary key, a text not null, b text not null);
create unique index by_index_a_b on by_index (b, a);
alter table by_nothing replica identity nothing;
alter table by_full replica identity full;
alter table by_index replica identity using index by_index_a_b;
create publication p for table by_default, by_nothing, by_full, by_index;

insert into by_nothing values (1, 'a', 'b');

insert into by_default values (1, 'a', 'b');
update by_default set a = 'changed' where id = 1;
update by_default set id = 2 where id = 1;
delete from by_default where id = 2;

insert into by_full values (1, 'a', null);
update by_full set a = 'changed' where id = 1;
update by_full set id = 2 where id = 1;
delete from by_full where id = 2;

insert into by_index values (1, 'a', 'b');
update by_index set id = 2 where id = 1;
update by_index set b = 'changed' where id = 2;
delete from by_index where id = 2;
