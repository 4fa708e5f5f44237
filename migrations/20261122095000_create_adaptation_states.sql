-- Adaptation to people who allow it. One text for SQLite and PostgreSQL.

-- How a person and an agent get along in a conversation; only that person can read it. `scores` are those of the newest messages,
-- without text. `turns` counts the agent's replies to the person since the row was created, `event_turn` is the turn of the newest
-- reflection on an event, and `interval_turns` holds the turn of the newest reflection by metaprompt. The row expires some time
-- after `last_message_at`. Without foreign key to the fork, as in `conversations`.
create table adaptation_states (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    user_id uuid not null references users (id) on delete cascade,
    agent_id uuid not null references agents (id) on delete cascade,
    thread_id uuid not null references threads (id) on delete cascade,
    conversation_id uuid not null,
    mood text not null,
    user_skill text not null,
    task_complexity text not null,
    last_event jsonb,
    scores jsonb not null,
    turns bigint not null,
    event_turn bigint,
    interval_turns jsonb not null,
    last_message_at timestamptz not null,
    created_at timestamptz not null,
    unique (conversation_id, agent_id, user_id)
);
create index adaptation_states_own on adaptation_states (workspace_id, user_id, id);
create index adaptation_states_user on adaptation_states (user_id);
create index adaptation_states_agent on adaptation_states (agent_id);
create index adaptation_states_thread on adaptation_states (thread_id);
create index adaptation_states_expiry on adaptation_states (last_message_at);

-- Both switches are off until somebody turns them on.
alter table workspace_policies add column adaptation_allowed boolean not null default FALSE;
alter table memory_settings add column adapt boolean not null default FALSE;
