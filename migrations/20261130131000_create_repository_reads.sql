-- Folders of repositories that people import, as requests for runners. The runner stores `archive`, a zip file, or `problem`, the reason why
-- there is none. The person's request deletes its row; others go with the next one of their repository.
create table repository_reads (
    id uuid primary key,
    repository_id uuid not null references repositories (id) on delete cascade,
    path text not null,
    archive bytea,
    problem text,
    created_at timestamptz not null
);
create index repository_reads_repository on repository_reads (repository_id);
