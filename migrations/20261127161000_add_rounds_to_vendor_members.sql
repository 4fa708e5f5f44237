-- Calls of agents' functions with their results, which programs that call other functions in the same round do not receive.
-- One text for SQLite and PostgreSQL.
alter table response_vendor_members add column rounds text;
