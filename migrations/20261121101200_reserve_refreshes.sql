-- A change of a base is checked against the quota with all versions that follow from it. One text for SQLite and PostgreSQL.

-- Size of an agent's own profile, for the size of its next version.
alter table agents add column profile_bytes bigint not null default 0;
update agents set profile_bytes = octet_length(cast(profile as text));
-- Sizes follow the long texts in a row: the index spares reading those.
drop index agents_base;
create index agents_children on agents (base_id, id, instructions_bytes, profile_bytes) where base_id is not null;

-- Bytes that the versions of the remaining children will take; they count until those are stored.
alter table agent_refreshes add column reserved_bytes bigint not null default 0;
