-- Full-text search on SQLite; what it holds is written by the program (src/chat/search).

-- The number under which a workspace's documents stand in the index: rowid = (no << 40) + the message's seq. So one range of
-- rows is one workspace, and the order of rows is that of messages.
create table search_spaces (
    no integer primary key,
    workspace_id uuid not null unique references workspaces (id) on delete cascade
);
insert into search_spaces (workspace_id) select id from workspaces order by id;
create trigger search_spaces_open after insert on workspaces begin
    insert into search_spaces (workspace_id) values (new.id);
end;

-- The words of each message, folded, and facts about it, which begin with `=`. `ascii` takes them as they come. Nothing ranks by
-- length, so the sizes of rows are not kept.
create virtual table search_index using fts5 (words, tokenize = "ascii tokenchars '='", columnsize = 0);
-- Words of deleted messages leave the index at once, not when segments are merged.
insert into search_index (search_index, rank) values ('secure-delete', 1);
