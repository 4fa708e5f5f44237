-- Members who can create webhooks.
alter table workspace_policies add column hooks text not null default 'everyone';
