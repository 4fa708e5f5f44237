-- The record of what models were sent, as rows. One text for SQLite and PostgreSQL.

-- Texts that were sent, each stored once per source: a message that a hundred prompts contain is one row. `hash` is the SHA-256
-- of source type, source ID, and text. It is null once the text was taken out, because a hash confirms a guess.
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
