-- Types that are not built in are announced before the relation that uses them.
create schema types;
create type types.mood as enum ('glad', 'sad');
create domain email as text check (value like '%@%');
create type pair as (a int, b text);
create type "Quoted Type" as enum ('x');
create table outbox (
    id int primary key, mood types.mood, email email, pair pair, quoted "Quoted Type", moods types.mood[]
);
create publication p for table outbox;
insert into outbox values (1, 'glad', 'a@b', '(1,"two words")', 'x', '{glad,sad}');
insert into outbox values (2, 'sad', null, null, null, null);
