-- Guests see only their own channels. `expires_at` is when the membership ends; null means never. `noticed_at` is when the inviter was
-- told that it ends soon.
create table guests (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    user_id uuid not null references users (id) on delete cascade,
    invited_by uuid references users (id) on delete set null,
    expires_at timestamptz,
    noticed_at timestamptz,
    primary key (workspace_id, user_id)
);
create index guests_user on guests (user_id);
create index guests_inviter on guests (invited_by);
create index guests_end on guests (expires_at) where expires_at is not null;

-- Finds out at once that a channel has no guests.
create index members_guests on members (workspace_id, user_id) where role = 'guest';

alter table workspaces add column guests_use_agents boolean not null default TRUE;

-- Of an invite for a guest: the channels, as an array of IDs, and the end of the membership.
alter table invites add column channel_ids jsonb;
alter table invites add column guest_expires_at timestamptz;
