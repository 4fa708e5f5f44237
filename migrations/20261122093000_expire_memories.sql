-- Automatic entries by their last use, and messages after which conversations became quiet. One text for SQLite and PostgreSQL.

-- Automatic entries expire some time after their last use.
create index memories_unused on memories (workspace_id, coalesce(last_used_at, created_at))
    where origin = 'auto' and forgotten_at is null;

-- Every message up to this number has been followed by silence or by another message of its conversation. Those from before
-- this version make no pass due.
alter table workspaces add column quiet_seq bigint not null default 0;
update workspaces set quiet_seq = seq;
