-- Skeletons of the shown names of people and agents, as written and in lowercase (Unicode Technical Standard 39): a new name is compared
-- with those of others. Null until the first start of a version that knows them.
alter table users add column name_skeleton text;
alter table users add column name_folded text;
create index users_name_skeleton on users (name_skeleton);
create index users_name_folded on users (name_folded);
alter table agents add column name_skeleton text;
alter table agents add column name_folded text;
create index agents_name_skeleton on agents (workspace_id, name_skeleton);
create index agents_name_folded on agents (workspace_id, name_folded);
