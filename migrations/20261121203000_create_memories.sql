-- Memory: sentences with their sources. One text for SQLite and PostgreSQL.

-- Entries. `key` names what an entry belongs to (a conversation, a person, a person and an agent, an agent, the workspace), so
-- that limits and deduplication need one index. `hash` is the keyed hash of the normalized text; null if the server has no
-- secret key. `channel_id` is the channel to which `visibility` restricts the use. The sources are rows in `citations`. A
-- forgotten entry keeps its row without the text, so that it is not made again from the same messages. `words` is the number of
-- its words in `memory_words`.
create table memories (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    scope text not null,
    key text not null,
    kind text not null,
    text text not null,
    hash text,
    words bigint not null,
    agent_id uuid references agents (id) on delete cascade,
    user_id uuid,
    about_user_id uuid,
    thread_id uuid references threads (id) on delete cascade,
    conversation_id uuid,
    compaction_id uuid,
    channel_id uuid references channels (id) on delete cascade,
    visibility text not null,
    trust text not null,
    origin text not null,
    status text not null,
    superseded_by uuid,
    share_with_organization boolean not null,
    flagged boolean not null,
    uses bigint not null,
    last_used_at timestamptz,
    expires_at timestamptz,
    version bigint not null,
    created_by uuid,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    forgotten_at timestamptz
);
create index memories_workspace on memories (workspace_id, id);
create index memories_key on memories (workspace_id, key, status);
create index memories_hash on memories (workspace_id, hash);
create index memories_agent on memories (agent_id);
create index memories_thread on memories (thread_id);
create index memories_channel on memories (channel_id);
create index memories_user on memories (workspace_id, user_id);
create index memories_about on memories (workspace_id, about_user_id);
create index memories_compaction on memories (compaction_id);

-- Stems of the entries' words with their number in the entry, and the entry's number of words, for the ranking.
create table memory_words (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    word text not null,
    memory_id uuid not null references memories (id) on delete cascade,
    count bigint not null,
    words bigint not null,
    primary key (workspace_id, word, memory_id)
);
create index memory_words_memory on memory_words (memory_id);

-- Switches of a person; without a row, both are on.
create table memory_settings (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    user_id uuid not null references users (id) on delete cascade,
    enabled boolean not null,
    persona boolean not null,
    updated_at timestamptz not null,
    primary key (workspace_id, user_id)
);
create index memory_settings_user on memory_settings (user_id);

-- Whether agents remember a thread.
alter table threads add column memory text not null default 'on';

-- Switches of the workspace, merged by key.
alter table workspace_policies add column memory jsonb not null default '{}';

-- Sources of an entry are checked for each one that is ranked.
drop index citations_owner;
create index citations_owner on citations (owner_type, owner_id, source_type, source_id);

-- The only person to whom a part is shown.
alter table context_parts add column only_user_id uuid;
