//! Amounts of tokens and money.

use serde::{Serialize, Serializer};
use utoipa::openapi::schema::{ObjectBuilder, Type};

use crate::{
    model::{Provider, Usage, grouped},
    text_enum::text_enum,
};

/// Number of billionths in a US dollar. Integers add up exactly, so that releasing a reservation leaves no remainder.
const NANO: u64 = 1_000_000_000;
/// Number of tokens per price unit.
const MILLION: i64 = 1_000_000;

text_enum! {
    pub enum BudgetUnit {
        Usd = "usd",
        Tokens = "tokens",
    }
}

/// Prices of a model in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    pub input_usd: f64,
    pub output_usd: f64,
}

impl Price {
    /// Returns `None` if the model has no known price.
    pub fn of(provider: &dyn Provider, model: &str) -> Option<Self> {
        let cost = |input_tokens, output_tokens| {
            let usage = Usage {
                input_tokens,
                output_tokens,
                ..Usage::default()
            };
            provider.cost_usd(model, usage)
        };
        Some(Self {
            input_usd: cost(MILLION, 0)?,
            output_usd: cost(0, MILLION)?,
        })
    }

    /// Cost in US dollars that a call with this estimate reserves.
    pub fn cost_usd_max(self, input_tokens: u64, output_tokens_max: u32) -> f64 {
        self.cost_usd(input_max(input_tokens), i64::from(output_tokens_max))
    }

    /// Cost in US dollars.
    pub fn cost_usd(self, input_tokens: i64, output_tokens: i64) -> f64 {
        let cost = |tokens: i64, usd: f64| {
            f64::from(u32::try_from(tokens.max(0)).unwrap_or(u32::MAX)) * usd / 1e6
        };
        cost(input_tokens, self.input_usd) + cost(output_tokens, self.output_usd)
    }
}

/// Number of input tokens to reserve for an estimate: 1.5 times the estimate.
fn input_max(input_tokens: u64) -> i64 {
    let input = input_tokens.saturating_add(input_tokens.div_ceil(2));
    i64::try_from(input).unwrap_or(i64::MAX)
}

/// Converts US dollars to billionths, rounded up.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a float that is too large becomes the largest integer"
)]
pub fn nano_usd(usd: f64) -> i64 {
    // A sum of floats such as 0.1 + 0.2 must not be rounded up to another billionth.
    (usd.max(0.0) * 1e9 - 1e-3).ceil() as i64
}

/// Amounts that one call reserves or has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amounts {
    pub tokens: i64,
    /// `None` if the model has no known price. Budgets in US dollars do not cover the call then.
    pub nano_usd: Option<i64>,
}

impl Amounts {
    pub fn new(tokens: i64, cost_usd: Option<f64>) -> Self {
        Self {
            tokens,
            nano_usd: cost_usd.map(nano_usd),
        }
    }

    /// Reservation for a call: 1.5 times the estimated input, because estimates can be too low, plus the output limit of the request.
    pub fn reserved(input_tokens: u64, output_tokens_max: u32, price: Option<Price>) -> Self {
        let input = input_max(input_tokens);
        let output = i64::from(output_tokens_max);
        let cost_usd = price.map(|price| price.cost_usd(input, output));
        Self::new(input.saturating_add(output), cost_usd)
    }

    pub(super) fn in_unit(self, unit: BudgetUnit) -> Option<i64> {
        match unit {
            BudgetUnit::Usd => self.nano_usd,
            BudgetUnit::Tokens => Some(self.tokens),
        }
    }
}

/// An amount in the unit of its budget: US dollars or tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    Usd(f64),
    Tokens(i64),
}

impl Amount {
    #[expect(
        clippy::cast_precision_loss,
        reason = "amounts of money are shown with a few digits"
    )]
    pub(super) fn new(unit: BudgetUnit, amount: i64) -> Self {
        match unit {
            BudgetUnit::Usd => Self::Usd(amount as f64 / 1e9),
            BudgetUnit::Tokens => Self::Tokens(amount),
        }
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Usd(usd) => s.serialize_f64(*usd),
            Self::Tokens(tokens) => s.serialize_i64(*tokens),
        }
    }
}

impl utoipa::PartialSchema for Amount {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        ObjectBuilder::new().schema_type(Type::Number).into()
    }
}

impl utoipa::ToSchema for Amount {}

/// Formats an amount for display: `$50.00`, `$0.0025`, `100,000 tokens`.
pub(super) fn shown(unit: BudgetUnit, amount: i64) -> String {
    let amount = amount.unsigned_abs();
    match unit {
        BudgetUnit::Tokens if amount == 1 => "1 token".to_owned(),
        BudgetUnit::Tokens => format!("{} tokens", grouped(amount)),
        BudgetUnit::Usd => {
            let digits = format!("{:09}", amount % NANO);
            let length = digits.trim_end_matches('0').len().max(2);
            format!("${}.{}", grouped(amount / NANO), &digits[..length])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_shown_with_cents_and_with_as_many_digits_as_it_has() {
        for (amount, text) in [
            (50_000_000_000, "$50.00"),
            (1_234_500_000_000, "$1,234.50"),
            (2_500_000, "$0.0025"),
            (1, "$0.000000001"),
            (0, "$0.00"),
        ] {
            assert_eq!(shown(BudgetUnit::Usd, amount), text);
        }
        assert_eq!(shown(BudgetUnit::Tokens, 100_000), "100,000 tokens");
        assert_eq!(shown(BudgetUnit::Tokens, 1), "1 token");
    }

    #[test]
    fn dollars_are_rounded_up_to_a_billionth() {
        assert_eq!(nano_usd(50.0), 50_000_000_000);
        assert_eq!(nano_usd(0.1 + 0.2), 300_000_000);
        assert_eq!(nano_usd(0.000_000_000_4), 1);
        assert_eq!(nano_usd(0.0), 0);
        assert_eq!(nano_usd(-1.0), 0);
    }

    #[test]
    fn a_reservation_has_half_of_the_input_more_and_the_whole_output() {
        let price = Price {
            input_usd: 3.0,
            output_usd: 15.0,
        };
        let reserved = Amounts::reserved(1_001, 500, Some(price));
        assert_eq!(reserved.tokens, 1_502 + 500);
        assert_eq!(reserved.nano_usd, Some(4_506_000 + 7_500_000));
        let unpriced = Amounts::reserved(10, 10, None);
        assert_eq!((unpriced.tokens, unpriced.nano_usd), (25, None));
        assert_eq!(Amounts::reserved(u64::MAX, 1, None).tokens, i64::MAX);
    }
}
