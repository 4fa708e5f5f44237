-- Stored responses count in the storage quota, like uploads.
alter table responses add column counted_bytes bigint not null default 0;
update responses set counted_bytes = 1024 + length(cast(input as text)) + length(cast(response as text));
alter table workspace_sizes add column response_bytes bigint not null default 0;
insert into workspace_sizes (workspace_id, agent_bytes, response_bytes)
select workspace_id, 0, cast(sum(counted_bytes) as bigint) from responses where true group by workspace_id
on conflict (workspace_id) do update set response_bytes = excluded.response_bytes;
