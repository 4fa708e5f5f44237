-- Whether API clients can call the model without an agent. One text for SQLite and PostgreSQL.
alter table workspace_policies add column bare_model boolean not null default TRUE;
