//! The model's server: its address, its key by the name of a variable, and how patient to be.

use std::time::Duration;

use relight::{Client, Config};
use serde::Deserialize;

use super::fault::Fault;

/// The table `[provider]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    #[serde(default)]
    protocol: Protocol,
    base_url: Option<String>,
    /// The name of a variable, never the key itself.
    api_key_env: Option<String>,
    max_retries: Option<u32>,
    retry_budget_ms: Option<u64>,
    connect_timeout_ms: Option<u64>,
    first_event_timeout_ms: Option<u64>,
    silence_timeout_ms: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Protocol {
    #[default]
    Messages,
    Responses,
    ChatCompletions,
}

impl Protocol {
    /// The settings of its own server, and the variable in which people keep the key of that.
    fn config(&self) -> (Config, &'static str) {
        match self {
            Protocol::Messages => (Config::messages(), ANTHROPIC_KEY),
            Protocol::Responses => (Config::responses(), OPENAI_KEY),
            Protocol::ChatCompletions => (Config::chat_completions(), OPENAI_KEY),
        }
    }
}

/// A client, and the variables that hold keys: tools shall not inherit them.
pub(super) struct Provider {
    pub(super) client: Client,
    pub(super) key_variables: Vec<String>,
}

impl Settings {
    /// Makes a client of the settings and the environment.
    pub(super) fn connect(self, base_url: Option<&str>) -> Result<Provider, Fault> {
        let (mut config, default_key) = self.protocol.config();
        let base_url = base_url.map(str::to_owned).or(self.base_url);
        let key_variable = self.api_key_env.or_else(|| base_url.is_none().then(|| default_key.to_owned()));
        if let Some(base_url) = base_url {
            config = config.with_base_url(base_url);
        }
        // The usual ones are keys also where this agent does without.
        let mut key_variables = vec![ANTHROPIC_KEY.to_owned(), OPENAI_KEY.to_owned()];
        if let Some(name) = key_variable {
            config = config.with_api_key(key(&name)?);
            key_variables.push(name);
        }
        if let Some(retries) = self.max_retries {
            config = config.with_max_retries(retries);
        }
        let millis = Duration::from_millis;
        if let Some(budget) = self.retry_budget_ms {
            config = config.with_retry_budget(millis(budget));
        }
        if let Some(limit) = self.connect_timeout_ms {
            config = config.with_connect_timeout(millis(limit));
        }
        if let Some(limit) = self.first_event_timeout_ms {
            config = config.with_first_event_timeout(millis(limit));
        }
        if let Some(limit) = self.silence_timeout_ms {
            config = config.with_silence_timeout(millis(limit));
        }
        let client = Client::new(config).map_err(|error| Fault::at("provider", error.message))?;
        Ok(Provider { client, key_variables })
    }
}

/// The key in a variable.
///
/// What is given as the name is shown only if it can be one: it may be the key itself, put in the wrong place.
fn key(name: &str) -> Result<String, Fault> {
    let field = "provider.api_key_env";
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !begins || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        let message =
            "it is not the name of an environment variable; put the key into a variable, and its name here";
        return Err(Fault::at(field, message));
    }
    match std::env::var(name) {
        Ok(key) if !key.trim().is_empty() => Ok(key.trim().to_owned()),
        Ok(_) | Err(std::env::VarError::NotPresent) => {
            let message =
                format!("the environment variable {name} is not set; put the provider's key into it");
            Err(Fault::at(field, message))
        }
        Err(std::env::VarError::NotUnicode(_)) => Err(Fault::at(
            field,
            format!("the environment variable {name} does not hold a key: it is not text"),
        )),
    }
}

const ANTHROPIC_KEY: &str = "ANTHROPIC_API_KEY";
const OPENAI_KEY: &str = "OPENAI_API_KEY";

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(settings: &str, base_url: Option<&str>) -> Result<Vec<String>, String> {
        let settings: Settings = toml::from_str(settings).map_err(|error| error.message().to_owned())?;
        settings
            .connect(base_url)
            .map(|provider| provider.key_variables)
            .map_err(|fault| format!("{fault:?}"))
    }

    #[test]
    fn a_server_of_ones_own_needs_no_key() {
        let usual = || Ok(vec![ANTHROPIC_KEY.to_owned(), OPENAI_KEY.to_owned()]);
        assert_eq!(connect("base_url = 'http://127.0.0.1:1'", None), usual());
        assert_eq!(connect("", Some("http://127.0.0.1:1")), usual());
        for protocol in ["messages", "responses", "chat_completions"] {
            let settings = format!("protocol = '{protocol}'");
            assert_eq!(connect(&settings, Some("http://127.0.0.1:1")), usual());
        }
    }

    #[test]
    fn an_unset_key_is_named() {
        let error = connect("api_key_env = 'RELIGHT_TEST_UNSET_KEY'", None).unwrap_err();
        assert!(error.contains("RELIGHT_TEST_UNSET_KEY is not set"), "{error}");
    }

    #[test]
    fn a_key_in_place_of_its_name_is_not_shown() {
        let error = connect("api_key_env = 'sk-ant-hunter2'", None).unwrap_err();
        assert!(error.contains("not the name of an environment variable"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn a_protocol_that_is_not_spoken_is_refused_by_name() {
        let error = connect("protocol = 'carrier_pigeon'", None).unwrap_err();
        assert!(error.contains("carrier_pigeon") && error.contains("messages"), "{error}");
    }

    #[test]
    fn a_password_in_the_address_is_not_shown() {
        let error = connect("base_url = 'https://me:hunter2@host'", None).unwrap_err();
        assert!(error.contains("password") && !error.contains("hunter2"), "{error}");
    }
}
