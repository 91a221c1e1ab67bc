-- One table, several, with each option and both.
create table a (id int generated always as identity primary key);
create table b (id int primary key, a int references a);
create table c (id int primary key);
create publication p for table a, b, c;
truncate c;
truncate b, c;
truncate a cascade;
truncate c restart identity;
truncate a, c restart identity cascade;
