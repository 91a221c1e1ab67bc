-- Names that need quoting, upper case, other scripts, the longest there can be, and a keyword.
create schema "Über.Schema";
create table "Über.Schema"."Tab ""le""" (
    "ID" int primary key, "select" text, "zwei Wörter" text, "事件" text,
    "a23456789b123456789c123456789d123456789e123456789f123456789g123" text
);
create publication p for table "Über.Schema"."Tab ""le""";
insert into "Über.Schema"."Tab ""le""" values (1, 's', 'z', '件', 'a');
