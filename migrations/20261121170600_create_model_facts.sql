-- One text for SQLite and PostgreSQL.

-- What the responses of a model server revealed about a model (refused fields, context window, token counts), so that a restart
-- does not forget it. `facts` is JSON of the client for such servers.
create table model_facts (
    server text not null,
    model text not null,
    facts text not null,
    updated_at timestamptz not null,
    primary key (server, model)
);
