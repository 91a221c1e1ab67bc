-- COPY writes many rows in one WAL record: they share an LSN.
create table plain (id int primary key, payload text);
create publication p for table plain;
copy plain from stdin;
1	one
2	two
3	\N
4	four
\.
