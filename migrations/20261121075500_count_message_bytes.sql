-- Messages count in the storage quota. One text for SQLite and PostgreSQL.

-- Counted size of each message, which keeps the sum in `workspace_sizes` exact when its text changes.
alter table messages add column counted_bytes bigint not null default 0;
update messages set counted_bytes = 512 + octet_length(content) + octet_length(content_plain);
alter table workspace_sizes add column message_bytes bigint not null default 0;
-- Sum of agents and messages up to which the limit was checked, so that not every post needs the sum of the uploads.
alter table workspace_sizes add column checked_bytes bigint not null default 0;
insert into workspace_sizes (workspace_id, agent_bytes, message_bytes)
    select workspace_id, 0, cast(sum(counted_bytes) as bigint) from messages where true group by workspace_id
    on conflict (workspace_id) do update set message_bytes = excluded.message_bytes;
