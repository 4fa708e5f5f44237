-- Memberships without access. The row of `members` moves here, so that no access check finds it, and returns when the membership is restored.
-- The handle stays taken.
create table suspended_members (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    user_id uuid not null references users (id) on delete cascade,
    role text not null,
    handle text not null,
    joined_at timestamptz not null,
    managed_by uuid references identity_providers (id) on delete set null,
    suspended_at timestamptz not null,
    primary key (workspace_id, user_id)
);
create index suspended_members_user on suspended_members (user_id);
create index suspended_members_order on suspended_members (workspace_id, joined_at, user_id);
create index suspended_members_managed_by on suspended_members (managed_by);

-- Channels of suspended memberships.
create table suspended_channels (
    workspace_id uuid not null,
    user_id uuid not null,
    channel_id uuid not null references channels (id) on delete cascade,
    joined_seq bigint not null,
    read_seq bigint not null,
    level text not null,
    joined_at timestamptz not null,
    primary key (channel_id, user_id),
    foreign key (workspace_id, user_id) references suspended_members (workspace_id, user_id) on delete cascade
);
create index suspended_channels_member on suspended_channels (workspace_id, user_id);

-- Levels in conversations of suspended memberships.
create table suspended_follows (
    conversation_id uuid not null,
    thread_id uuid not null references threads (id) on delete cascade,
    user_id uuid not null,
    channel_id uuid not null,
    level text not null,
    cause text not null,
    done_seq bigint not null,
    until timestamptz,
    changed_seq bigint not null,
    created_at timestamptz not null,
    primary key (conversation_id, user_id),
    foreign key (channel_id, user_id) references suspended_channels (channel_id, user_id) on delete cascade
);
create index suspended_follows_channel on suspended_follows (channel_id, user_id);
create index suspended_follows_thread on suspended_follows (thread_id);
