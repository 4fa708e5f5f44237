-- Rights of a bot's keys, whether they see the email addresses of people, and the domains for whose links the bot adds previews.
alter table bots add column scopes jsonb not null default '["chat:read","chat:write"]';
alter table bots add column show_emails boolean not null default FALSE;
alter table bots add column link_domains jsonb not null default '[]';

-- Addresses to which a program sends one file, within ten minutes, in place of the key that asked for them. `id` is that of the file.
create table slack_uploads (
    id uuid primary key,
    token_hash text not null unique,
    credential_id uuid not null,
    name text not null,
    size_bytes bigint not null,
    is_used boolean not null,
    expires_at timestamptz not null
);

create index slack_uploads_expiry on slack_uploads (expires_at);
create index slack_uploads_credential on slack_uploads (credential_id);
