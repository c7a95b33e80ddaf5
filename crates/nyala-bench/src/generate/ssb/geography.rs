//! Regions, nations and cities: the hierarchy customers and suppliers share.

use super::random::Random;

/// The nations of TPC-H with their regions, in its order: a phone number starts with the nation's
/// place in the list plus 10.
const NATIONS: [(&str, &str); 25] = [
    ("ALGERIA", "AFRICA"),
    ("ARGENTINA", "AMERICA"),
    ("BRAZIL", "AMERICA"),
    ("CANADA", "AMERICA"),
    ("EGYPT", "MIDDLE EAST"),
    ("ETHIOPIA", "AFRICA"),
    ("FRANCE", "EUROPE"),
    ("GERMANY", "EUROPE"),
    ("INDIA", "ASIA"),
    ("INDONESIA", "ASIA"),
    ("IRAN", "MIDDLE EAST"),
    ("IRAQ", "MIDDLE EAST"),
    ("JAPAN", "ASIA"),
    ("JORDAN", "MIDDLE EAST"),
    ("KENYA", "AFRICA"),
    ("MOROCCO", "AFRICA"),
    ("MOZAMBIQUE", "AFRICA"),
    ("PERU", "AMERICA"),
    ("CHINA", "ASIA"),
    ("ROMANIA", "EUROPE"),
    ("SAUDI ARABIA", "MIDDLE EAST"),
    ("VIETNAM", "ASIA"),
    ("RUSSIA", "EUROPE"),
    ("UNITED KINGDOM", "EUROPE"),
    ("UNITED STATES", "AMERICA"),
];

/// Address and phone number of a customer or supplier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// The first nine characters of the nation, filled up with spaces, and a digit.
    pub city: String,
    /// One of 25.
    pub nation: &'static str,
    /// One of 5.
    pub region: &'static str,
    /// Country code, area and local number, such as `23-100-999-1234`.
    pub phone: String,
}

/// A home in one of the 250 cities, each as likely as the others.
pub fn random_home(random: &mut Random) -> Home {
    let place = random.below(NATIONS.len() as u32);
    let (nation, region) = NATIONS.get(place as usize).copied().unwrap_or_default();
    let city = format!("{nation:<9.9}{}", random.below(10));
    let (area, exchange) = (random.between(100, 999), random.between(100, 999));
    let phone = format!("{}-{area}-{exchange}-{}", place + 10, random.between(1_000, 9_999));
    Home { city, nation, region, phone }
}

#[cfg(test)]
mod tests {
    use super::super::random::Purpose;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn there_are_250_cities_in_25_nations_in_5_regions() {
        let homes: Vec<Home> =
            (0..20_000).map(|row| random_home(&mut Random::new(Purpose::Customer, row))).collect();
        let distinct = |values: Vec<&str>| values.into_iter().collect::<BTreeSet<_>>().len();
        assert_eq!(distinct(homes.iter().map(|home| home.city.as_str()).collect()), 250);
        assert_eq!(distinct(homes.iter().map(|home| home.nation).collect()), 25);
        assert_eq!(distinct(homes.iter().map(|home| home.region).collect()), 5);
        for home in &homes {
            assert_eq!(home.city.len(), 10, "{home:?}");
            let stem = home.city.get(..9).unwrap_or_default().trim_end();
            assert!(home.nation.starts_with(stem), "{home:?}");
            assert_eq!(home.phone.len(), 15, "{home:?}");
        }
        assert!(homes.iter().any(|home| home.city == "UNITED KI1" && home.nation == "UNITED KINGDOM"));
        assert!(homes.iter().any(|home| home.city == "PERU     7" && home.region == "AMERICA"));
    }
}
