-- pgoutput: 'binary', 'true'
-- Rows in binary form, next to NULL and to a type without one.
create table plain (id int primary key, payload text, bytes bytea, flag boolean, owner aclitem);
create publication p for table plain;
insert into plain values (1, 'text', '\x00ff', true, null);
insert into plain values (2, '', '', false, format('%I=r/%1$I', current_user)::aclitem);
