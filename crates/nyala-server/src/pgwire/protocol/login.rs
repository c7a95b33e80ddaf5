//! Authenticates a client.

use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, Bytes};
use nyala_engine::{Identity, ScramVerifier};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::startup::Authentication;
use ring::rand::{SecureRandom, SystemRandom};

use super::scram::{Challenge, MECHANISM, ScramError};
use super::stream::{Input, Output};
use crate::auth::Authenticator;
use crate::pgwire::errors::{Failure, Stop, sqlstate};

/// Largest message of a login; a real one has some hundred bytes.
const MAX_LOGIN_BYTES: usize = 4 << 10;

/// Checks the client's password, and gives the identity of its session.
pub async fn login(
    authenticator: &Authenticator,
    user: &str,
    input: &mut Input,
    output: &mut Output,
) -> Result<Identity, Stop> {
    if authenticator.is_open() {
        return Ok(Identity::Owner);
    }
    let known = authenticator.password_of(user).and_then(|password| ScramVerifier::parse(&password.scram));
    let exists = known.is_some();
    // An unknown user gets a challenge like every other, and then fails as with a wrong password.
    let verifier = known.map_or_else(|| nobody(user), Ok)?;
    send(output, Authentication::SASL(vec![MECHANISM.to_owned()])).await?;
    let first = initial_response(input.login_message(MAX_LOGIN_BYTES).await?)?;
    let challenge = Challenge::new(&first, verifier, &nonce()?).map_err(|error| refusal(error, user))?;
    send(output, Authentication::SASLContinue(Bytes::from(challenge.text().to_owned()))).await?;
    let last = text(input.login_message(MAX_LOGIN_BYTES).await?)?;
    let answer = challenge.answer(&last).map_err(|error| refusal(error, user))?;
    if !exists {
        return Err(refusal(ScramError::Wrong, user).into());
    }
    output.put(&PgWireBackendMessage::Authentication(Authentication::SASLFinal(Bytes::from(answer))))?;
    Ok(Identity::Role(user.to_owned()))
}

async fn send(output: &mut Output, message: Authentication) -> Result<(), Stop> {
    output.put(&PgWireBackendMessage::Authentication(message))?;
    output.flush().await
}

/// Mechanism, length, and the first message of the mechanism.
pub fn initial_response(mut body: Bytes) -> Result<String, Failure> {
    let malformed = || Failure::protocol("malformed SASL response");
    let end = body.iter().position(|byte| *byte == 0).ok_or_else(malformed)?;
    let mechanism = body.split_to(end);
    body.advance(1);
    if mechanism != MECHANISM {
        return Err(Failure::protocol("the client chose a mechanism that was not offered"));
    }
    let length = body.try_get_i32().map_err(|_| malformed())?;
    if usize::try_from(length).ok() != Some(body.len()) {
        return Err(malformed());
    }
    text(body)
}

fn text(body: Bytes) -> Result<String, Failure> {
    String::from_utf8(body.into()).map_err(|_| Failure::protocol("malformed SASL response"))
}

fn refusal(error: ScramError, user: &str) -> Failure {
    match error {
        ScramError::Malformed(what) => Failure::protocol(format!("malformed SCRAM message: {what}")),
        ScramError::Wrong => Failure::fatal(
            sqlstate::INVALID_PASSWORD,
            format!("password authentication failed for user `{user}`"),
        ),
    }
}

fn nonce() -> Result<String, Failure> {
    Ok(STANDARD.encode(random()?))
}

fn random() -> Result<[u8; 18], Failure> {
    let mut random = [0; 18];
    let filled = SystemRandom::new().fill(&mut random);
    filled.map_err(|_| Failure::fatal(sqlstate::INTERNAL, "the system gives no random numbers"))?;
    Ok(random)
}

/// A verifier that no password fits. The salt depends on the name only, as that of an existing user would.
fn nobody(user: &str) -> Result<ScramVerifier, Failure> {
    static SECRET: std::sync::OnceLock<[u8; 18]> = std::sync::OnceLock::new();
    let fresh = random()?;
    let secret = SECRET.get_or_init(|| fresh);
    let tag = ring::hmac::sign(&ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret), user.as_bytes());
    let salt: Vec<u8> = tag.as_ref().iter().take(16).copied().collect();
    let iterations = NonZeroU32::MIN.saturating_add(4095);
    Ok(ScramVerifier { iterations: iterations.get(), salt, stored_key: [0; 32], server_key: [0; 32] })
}
