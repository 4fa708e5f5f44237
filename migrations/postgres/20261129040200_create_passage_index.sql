-- The words of passages, like those of messages in `search_index`.
create table search_passages (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    no bigint not null,
    words tsvector not null,
    primary key (workspace_id, no)
);
create index search_passages_words on search_passages using gin (words);
