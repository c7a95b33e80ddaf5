//! Line charts as SVG, complete in themselves.

/// Size of a chart and of the room for its axes, in units of the drawing.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 48.0;
/// Colours of the lines, to be told apart by everyone (Okabe and Ito).
const COLORS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#7f7f7f"];

/// How values become heights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// From zero.
    Linear,
    /// By powers of ten.
    Logarithmic,
}

/// Lines over places at even distances.
pub struct Chart<'a> {
    /// The caption, also for screen readers.
    pub title: &'a str,
    /// Label of the horizontal axis.
    pub axis: &'a str,
    /// Names of the places.
    pub places: Vec<String>,
    /// Names of the lines, and a value for each place.
    pub lines: Vec<(String, Vec<Option<f64>>)>,
    /// How values become heights.
    pub scale: Scale,
}

impl Chart<'_> {
    /// The chart as an `svg` element with a legend below it.
    pub fn svg(&self) -> String {
        let (low, high) = self.bounds();
        let mut out = format!(
            "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             aria-label=\"{}\">",
            escape(self.title),
            escape(self.title)
        );
        for tick in self.ticks(low, high) {
            let y = self.y(tick, low, high);
            out += &format!(
                "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                y + 4.0,
                number(tick)
            );
        }
        out += &self.place_names();
        for (number, (name, values)) in self.lines.iter().enumerate() {
            out += &self.line(color(number), name, values, low, high);
        }
        out += "</svg><p class=\"legend\">";
        for (number, (name, _)) in self.lines.iter().enumerate() {
            out += &format!("<span><i style=\"background:{}\"></i>{}</span> ", color(number), escape(name));
        }
        out + "</p></figure>\n"
    }

    fn place_names(&self) -> String {
        let mut out = String::new();
        for (place, name) in self.places.iter().enumerate() {
            let (x, y) = (self.x(place), HEIGHT - BOTTOM + 18.0);
            out += &format!("<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{}</text>", escape(name));
        }
        let (x, y) = (LEFT + (WIDTH - LEFT - RIGHT) / 2.0, HEIGHT - 10.0);
        out + &format!("<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{}</text>", escape(self.axis))
    }

    fn line(&self, color: &str, name: &str, values: &[Option<f64>], low: f64, high: f64) -> String {
        let mut points = String::new();
        let mut dots = String::new();
        for (place, value) in values.iter().enumerate() {
            let Some(value) = value else { continue };
            let (x, y) = (self.x(place), self.y(*value, low, high));
            points += &format!("{x:.1},{y:.1} ");
            dots += &format!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{color}\"><title>{}: {}</title></circle>",
                escape(name),
                number(*value)
            );
        }
        format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>{dots}",
            points.trim()
        )
    }

    fn bounds(&self) -> (f64, f64) {
        let values = || self.lines.iter().flat_map(|(_, values)| values).flatten().copied();
        let high = values().fold(0.0, f64::max).max(1e-6);
        match self.scale {
            Scale::Linear => (0.0, high),
            Scale::Logarithmic => {
                let low = values().filter(|value| *value > 0.0).fold(high, f64::min);
                (10_f64.powf(low.log10().floor()), 10_f64.powf(high.log10().ceil()).max(low * 10.0))
            }
        }
    }

    fn ticks(&self, low: f64, high: f64) -> Vec<f64> {
        if self.scale == Scale::Logarithmic {
            let decades = low.log10().round() as i32..=high.log10().round() as i32;
            return decades.map(|decade| 10_f64.powi(decade)).collect();
        }
        let rough = high / 5.0;
        let decade = 10_f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|factor| factor * decade).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        (0..=(high / step) as usize).map(|tick| tick as f64 * step).collect()
    }

    fn x(&self, place: usize) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (place as f64 + 0.5) / self.places.len().max(1) as f64
    }

    fn y(&self, value: f64, low: f64, high: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => value / high,
            Scale::Logarithmic => (value.max(low) / low).log10() / (high / low).log10(),
        };
        HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share
    }
}

fn color(line: usize) -> &'static str {
    COLORS.get(line % COLORS.len()).copied().unwrap_or("#000")
}

fn number(value: f64) -> String {
    if value >= 100.0 || value == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.3}").trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// Text for HTML, also within quotes.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(scale: Scale, values: Vec<Option<f64>>) -> String {
        let places = values.iter().enumerate().map(|(place, _)| place.to_string()).collect();
        Chart { title: "a < b", axis: "clients", places, lines: vec![("x".to_owned(), values)], scale }.svg()
    }

    #[test]
    fn a_chart_is_drawn_within_its_bounds() {
        for scale in [Scale::Linear, Scale::Logarithmic] {
            let svg = chart(scale, vec![Some(0.2), None, Some(730.0)]);
            assert!(svg.contains("a &lt; b"), "{svg}");
            assert_eq!(svg.matches("<circle").count(), 2, "{svg}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            let heights =
                svg.split("cy=\"").skip(1).filter_map(|rest| rest.split('"').next()?.parse::<f64>().ok());
            for height in heights {
                assert!((TOP..=HEIGHT - BOTTOM).contains(&height), "{scale:?}: {height}");
            }
        }
    }

    #[test]
    fn a_chart_without_values_is_drawn_too() {
        for scale in [Scale::Linear, Scale::Logarithmic] {
            let svg = chart(scale, vec![None, Some(0.0)]);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
