-- Emails that wait to be sent, and for a week the outcome of the others.
create table mails (
    id uuid primary key,
    -- Objects that the email belongs to; each can be null.
    user_id uuid references users (id) on delete cascade,
    invite_id uuid references invites (id) on delete cascade,
    workspace_id uuid references workspaces (id) on delete cascade,
    purpose text not null,
    state text not null,
    attempt integer not null,
    -- Time of the next attempt; during one, the time at which it counts as lost. Null once the email has left the queue.
    due_at timestamptz,
    -- Answer of the mail server, or cause of the latest failure.
    answer text,
    -- The encrypted email; empty once it has left the queue.
    key_id text not null,
    nonce text not null,
    ciphertext text not null,
    created_at timestamptz not null
);
create index mails_due on mails (due_at) where due_at is not null;
create index mails_created on mails (created_at);
create index mails_user on mails (user_id, created_at);
create index mails_invite on mails (invite_id, created_at);
create index mails_workspace on mails (workspace_id, created_at);

-- Links in emails are steps of signing in, too: those of an invite end with it.
alter table auth_flows add column invite_id uuid references invites (id) on delete cascade;
alter table auth_flows add column email text;
create index auth_flows_invite on auth_flows (invite_id);

-- Time at which the person proved that the address is theirs.
alter table users add column email_confirmed_at timestamptz;
