//! Accepted values, refused values, and settings that change plans.
#![allow(clippy::unwrap_used)]

use datafusion::config::ExtensionOptions;
use nyala_sql::error::ErrorKind;

use super::*;

fn settings() -> Settings {
    let mut options = ConfigOptions::new();
    options.execution.time_zone = Some("UTC".to_owned());
    options.extensions.insert(NyalaOptions::default());
    Settings::new(Arc::new(options), &QueryConfig::default())
}

#[test]
fn settings_are_set_by_what_people_write() {
    let mut settings = settings();
    let mut check = |name: &str, value: &str, shown: &str| {
        settings.set(name, value).unwrap();
        assert_eq!(settings.get(name).as_deref(), Some(shown));
    };
    check("nyala.use_cubes", "off", "off");
    check("NYALA.USE_CUBES", "true", "on");
    check("statement_timeout", "30s", "30000");
    check("statement_timeout", "0", "0");
    check("search_path", "\"$user\", sales", "sales");
    check("search_path", "\"a,b\", sales", "\"a,b\"");
    check("datafusion.execution.batch_size", "1024", "1024");
}

#[test]
fn every_setting_of_our_own_is_listed_and_has_a_value() {
    assert!(DEFINITIONS.is_sorted_by_key(|definition| definition.name));
    for entry in NyalaOptions::default().entries() {
        assert!(settings().get(&format!("nyala.{}", entry.key)).is_some(), "{}", entry.key);
    }
}

#[test]
fn keys_tell_settings_apart_that_plan_differently() {
    let mut changed = settings();
    changed.set("statement_timeout", "30s").unwrap();
    changed.set("nyala.show_route", "on").unwrap();
    assert_eq!(changed.key(), settings().key());
    for (name, other, default) in [
        ("nyala.use_cubes", "off", "on"),
        ("search_path", "sales", "public"),
        ("timezone", "CET", "UTC"),
        ("datafusion.execution.batch_size", "100", "8192"),
    ] {
        changed.set(name, other).unwrap();
        assert_ne!(changed.key(), settings().key(), "{name}");
        changed.set(name, default).unwrap();
        assert_eq!(changed.key(), settings().key(), "{name}");
    }
}

#[test]
fn keys_follow_a_setting_under_all_its_names() {
    let names = ["timezone", "time.zone", "TimeZone", "datafusion.execution.time_zone"];
    for (first, second) in names.into_iter().flat_map(|first| names.map(|second| (first, second))) {
        let mut changed = settings();
        changed.set(first, "CET").unwrap();
        let cet = changed.clone();
        changed.set(second, "UTC").unwrap();
        assert_eq!(changed.key(), settings().key(), "{first}, {second}");
        changed.set(second, "CET").unwrap();
        assert_eq!(changed.key(), cet.key(), "{first}, {second}");
        assert_eq!(changed.get(first).as_deref(), Some("CET"));
    }
}

#[test]
fn unknown_settings_and_values_are_named() {
    let mut settings = settings();
    let mut check = |name: &str, value: &str, kind, words: &str| {
        let error = settings.set(name, value).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(format!("{error} {:?}", error.hint).contains(words), "{error:?}");
    };
    check("nyala.use_cube", "off", ErrorKind::UndefinedObject, "did you mean `nyala.use_cubes`");
    check("nyala.use_cubes", "maybe", ErrorKind::InvalidParameter, "`maybe`");
    check("statement_timeout", "soon", ErrorKind::InvalidParameter, "`soon`");
    check("datafusion.execution.batch_size", "0", ErrorKind::InvalidParameter, "from 1 to 65536");
}

/// Many options of DataFusion can be set to values with which every later query of the session fails.
#[test]
fn options_of_datafusion_are_refused_but_for_a_few() {
    let options = settings().options().entries();
    assert!(options.len() > 100, "{}", options.len());
    let mut set = Vec::new();
    for option in options.iter().filter(|option| option.key.starts_with("datafusion.")) {
        let mut settings = settings();
        let value = option.value.clone().unwrap_or_default();
        match settings.set(&option.key, &value) {
            Ok(()) => set.push(option.key.as_str()),
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::UndefinedObject, "{error}");
                assert!(error.hint.as_ref().unwrap().contains("`datafusion.execution."), "{error:?}");
                assert!(settings.get(&option.key).is_none(), "{}", option.key);
            }
        }
    }
    set.sort();
    let of_execution = ["batch_size", "target_partitions", "time_zone"];
    assert_eq!(set, of_execution.map(|name| format!("datafusion.execution.{name}")));
}

#[test]
fn values_out_of_range_are_refused_and_the_range_is_told() {
    let options = ConfigOptions::new();
    let partitions = format!("from 1 to {}", 4 * options.execution.target_partitions);
    let mut settings = settings();
    let mut check = |name: &str, rule: &str| {
        let before = settings.get(name).unwrap();
        let values = ["-1", "1.5", "many", "", "99999999999999999999", "NaN", "0x10", "1e3", "''"];
        for value in values {
            let error = settings.set(name, value).unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidParameter, "{error}");
            assert!(error.message.contains(name) && error.message.contains(rule), "{error}");
            assert_eq!(settings.get(name).as_deref(), Some(before.as_str()), "it stays as it was");
        }
        settings.set(name, &before).unwrap();
    };
    check("datafusion.execution.batch_size", "from 1 to 65536");
    check("datafusion.execution.target_partitions", &partitions);
    check("statement_timeout", "from 0 to 2147483647 ms");
    check("timezone", "a time zone");
    check("nyala.use_cubes", "`on` or `off`");
}

#[test]
fn what_the_server_is_configured_to_may_be_set_again() {
    let mut settings = settings();
    let many = Arc::make_mut(&mut settings.values().defaults);
    many.execution.target_partitions = 512;
    many.set("datafusion.execution.batch_size", "100000").unwrap();
    settings.set("datafusion.execution.target_partitions", "512").unwrap();
    settings.set("datafusion.execution.batch_size", "100000").unwrap();
    settings.set("datafusion.execution.target_partitions", "513").unwrap_err();
}

#[test]
fn zones_are_found_whatever_their_case() {
    let mut settings = settings();
    for (written, kept) in [
        ("utc", "UTC"),
        ("europe/oslo", "Europe/Oslo"),
        ("AMERICA/NEW_YORK", "America/New_York"),
        ("Etc/GMT+3", "Etc/GMT+3"),
        ("+02:00", "+02:00"),
        ("-0530", "-0530"),
        ("'CET'", "CET"),
    ] {
        settings.set("TimeZone", written).unwrap();
        assert_eq!(settings.get("timezone").as_deref(), Some(kept));
    }
}
