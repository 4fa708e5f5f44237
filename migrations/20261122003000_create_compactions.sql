-- Summaries of older messages. One text for SQLite and PostgreSQL.

-- A conversation (thread or fork) from an agent's first reply on. Its eligible messages from `covered_from_seq` to
-- `covered_to_seq` are all in segments; null if that is not known.
create table conversations (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    thread_id uuid not null references threads (id) on delete cascade,
    fork_id uuid,
    last_compacted_at timestamptz,
    covered_from_seq bigint,
    covered_to_seq bigint
);
create index conversations_workspace on conversations (workspace_id);
create index conversations_thread on conversations (thread_id);

-- First message that is sent to an agent in a conversation; null as long as there are no segments. `turns` counts replies.
create table conversation_agents (
    conversation_id uuid not null references conversations (id) on delete cascade,
    agent_id uuid not null references agents (id) on delete cascade,
    window_start_seq bigint,
    turns bigint not null,
    primary key (conversation_id, agent_id)
);
create index conversation_agents_agent on conversation_agents (agent_id);

-- Segments: records of compacted ranges. The entries made from a segment are rows of memory. `gist` is empty if a message of
-- the segment was deleted; then the messages are not covered until it is made again. `blanked` counts how often that happened.
create table compactions (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    conversation_id uuid not null references conversations (id) on delete cascade,
    thread_id uuid not null references threads (id) on delete cascade,
    fork_id uuid,
    trigger text not null,
    state text not null,
    from_seq bigint not null,
    to_seq bigint not null,
    from_message_id uuid not null,
    to_message_id uuid not null,
    message_count bigint not null,
    tokens_before bigint not null,
    tokens_after bigint not null,
    agents jsonb not null,
    gist text not null,
    left_out jsonb not null,
    model text not null,
    task_id uuid not null,
    created_by uuid not null,
    created_at timestamptz not null,
    expanded_at timestamptz,
    blanked bigint not null default 0,
    version bigint not null
);
create index compactions_conversation on compactions (conversation_id, from_seq);
create index compactions_workspace on compactions (workspace_id);
create index compactions_thread on compactions (thread_id);

-- Entries that a removed one had superseded are current again.
create index memories_superseded on memories (superseded_by);

-- At most one pass of a conversation is active.
create unique index tasks_compact on tasks (conversation_id) where kind = 'compact' and status in ('queued', 'running');

-- Strategy of the workspace: a default and exceptions by mode.
alter table workspace_policies add column compaction jsonb not null default '{}';
