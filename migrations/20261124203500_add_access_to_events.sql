-- Complete events in the log. One text for SQLite and PostgreSQL.

-- Membership change of the event, so that a process that did not commit it can apply it before delivery. Null for most events.
alter table events add column access jsonb;
