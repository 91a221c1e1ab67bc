-- Values of two kilobytes, stored out of line: sent when new, not sent again by an update that leaves them alone.
create table by_default (id int primary key, note text, payload text);
create table by_full (id int primary key, note text, payload text);
alter table by_default alter payload set storage external;
alter table by_full alter payload set storage external;
alter table by_full replica identity full;
create publication p for table by_default, by_full;

insert into by_default values (1, 'new', repeat('x', 2100));
update by_default set note = 'payload untouched';
update by_default set id = 2;
update by_default set payload = 'small now';

insert into by_full values (1, 'new', repeat('y', 2100));
update by_full set note = 'payload untouched';
delete from by_full;
