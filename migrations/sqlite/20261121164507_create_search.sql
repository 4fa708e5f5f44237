-- Full-text search on SQLite; the program writes the documents (src/chat/search).

-- The number of a workspace in the index: rowid = (no << 40) + the message's seq. So each workspace has one range of rows, and
-- the order of rows is that of messages.
create table search_spaces (
    no integer primary key,
    workspace_id uuid not null unique references workspaces (id) on delete cascade
);
create trigger search_spaces_open after insert on workspaces begin
    insert into search_spaces (workspace_id) values (new.id);
end;

-- The words of each message, folded, and its filterable properties, which begin with `=`. `ascii` takes them as they come.
-- Search while typing uses the indexes of beginnings of two and three letters. Nothing ranks by length, so the sizes of rows
-- are not kept.
create virtual table search_index using fts5 (words, tokenize = "ascii tokenchars '='", prefix = '2 3', columnsize = 0);
-- Words of deleted messages leave the index at once, not when segments are merged.
insert into search_index (search_index, rank) values ('secure-delete', 1);
