-- Text of files, taken from their bytes by another process. It belongs to the bytes, as `blobs` does, and everything here can be made
-- again, so backups leave it out.
create table documents (
    hash text primary key references blobs (hash) on delete cascade,
    -- Number of the extractor that read it.
    version bigint not null,
    state text not null,
    reason text,
    parts bigint not null,
    chars bigint not null,
    -- Numbers of parts that were not read, as a JSON array.
    unread_parts text not null,
    -- Workspace of the upload that queued it: one document of a workspace is read at a time.
    workspace_id uuid not null,
    queued_at timestamptz not null,
    -- While a process reads the document, the time at which that process counts as lost.
    claimed_until timestamptz,
    attempt bigint not null
);
create index documents_waiting on documents (queued_at) where state = 'waiting';
create index documents_version on documents (version) where state <> 'waiting';

-- Pages, slides, sheets, sections, or ranges of lines.
create table document_parts (
    hash text not null references documents (hash) on delete cascade,
    n bigint not null,
    -- Empty for a text without headings, which is named after its file.
    label text not null,
    heading text,
    -- Header row of a table, for passages that do not contain it.
    header text,
    text text not null,
    primary key (hash, n)
);

-- The passages of a file, which are put into the index part by part, and removed from it after the file was deleted.
create table passage_sets (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    -- Null once the file is deleted: its passages are no longer found, and leave the index.
    file_id uuid references files (id) on delete set null,
    -- Number of the last part whose passages are in the index.
    parts_done bigint not null,
    is_complete boolean not null,
    created_at timestamptz not null
);
create index passage_sets_workspace on passage_sets (workspace_id);
create unique index passage_sets_file on passage_sets (file_id) where file_id is not null;
create index passage_sets_incomplete on passage_sets (created_at) where is_complete = false;
create index passage_sets_deleted on passage_sets (created_at) where file_id is null;

-- Parts of documents' parts that are found by search. `no` is the number in the index; the texts are in `document_parts`.
create table passages (
    workspace_id uuid not null,
    no bigint not null,
    set_id uuid not null references passage_sets (id) on delete cascade,
    part bigint not null,
    from_byte bigint not null,
    to_byte bigint not null,
    primary key (workspace_id, no)
);
create index passages_set on passages (set_id, no);
