-- Deleted threads whose rows are still being removed. Such a thread is in a channel without members, so nobody sees it; `channel_id` is
-- the channel in which it was. `from_seq` precedes all of its events.
create table thread_removals (
    thread_id uuid primary key references threads (id) on delete cascade,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    channel_id uuid not null,
    from_seq bigint not null,
    created_at timestamptz not null
);
create index thread_removals_workspace on thread_removals (workspace_id, created_at);

-- Messages of a thread and all of its forks.
create index messages_thread on messages (thread_id);
