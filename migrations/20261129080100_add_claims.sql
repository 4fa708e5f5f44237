-- Addresses that placeholders had in the archive: an admin invites them with these, and a sign-in provider that confirms one proves who the
-- person is.
create table placeholder_addresses (
    user_id uuid primary key references users (id) on delete cascade,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    email text not null
);
create index placeholder_addresses_email on placeholder_addresses (workspace_id, email);

-- Of an invite for a placeholder: whoever uses it becomes the placeholder.
alter table invites add column placeholder_id uuid references users (id) on delete cascade;
create index invites_placeholder on invites (placeholder_id);

-- False until the person has the channels of the placeholder, which waits for the end of a running import.
alter table member_merges add column is_begun boolean not null default TRUE;
