-- `failing_since` is when requests to a provider began to fail, null while they succeed; `failure_noticed_at` is when the admins of the
-- server got a notice about it.
alter table identity_providers add column failing_since timestamptz;
alter table identity_providers add column failure_noticed_at timestamptz;

-- Address of the provider that the account did not get, because another one has it, as of the newest notice about this.
alter table identities add column noticed_email text;

-- Finds notices about addresses that are settled.
create index inbox_items_identities on inbox_items (subject_id) where subject_type = 'identity';
