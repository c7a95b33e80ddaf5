//! Options of a session: the schema of names without one, the types of answers, and each setting by its name.

use arrow_flight::Action;
use nyala_engine::schema_in_path;
use prost::Message;
use tonic::Status;

use super::messages::{
    GetSessionOptionsResult, OptionError, OptionErrorValue, OptionValue, SessionOptionValue,
    SetSessionOptionsRequest, SetSessionOptionsResult,
};
use super::metadata::DATABASE;
use super::sessions::FlightSession;
use super::types::Types;

const CATALOG: &str = "catalog";
const SCHEMA: &str = "schema";
const SEARCH_PATH: &str = "search_path";
/// The option that names the types of answers.
const TYPES: &str = "flight_types";

/// Sets each option by itself: one that fails does not keep the others from being set.
pub fn set(session: &FlightSession, action: &Action) -> Result<Vec<u8>, Status> {
    let request = SetSessionOptionsRequest::decode(&*action.body)
        .map_err(|error| Status::invalid_argument(format!("SetSessionOptions: {error}")))?;
    let failed = request.session_options.into_iter().filter_map(|(name, value)| {
        let error = set_one(session, &name, value.option_value).err()?;
        Some((name, OptionError { value: error as i32 }))
    });
    Ok(SetSessionOptionsResult { errors: failed.collect() }.encode_to_vec())
}

fn set_one(session: &FlightSession, name: &str, value: Option<OptionValue>) -> Result<(), OptionErrorValue> {
    let text = value.map(OptionValue::into_text);
    match name {
        CATALOG => match text.as_deref() {
            None | Some("" | DATABASE) => Ok(()),
            Some(_) => Err(OptionErrorValue::InvalidValue),
        },
        TYPES => {
            let types = text.map_or(Some(Types::default()), |name| Types::named(&name));
            session.set_types(types.ok_or(OptionErrorValue::InvalidValue)?);
            Ok(())
        }
        _ => {
            let (setting, text) = match name {
                SCHEMA => (SEARCH_PATH, text.map(|schema| schema_in_path(&schema))),
                name => (name, text),
            };
            if session.session.setting(setting).is_none() {
                return Err(OptionErrorValue::InvalidName);
            }
            let set = match text {
                Some(text) => session.session.set(setting, &text),
                None => session.session.reset_one(setting),
            };
            set.map_err(|_| OptionErrorValue::InvalidValue)
        }
    }
}

/// All options.
pub fn get(session: &FlightSession) -> Vec<u8> {
    let settings = session.session.setting_values();
    let settings = settings.into_iter().map(|setting| (setting.name.to_owned(), setting.value));
    let own = [
        (CATALOG.to_owned(), DATABASE.to_owned()),
        (SCHEMA.to_owned(), session.session.schema()),
        (TYPES.to_owned(), session.types().name().to_owned()),
    ];
    let all = settings.chain(own).map(|(name, value)| (name, SessionOptionValue::from(value)));
    GetSessionOptionsResult { session_options: all.collect() }.encode_to_vec()
}
