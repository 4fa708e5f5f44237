-- API key that started the chain of a link: it posted the message, or retried a link. Null for a person. The ID stays when the key is revoked.
alter table tasks add column api_key_id uuid;
