//! Claims of a provider about a person who comes back from it.

use serde_json::Value;

use super::{
    SignInFault,
    client::{Connection, ProviderClient},
    provider::{EmailTrust, ProviderSecondFactor, ProviderSettings},
    step::{Step, StepPurpose, StepSecrets},
    token::{Claims, LEEWAY_S, subject, time},
};
use crate::auth::{names::parse_email, sessions::SignInProof};

/// Maximum number of groups; more of them count as none.
const GROUPS_MAX: usize = 2000;
/// Values of `amr` that stand for a second factor.
const SECOND_FACTORS: [&str; 5] = ["mfa", "otp", "hwk", "fpt", "face"];

/// Email address of a person, according to the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum VouchedAddress {
    Trusted(String),
    /// Absent, or not confirmed.
    NotConfirmed,
    /// In a domain that the provider does not vouch for.
    NotCovered,
}

/// A person, according to the provider.
#[derive(Debug, Clone)]
pub(crate) struct Vouched {
    pub subject: String,
    pub address: VouchedAddress,
    pub name: Option<String>,
    /// Groups; `None` if the provider does not name them.
    pub groups: Option<Vec<String>>,
    /// The provider's name for its session.
    pub session: Option<String>,
    pub proof: SignInProof,
    pub claims: Claims,
}

impl VouchedAddress {
    fn of(claims: &Claims, settings: &ProviderSettings) -> Self {
        let email = claims.get("email").and_then(Value::as_str);
        let Some(email) = email.and_then(|text| parse_email(text).ok()) else {
            return Self::NotConfirmed;
        };
        let is_verified = match claims.get("email_verified") {
            Some(Value::Bool(is_verified)) => *is_verified,
            Some(Value::String(text)) => text == "true",
            _ => false,
        };
        if !is_verified && settings.email_trust == EmailTrust::Claim {
            return Self::NotConfirmed;
        }
        if settings.covers(&email) {
            Self::Trusted(email)
        } else {
            Self::NotCovered
        }
    }
}

fn text(claims: &Claims, name: &str) -> Option<String> {
    let text = claims.get(name).and_then(Value::as_str)?.trim();
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

fn email_of(claims: &Claims) -> Option<String> {
    text(claims, "email").map(|email| email.to_lowercase())
}

fn groups_of(claims: &Claims, name: &str) -> Option<Vec<String>> {
    match claims.get(name)? {
        Value::String(one) => Some(vec![one.clone()]),
        Value::Array(all) if all.len() <= GROUPS_MAX => {
            let names = all.iter().filter_map(Value::as_str);
            Some(names.map(str::to_owned).collect())
        }
        _ => None,
    }
}

fn proof_of(claims: &Claims, second_factor: ProviderSecondFactor) -> SignInProof {
    let is_claimed = || {
        let methods = claims.get("amr").and_then(Value::as_array);
        let mut methods = methods.into_iter().flatten().filter_map(Value::as_str);
        methods.any(|method| SECOND_FACTORS.contains(&method))
    };
    match second_factor {
        ProviderSecondFactor::Always => SignInProof::SecondFactor,
        ProviderSecondFactor::Claim if is_claimed() => SignInProof::SecondFactor,
        ProviderSecondFactor::Claim | ProviderSecondFactor::Never => SignInProof::OneFactor,
    }
}

impl Vouched {
    fn of(claims: Claims, subject: String, settings: &ProviderSettings) -> Self {
        Self {
            subject,
            address: VouchedAddress::of(&claims, settings),
            name: text(&claims, "name").or_else(|| text(&claims, "preferred_username")),
            groups: groups_of(&claims, &settings.groups_claim),
            session: text(&claims, "sid").filter(|id| id.chars().count() <= 255),
            proof: proof_of(&claims, settings.second_factor),
            claims,
        }
    }
}

/// Adds the claims that are missing. A confirmation counts only for the address that it comes with.
fn complete(claims: &mut Claims, more: Claims) {
    let (known, other) = (email_of(claims), email_of(&more));
    if known.is_none() {
        claims.remove("email_verified");
    }
    let is_same = known.is_none() || other.is_none() || known == other;
    for (key, value) in more {
        if is_same || key != "email_verified" {
            claims.entry(key).or_insert(value);
        }
    }
}

/// Exchanges the code, verifies the ID token, and reads what it lacks.
///
/// # Errors
/// Every fault of a provider.
pub(crate) async fn read(
    client: &ProviderClient,
    provider: &Connection,
    settings: &ProviderSettings,
    step: &Step,
    secrets: &StepSecrets,
    code: &str,
    redirect_uri: &str,
) -> Result<Vouched, SignInFault> {
    let tokens = client
        .exchange(provider, code, redirect_uri, &secrets.verifier())
        .await?;
    let mut claims = client.verify(provider, &tokens.id_token).await?;
    claims.retain(|_, value| !value.is_null());
    let refuse = |code: &str| SignInFault::Refused(code.to_owned());
    if claims.get("nonce").and_then(Value::as_str) != Some(secrets.nonce().as_str()) {
        return Err(refuse("wrong_nonce"));
    }
    let name = subject(&claims).ok_or_else(|| refuse("invalid_subject"))?;
    let name = name.to_owned();
    if step.purpose == StepPurpose::Confirm
        && time(&claims, "auth_time").is_none_or(|at| at < step.began_at - LEEWAY_S)
    {
        return Err(refuse("old_sign_in"));
    }
    let needs_groups = settings
        .workspaces
        .iter()
        .any(|workspace| !workspace.rules.is_empty());
    let lacks = |name: &str| !claims.contains_key(name);
    let is_incomplete =
        lacks("email") || lacks("name") || needs_groups && lacks(&settings.groups_claim);
    let is_unconfirmed = settings.email_trust == EmailTrust::Claim && lacks("email_verified");
    let token = tokens.access_token;
    if let Some(token) = token.filter(|_| is_incomplete || is_unconfirmed) {
        let more = match client.user_info(provider, &token).await {
            // Known people sign in without a confirmed address.
            Err(_) if !is_incomplete => Claims::new(),
            more => more?,
        };
        if !more.is_empty() && subject(&more) != Some(name.as_str()) {
            return Err(refuse("wrong_subject"));
        }
        complete(&mut claims, more);
    }
    Ok(Vouched::of(claims, name, settings))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings(domains: &[&str], trust: EmailTrust) -> ProviderSettings {
        ProviderSettings {
            domains: domains.iter().map(|domain| (*domain).to_owned()).collect(),
            email_trust: trust,
            groups_claim: "groups".to_owned(),
            second_factor: ProviderSecondFactor::Claim,
            workspaces: Vec::new(),
        }
    }

    fn address(claims: &Value, settings: &ProviderSettings) -> VouchedAddress {
        VouchedAddress::of(claims.as_object().unwrap(), settings)
    }

    #[test]
    fn an_address_is_trusted_if_it_is_confirmed_and_in_a_domain() {
        let named = settings(&["example.org"], EmailTrust::Claim);
        let trusted = || VouchedAddress::Trusted("ada@example.org".to_owned());
        for verified in [json!(true), json!("true")] {
            let claims = json!({"email": "Ada@Example.org", "email_verified": verified});
            assert_eq!(address(&claims, &named), trusted());
        }
        for verified in [
            json!(false),
            json!("false"),
            json!(1),
            json!("yes"),
            json!(null),
        ] {
            let claims = json!({"email": "ada@example.org", "email_verified": verified});
            assert_eq!(address(&claims, &named), VouchedAddress::NotConfirmed);
        }
        let claims = json!({"email": "ada@example.org"});
        assert_eq!(address(&claims, &named), VouchedAddress::NotConfirmed);
        let by_issuer = settings(&["example.org"], EmailTrust::Issuer);
        assert_eq!(address(&claims, &by_issuer), trusted());
        for email in [
            "ada@evil.org",
            "ada@example.org.evil.org",
            "ada@sub.example.org",
        ] {
            let claims = json!({"email": email, "email_verified": true});
            assert_eq!(
                address(&claims, &named),
                VouchedAddress::NotCovered,
                "{email}"
            );
        }
        let all = settings(&["*"], EmailTrust::Claim);
        let claims = json!({"email": "ada@evil.org", "email_verified": true});
        assert!(matches!(address(&claims, &all), VouchedAddress::Trusted(_)));
        let none = settings(&[], EmailTrust::Claim);
        let claims = json!({"email": "ada@example.org", "email_verified": true});
        assert_eq!(address(&claims, &none), VouchedAddress::NotCovered);
    }

    #[test]
    fn a_confirmation_counts_only_for_the_address_that_it_comes_with() {
        let ada = json!("ada@example.org");
        for (token, more, is_confirmed) in [
            (json!({"email": ada}), json!({"email_verified": true}), true),
            (
                json!({"email": ada}),
                json!({"email": "Ada@Example.org", "email_verified": true}),
                true,
            ),
            (
                json!({"email": ada}),
                json!({"email": "bo@example.org", "email_verified": true}),
                false,
            ),
            (
                json!({"email": ada, "email_verified": false}),
                json!({"email": ada, "email_verified": true}),
                false,
            ),
            (
                json!({}),
                json!({"email": ada, "email_verified": true}),
                true,
            ),
            (
                json!({"email_verified": true}),
                json!({"email": ada, "email_verified": false}),
                false,
            ),
            (
                json!({"email_verified": true}),
                json!({"email": ada}),
                false,
            ),
        ] {
            let mut claims = token.as_object().unwrap().clone();
            complete(&mut claims, more.as_object().unwrap().clone());
            let found = address(&claims.into(), &settings(&["*"], EmailTrust::Claim));
            let expected = if is_confirmed {
                VouchedAddress::Trusted("ada@example.org".to_owned())
            } else {
                VouchedAddress::NotConfirmed
            };
            assert_eq!(found, expected, "{token} {more}");
        }
    }

    #[test]
    fn a_second_factor_is_claimed_or_set() {
        use ProviderSecondFactor::{Always, Claim, Never};
        for (claims, setting, counts) in [
            (json!({}), Claim, false),
            (json!({"amr": ["pwd"]}), Claim, false),
            (json!({"amr": "mfa"}), Claim, false),
            (json!({"amr": ["pwd", "mfa"]}), Claim, true),
            (json!({"amr": ["hwk"]}), Claim, true),
            (json!({"amr": ["mfa"]}), Never, false),
            (json!({}), Always, true),
        ] {
            let proof = proof_of(claims.as_object().unwrap(), setting);
            assert_eq!(
                proof == SignInProof::SecondFactor,
                counts,
                "{claims} {setting}"
            );
        }
    }

    #[test]
    fn groups_are_a_list_or_one_name() {
        let groups = |claims: Value| groups_of(claims.as_object().unwrap(), "groups");
        assert_eq!(groups(json!({})), None);
        assert_eq!(groups(json!({"groups": "a"})), Some(vec!["a".to_owned()]));
        assert_eq!(
            groups(json!({"groups": ["a", 1]})),
            Some(vec!["a".to_owned()])
        );
        assert_eq!(groups(json!({"groups": vec!["a"; 2001]})), None);
        assert_eq!(groups(json!({"groups": {}})), None);
    }
}
