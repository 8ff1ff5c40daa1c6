//! The part of `cyclonedx-bom` that `uv-resolver` names for `uv export`, which codebox does not offer: types without a file
//! format behind them.

/// The names that are used most.
pub mod prelude {
    pub use crate::models::bom::Bom;
    pub use crate::models::component::{Component, Components};
    pub use crate::values::{DateTime, NormalizedString, Uri};
}

mod values {
    use std::convert::Infallible;
    use std::str::FromStr;

    /// A line of text.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct NormalizedString(String);

    impl NormalizedString {
        /// The line.
        #[must_use]
        pub fn new(text: &str) -> Self {
            Self(text.to_owned())
        }
    }

    /// An address.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Uri(String);

    impl From<String> for Uri {
        fn from(text: String) -> Self {
            Self(text)
        }
    }

    /// A package's address.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Purl(String);

    impl FromStr for Purl {
        type Err = Infallible;

        fn from_str(text: &str) -> Result<Self, Self::Err> {
            Ok(Self(text.to_owned()))
        }
    }

    /// A time.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct DateTime;

    impl DateTime {
        /// The time of the call, which is not kept.
        ///
        /// # Errors
        /// Never.
        pub fn now() -> Result<Self, Infallible> {
            Ok(Self)
        }
    }

    /// A value that is never there.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum Absent {}
}

/// Parts of a bill of materials.
pub mod models {
    /// The whole.
    pub mod bom {
        /// A bill of materials.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct Bom {
            /// Its description.
            pub metadata: Option<super::metadata::Metadata>,
            /// Its components.
            pub components: Option<super::component::Components>,
            /// Dependencies between the components.
            pub dependencies: Option<super::dependency::Dependencies>,
            /// The version of the document.
            pub version: u32,
        }
    }

    /// Components.
    pub mod component {
        use super::external_reference::ExternalReferences;
        use super::property::Properties;
        use crate::values::{Absent, NormalizedString, Purl};

        /// Kind of a component.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Classification {
            /// A library.
            Library,
        }

        /// Components of a document.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Components(pub Vec<Component>);

        /// A component, with the fields of the format.
        #[derive(Debug, Clone, PartialEq, Eq)]

        pub struct Component {
            pub component_type: Classification,
            pub mime_type: Option<Absent>,
            pub bom_ref: Option<String>,
            pub supplier: Option<Absent>,
            pub author: Option<Absent>,
            pub publisher: Option<Absent>,
            pub group: Option<Absent>,
            pub name: NormalizedString,
            pub version: Option<NormalizedString>,
            pub description: Option<Absent>,
            pub scope: Option<Absent>,
            pub hashes: Option<Absent>,
            pub licenses: Option<Absent>,
            pub copyright: Option<Absent>,
            pub cpe: Option<Absent>,
            pub purl: Option<Purl>,
            pub swid: Option<Absent>,
            pub modified: Option<bool>,
            pub pedigree: Option<Absent>,
            pub external_references: Option<ExternalReferences>,
            pub properties: Option<Properties>,
            pub components: Option<Components>,
            pub evidence: Option<Absent>,
            pub signature: Option<Absent>,
            pub model_card: Option<Absent>,
            pub data: Option<Absent>,
        }
    }

    /// Dependencies between components.
    pub mod dependency {
        /// Dependencies of a document.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Dependencies(pub Vec<Dependency>);

        /// Dependencies of one component.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Dependency {
            /// The component.
            pub dependency_ref: String,
            /// Those that it needs.
            pub dependencies: Vec<String>,
        }
    }

    /// References out of the document.
    pub mod external_reference {
        use super::hash::Hashes;

        /// References of a component.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct ExternalReferences(pub Vec<ExternalReference>);

        /// Kind of a reference.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum ExternalReferenceType {
            /// A file to download.
            Distribution,
        }

        /// Target of a reference.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Uri {
            /// An address.
            Url(crate::prelude::Uri),
        }

        /// A reference.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct ExternalReference {
            /// Its kind.
            pub external_reference_type: ExternalReferenceType,
            /// Its target.
            pub url: Uri,
            /// A remark.
            pub comment: Option<String>,
            /// Digests of the target.
            pub hashes: Option<Hashes>,
        }
    }

    /// Digests.
    pub mod hash {
        /// Digests of one file.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Hashes(pub Vec<Hash>);

        /// A digest.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Hash {
            /// Its algorithm.
            pub alg: HashAlgorithm,
            /// Its value.
            pub content: HashValue,
        }

        /// Value of a digest, in hexadecimal digits.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct HashValue(pub String);

        /// Algorithm of a digest.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[expect(non_camel_case_types, reason = "the names of the format")]
        pub enum HashAlgorithm {
            MD5,
            SHA_256,
            SHA_384,
            SHA_512,
            BLAKE2b_256,
            BLAKE2b_384,
            BLAKE2b_512,
        }
    }

    /// Description of the document.
    pub mod metadata {
        /// The description.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct Metadata {
            /// Time of writing.
            pub timestamp: Option<crate::prelude::DateTime>,
            /// Tools that wrote the document.
            pub tools: Option<super::tool::Tools>,
            /// Subject of the document.
            pub component: Option<super::component::Component>,
            /// Signature; always absent.
            pub signature: Option<crate::values::Absent>,
        }
    }

    /// Properties of components.
    pub mod property {
        /// Properties of one component.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Properties(pub Vec<Property>);

        /// A property.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Property {
            name: String,
            value: String,
        }

        impl Property {
            /// The property of that name and value.
            pub fn new(name: &str, value: &str) -> Self {
                Self { name: name.to_owned(), value: value.to_owned() }
            }
        }
    }

    /// Tools that make documents.
    pub mod tool {
        use crate::values::{Absent, NormalizedString};

        /// Tools of a document.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Tools {
            /// These.
            List(Vec<Tool>),
        }

        /// A tool.
        #[derive(Debug, Clone, PartialEq, Eq)]

        pub struct Tool {
            pub vendor: Option<NormalizedString>,
            pub name: Option<NormalizedString>,
            pub version: Option<NormalizedString>,
            pub hashes: Option<Absent>,
            pub external_references: Option<Absent>,
        }
    }
}
