-- Bytes of patches and logs of turns, which count in the storage quota, too.
alter table workspace_sizes add column code_bytes bigint not null default 0;
