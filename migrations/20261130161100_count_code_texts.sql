-- Bytes of patches and logs of turns, which count in the storage quota, too.
alter table workspace_sizes add column code_bytes bigint not null default 0;
update workspace_sizes set code_bytes = coalesce((select sum(octet_length(x.content)) from code_texts x
    join code_sessions s on s.id = x.session_id where s.workspace_id = workspace_sizes.workspace_id), 0);
