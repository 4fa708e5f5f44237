//! Macros for enums that are strings in the database, in JSON, and in the API document, and for constant strings, so that each string
//! is written only once.

/// Defines an enum with a string for each variant: `text_enum! { pub enum Level { High = "high" } }`. Reading any other string from
/// the database or from JSON is an error.
macro_rules! text_enum {
    ($(#[doc = $doc:literal])* $vis:vis enum $name:ident {
        $($(#[doc = $variant_doc:literal])* $variant:ident = $text:literal,)+
    }) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        $vis enum $name {
            $($(#[doc = $variant_doc])* #[serde(rename = $text)] $variant,)+
        }

        impl $name {
            $vis const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The stored text.
            $vis const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::text_enum::UnknownText;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let known = Self::ALL.iter().find(|known| known.as_str() == text);
                known.copied().ok_or_else(|| $crate::text_enum::UnknownText {
                    text: text.chars().take(64).collect(),
                    known: &[$($text),+],
                })
            }
        }

        impl<DB: sqlx::Database> sqlx::Type<DB> for $name
        where
            str: sqlx::Type<DB>,
        {
            fn type_info() -> DB::TypeInfo {
                <str as sqlx::Type<DB>>::type_info()
            }

            fn compatible(info: &DB::TypeInfo) -> bool {
                <str as sqlx::Type<DB>>::compatible(info)
            }
        }

        impl<'q, DB: sqlx::Database> sqlx::Encode<'q, DB> for $name
        where
            &'static str: sqlx::Encode<'q, DB>,
        {
            fn encode_by_ref(
                &self,
                buffer: &mut <DB as sqlx::Database>::ArgumentBuffer,
            ) -> Result<sqlx::encode::IsNull, sqlx::error::BoxDynError> {
                self.as_str().encode(buffer)
            }
        }

        impl<'r, DB: sqlx::Database> sqlx::Decode<'r, DB> for $name
        where
            &'r str: sqlx::Decode<'r, DB>,
        {
            fn decode(
                value: <DB as sqlx::Database>::ValueRef<'r>,
            ) -> Result<Self, sqlx::error::BoxDynError> {
                let text = <&str as sqlx::Decode<'r, DB>>::decode(value)?;
                Ok(text.parse::<Self>()?)
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                let description = $crate::text_enum::description(
                    concat!($($doc),*),
                    &[$(($text, concat!($($variant_doc),*))),+],
                );
                utoipa::openapi::schema::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .enum_values(Some([$($text),+]))
                    .description(description)
                    .into()
            }
        }

        impl utoipa::ToSchema for $name {}
    };
}
pub(crate) use text_enum;

/// Defines a type whose only value is a fixed string, in JSON and in the API document: `constant! { pub ListObject = "list" }`.
macro_rules! constant {
    ($vis:vis $name:ident = $text:literal) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis struct $name;

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str($text)
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::schema::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .enum_values(Some([$text]))
                    .into()
            }
        }

        impl utoipa::ToSchema for $name {}
    };
}
pub(crate) use constant;

/// Error for a string that does not belong to any variant of an enum.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown value `{text}`: use one of `{}`", known.join("`, `"))]
pub struct UnknownText {
    pub text: String,
    pub known: &'static [&'static str],
}

/// Description for the API document, built from the doc comments of an enum and of its variants (text and comment).
pub(crate) fn description(comment: &str, variants: &[(&str, &str)]) -> Option<String> {
    let mut lines = vec![comment.trim().to_owned()];
    for (text, comment) in variants {
        if !comment.is_empty() {
            lines.push(format!("`{text}`: {}", comment.trim()));
        }
    }
    let lines: Vec<String> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    (!lines.is_empty()).then(|| lines.join("\n\n"))
}
