-- Emails about items that a person missed, and the secret with which a link in them turns these off. `mail_problem` is the answer of a
-- mail server that refused one.
alter table notification_settings add column mail text not null default 'off';
alter table notification_settings add column mail_token text;
alter table notification_settings add column mail_problem text;
create unique index notification_settings_mail_token on notification_settings (mail_token);

-- Most that notifications show, by channel: merged by key.
alter table workspace_policies add column preview_max jsonb not null default '{}';
