-- Entries whose time is over.
create index memories_expired on memories (expires_at) where expires_at is not null and forgotten_at is null;
-- Entries by hand of a person, which are counted.
create index memories_author on memories (workspace_id, created_by, origin, status);
