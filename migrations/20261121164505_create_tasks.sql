-- Tasks, what models received and returned, and usage. One text for SQLite and PostgreSQL.

-- The task queue, and the record of calls that were never queued: those have no conversation, and no agent unless the call
-- named one. One task per agent and conversation runs at a time. A task that `holds_slot` keeps its turn while it waits.
-- Whoever writes for a running task must name its `lease_token`.
create table tasks (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    kind text not null,
    status text not null,
    agent_id uuid,
    agent_version bigint,
    channel_id uuid references channels (id) on delete cascade,
    thread_id uuid references threads (id) on delete cascade,
    conversation_id uuid,
    trigger_message_id uuid,
    reply_message_id uuid,
    notice_message_id uuid,
    requested_by uuid not null,
    retry_of uuid,
    parent_task_id uuid,
    root_task_id uuid not null,
    depth bigint not null,
    attempt bigint not null,
    retry_counts jsonb not null,
    retry_at timestamptz,
    wait_reason text,
    holds_slot boolean not null,
    input jsonb not null,
    output jsonb,
    token_usage jsonb,
    error jsonb,
    worker_id uuid,
    lease_token uuid,
    lease_until timestamptz,
    queued_at timestamptz not null,
    started_at timestamptz,
    completed_at timestamptz
);
create index tasks_queue on tasks (workspace_id, id) where status = 'queued';
create index tasks_running on tasks (lease_until) where status = 'running';
create index tasks_conversation on tasks (conversation_id, agent_id) where status in ('queued', 'running');
create index tasks_thread on tasks (thread_id, id);
create index tasks_workspace on tasks (workspace_id, id);
create index tasks_agent on tasks (agent_id, id);
create index tasks_trigger on tasks (trigger_message_id);
create unique index tasks_retry_of on tasks (retry_of) where retry_of is not null;
-- At most one resolution of a fork is being drafted.
create unique index tasks_resolve on tasks (conversation_id) where kind = 'resolve' and status in ('queued', 'running');

-- What a task's model was sent last, with IDs and estimates, and the outcome of each call.
create table task_contexts (
    task_id uuid primary key references tasks (id) on delete cascade,
    manifest jsonb not null,
    attempts jsonb not null
);

-- Texts that were sent, each stored once per source: a message that a hundred prompts contain is one row. `hash` is the
-- SHA-256 of source type, source ID, and text. It is null once the text was removed, because a hash confirms a guess.
create table context_texts (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    hash text,
    text text not null,
    last_used_at timestamptz not null
);
create unique index context_texts_hash on context_texts (workspace_id, hash);
create index context_texts_age on context_texts (workspace_id, last_used_at);

-- Parts of the prompt of a task, in order. Without foreign key to the text: an expired text leaves the ID and the tokens.
create table context_parts (
    task_id uuid not null references tasks (id) on delete cascade,
    position bigint not null,
    name text not null,
    source_type text,
    source_id uuid,
    role text not null,
    tokens bigint not null,
    text_id uuid not null,
    primary key (task_id, position)
);

-- Sources of derived texts. One message can have many texts (labeled, as a question, before an edit), and one text many
-- messages (a summary).
create table citations (
    source_type text not null,
    source_id uuid not null,
    owner_type text not null,
    owner_id uuid not null,
    primary key (source_type, source_id, owner_type, owner_id)
);
create index citations_owner on citations (owner_type, owner_id);

-- Stored responses of `/v1/responses`: `input` holds the items that the request added to the conversation, `response` is the
-- response as it was sent. `previous_id` is the response that it continues, which may be deleted already. Only `user_id` can
-- see it, in this workspace, until `expires_at`. A continuation runs with the same version of the agent.
create table responses (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    user_id uuid not null references users (id) on delete cascade,
    previous_id uuid,
    agent_id uuid,
    agent_version bigint,
    task_id uuid not null references tasks (id) on delete cascade,
    input jsonb not null,
    response jsonb not null,
    created_at timestamptz not null,
    expires_at timestamptz not null
);
create index responses_workspace on responses (workspace_id, id);
create index responses_user on responses (user_id, id);
create index responses_task on responses (task_id);
create index responses_expiry on responses (expires_at);

-- One row for each workspace, month (UTC), user, agent, and model, raised when a task ends. `agent_id` is the ID of the
-- workspace if no agent ran; `model` is empty if none was called. `cost_usd` is null as long as no price is known.
create table usage (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    month text not null,
    user_id uuid not null,
    agent_id uuid not null,
    model text not null,
    tasks bigint not null,
    failed bigint not null,
    input_tokens bigint not null,
    output_tokens bigint not null,
    cost_usd double precision,
    primary key (workspace_id, month, user_id, agent_id, model)
);
