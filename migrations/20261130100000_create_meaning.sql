-- Hash of the text that gets a vector. Empty for passages of earlier versions, until their files are indexed again.
alter table passages add column text_hash text not null default '';
create index passages_text on passages (workspace_id, text_hash);
create index passages_without_hash on passages (set_id) where text_hash = '';

-- Version of the settings for search by meaning in a workspace, which continues after they are removed.
create table embedding_settings (
    workspace_id uuid primary key references workspaces (id) on delete cascade,
    version bigint not null
);

-- Models whose vectors a workspace has. The current one gets the vectors of all passages; the one that serves is used by searches until the
-- current one has them all. A model of the environment is one that environment variables name. Models that are neither current nor serve are
-- removed. The key of a model's server is in `secrets`.
create table embedding_models (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    -- Null for the model server of the workspace.
    base_url text,
    model text not null,
    -- Null until the first vectors arrive.
    dimensions bigint,
    is_environment boolean not null,
    is_current boolean not null,
    is_serving boolean not null,
    -- Version of the settings with which its server or key was last changed.
    version bigint not null,
    created_at timestamptz not null
);
create index embedding_models_workspace on embedding_models (workspace_id);
create unique index embedding_models_current on embedding_models (workspace_id, is_environment) where is_current = true;

-- Progress of the job that requests vectors. Left out of backups, because passages get other numbers after a restore.
create table embedding_progress (
    model_id uuid primary key references embedding_models (id) on delete cascade,
    -- Number of the last passage up to which all passages have vectors.
    done_no bigint not null,
    -- How often `done_no` was lowered, because the newest passages were removed and their numbers can be used again.
    rewinds bigint not null,
    -- Failures since the last success, and what the last one was.
    failures bigint not null,
    retry_at timestamptz,
    error text,
    updated_at timestamptz not null
);

-- Vectors of texts of passages, with a signed byte for each value. No vector has an empty hash.
create table embeddings (
    model_id uuid not null references embedding_models (id) on delete cascade,
    text_hash text not null,
    vector bytea not null,
    primary key (model_id, text_hash)
);
