-- Name of a file in its vector store, such as `rules/travel.md`. Null for files of an earlier version whose name was taken.
alter table vector_store_files add column path text;
update vector_store_files set path = (select f.name from files f where f.id = vector_store_files.file_id)
    where not exists (select 1 from vector_store_files o join files n on n.id = o.file_id
        join files f on f.name = n.name and f.id = vector_store_files.file_id
        where o.store_id = vector_store_files.store_id and o.file_id < vector_store_files.file_id);
create unique index vector_store_files_path on vector_store_files (store_id, path) where path is not null;

-- Files that will replace another one when their text was read, and replaced ones, which are kept for citations. Searches do not find
-- either.
create table vector_store_versions (
    store_id uuid not null references vector_stores (id) on delete cascade,
    file_id uuid not null references files (id) on delete cascade,
    path text not null,
    attributes text not null,
    batch_id uuid,
    -- Null while the file waits for its text, or if its text could not be read.
    replaced_at timestamptz,
    created_at timestamptz not null,
    primary key (store_id, file_id)
);
create unique index vector_store_versions_next on vector_store_versions (store_id, path) where replaced_at is null;
create index vector_store_versions_file on vector_store_versions (file_id);
create index vector_store_versions_batch on vector_store_versions (batch_id) where batch_id is not null;
create index vector_store_versions_replaced on vector_store_versions (replaced_at) where replaced_at is not null;

-- Web pages whose text is kept as a file of a vector store.
create table vector_store_urls (
    id uuid not null,
    store_id uuid not null references vector_stores (id) on delete cascade,
    path text not null,
    url text not null,
    every_s bigint not null,
    -- Version of the page, as its server names it.
    etag text,
    modified text,
    -- Time of the next look.
    due_at timestamptz not null,
    -- While a node reads the page, the time at which that node counts as lost.
    claimed_until timestamptz,
    refreshed_at timestamptz,
    -- Reason of the last failure, such as `404`; null if the last look succeeded.
    failure text,
    created_by uuid not null,
    created_at timestamptz not null,
    primary key (store_id, path)
);
create index vector_store_urls_due on vector_store_urls (due_at);
create index vector_store_urls_creator on vector_store_urls (created_by, id);

-- Set when a vector store was deleted, until its rows are gone.
alter table vector_stores add column deleted_at timestamptz;
create index vector_stores_deleted on vector_stores (deleted_at) where deleted_at is not null;
