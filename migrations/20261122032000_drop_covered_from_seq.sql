-- Messages are covered from the first one on. One text for SQLite and PostgreSQL.
alter table conversations drop column covered_from_seq;
