-- All email addresses of the accounts that providers manage, in lowercase, for filters.
create table scim_emails (
    provider_id uuid not null,
    user_id uuid not null,
    email_key text not null,
    primary key (provider_id, email_key, user_id),
    foreign key (provider_id, user_id) references scim_users (provider_id, user_id) on delete cascade
);
create index scim_emails_user on scim_emails (provider_id, user_id);
insert into scim_emails (provider_id, user_id, email_key)
select distinct u.provider_id, u.user_id, lower(e ->> 'value') from scim_users u, jsonb_array_elements(u.data -> 'emails') e;

-- `scim_users.email_key` had only one of them, and is no longer written.
drop index scim_users_email;
