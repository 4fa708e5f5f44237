-- Only written. `version` decides whether a node can run on the schema. One text for SQLite and PostgreSQL.
alter table nodes drop column schema_version;
