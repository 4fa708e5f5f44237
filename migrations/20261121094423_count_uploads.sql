-- The quota counts agents and uploads from before it, and uploads by a running total. One text for SQLite and PostgreSQL.

-- Agents from before the quota.
update agent_versions set bytes = 1024 + octet_length(cast(profile as text)) + octet_length(cast(resolved as text)) where bytes = 0;

-- Uploads, each with 1024 bytes for its row. With a running total, each post can be checked against the limit.
alter table workspace_sizes add column file_bytes bigint not null default 0;
alter table workspace_sizes drop column checked_bytes;
drop index files_size;
insert into workspace_sizes (workspace_id, agent_bytes, file_bytes)
    select w.id,
        cast(coalesce((select sum(v.bytes) from agents a join agent_versions v on v.agent_id = a.id where a.workspace_id = w.id), 0)
            + coalesce((select sum(1024 + coalesce(octet_length(v.content), 0)) from agent_files f
                join agent_file_versions v on v.owner_id = f.owner_id and v.path = f.path where f.workspace_id = w.id), 0) as bigint),
        cast(coalesce((select sum(1024 + f.size_bytes) from files f where f.workspace_id = w.id), 0) as bigint)
    from workspaces w where true
    on conflict (workspace_id) do update set agent_bytes = excluded.agent_bytes, file_bytes = excluded.file_bytes;
