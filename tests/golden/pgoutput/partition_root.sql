-- Rows of partitions, published under the name of the root.
create table outbox (id int, region text, payload text, primary key (id, region)) partition by list (region);
create table outbox_eu partition of outbox for values in ('eu');
-- A leaf whose columns stand in another order, with one dropped between them.
create table outbox_us (payload text, gone int, region text not null, id int not null, primary key (id, region));
alter table outbox_us drop column gone;
alter table outbox attach partition outbox_us for values in ('us');
create publication p for table outbox with (publish_via_partition_root = true);
insert into outbox values (1, 'eu', 'one');
insert into outbox values (2, 'us', 'two');
insert into outbox_eu values (3, 'eu', 'three');
update outbox set region = 'us' where id = 1;
delete from outbox where id = 2;
truncate outbox;
