-- Members who can mention all members of a large channel.
alter table workspace_policies add column group_mentions text not null default 'everyone';
