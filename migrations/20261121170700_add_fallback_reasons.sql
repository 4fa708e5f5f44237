-- One text for SQLite and PostgreSQL.

-- Why a draft was extracted although a model is connected: the error code of the model call.
alter table resolutions add column fallback_reason text;
