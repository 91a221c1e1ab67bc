-- NULL, the empty string and what looks like either; text outside ASCII; a value of several lines.
create table plain (id int primary key, aggregatetype text, payload text);
create publication p for table plain;
insert into plain values (1, null, null);
insert into plain values (2, '', '');
insert into plain values (3, 'NULL', '\N');
insert into plain values (4, 'Bücher 📚', E'first\nsecond\tthird');
begin;
insert into plain values (5, 'several', 'rows'), (6, 'of one', 'statement');
insert into plain values (7, 'second', 'statement');
commit;
