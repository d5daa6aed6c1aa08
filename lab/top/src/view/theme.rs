use faultline_status::{Tone, Verdict};
use ratatui::{
    style::{Color, Modifier, Style},
    symbols::bar,
};

const ASCII_BARS: bar::Set<'static> = bar::Set {
    full: "#",
    seven_eighths: "#",
    three_quarters: "+",
    five_eighths: "+",
    half: "-",
    three_eighths: "-",
    one_quarter: ".",
    one_eighth: ".",
    empty: " ",
};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Theme {
    has_colors: bool,
    is_unicode: bool,
}

impl Theme {
    /// From the environment: colors unless `NO_COLOR` is set or the terminal is plain, blocks if
    /// the locale is UTF-8.
    pub fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(set)
            .unwrap_or_default()
            .to_lowercase();
        let is_plain =
            set("TERM").is_none_or(|terminal| terminal == "dumb" || terminal.starts_with("vt"));
        Self {
            has_colors: set("NO_COLOR").is_none() && !is_plain,
            is_unicode: locale.contains("utf-8") || locale.contains("utf8"),
        }
    }

    pub fn without_colors(self) -> Self {
        Self {
            has_colors: false,
            ..self
        }
    }

    pub fn bars(self) -> bar::Set<'static> {
        if self.is_unicode {
            bar::NINE_LEVELS
        } else {
            ASCII_BARS
        }
    }

    /// Characters of a bar's three parts.
    pub fn fills(self) -> [&'static str; 3] {
        if self.is_unicode {
            ["█", "▒", "·"]
        } else {
            ["#", "=", "."]
        }
    }

    pub fn dash(self) -> &'static str {
        if self.is_unicode { "–" } else { "-" }
    }

    pub fn tone(self, tone: Tone) -> Style {
        match tone {
            Tone::Plain => Style::new(),
            Tone::Good => self.good(),
            Tone::Warn => self.warn(),
            Tone::Bad => self.bad(),
        }
    }

    pub fn verdict(self, verdict: Verdict) -> Style {
        match verdict {
            Verdict::Fine => self.good(),
            Verdict::Look => self.warn(),
            Verdict::Act => self.bad(),
            Verdict::Unknown => self.faint(),
        }
    }

    pub fn plot(self) -> Style {
        self.colored(Color::Cyan)
    }

    pub fn label(self) -> Style {
        if self.has_colors {
            Style::new().fg(Color::Blue).add_modifier(Modifier::BOLD)
        } else {
            Style::new()
        }
    }

    pub fn good(self) -> Style {
        self.colored(Color::Green)
    }

    pub fn warn(self) -> Style {
        self.colored(Color::Yellow)
    }

    pub fn bad(self) -> Style {
        self.colored(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub fn faint(self) -> Style {
        self.colored(Color::DarkGray)
    }

    pub fn title_bar(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    fn colored(self, color: Color) -> Style {
        if self.has_colors {
            Style::new().fg(color)
        } else {
            Style::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(set: &[(&str, &str)]) -> Theme {
        Theme::of_environment(|name| {
            set.iter()
                .find(|(own, _)| *own == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn colors_and_letters_are_used_where_the_terminal_has_them() {
        let neither = Theme {
            has_colors: false,
            is_unicode: false,
        };
        let both = Theme {
            has_colors: true,
            is_unicode: true,
        };
        assert_eq!(
            of(&[("TERM", "xterm-256color"), ("LANG", "en_US.UTF-8")]),
            both
        );
        assert_eq!(
            of(&[("TERM", "xterm"), ("LANG", "C.utf8"), ("NO_COLOR", "")]),
            both
        );
        assert_eq!(
            of(&[("TERM", "xterm"), ("LANG", "C.utf8"), ("NO_COLOR", "1")]),
            both.without_colors()
        );
        assert_eq!(
            of(&[("TERM", "vt100"), ("LANG", "C.utf8")]),
            both.without_colors()
        );
        assert_eq!(
            of(&[("TERM", "dumb"), ("LC_ALL", "C"), ("LANG", "C.utf8")]),
            neither
        );
        assert_eq!(of(&[]), neither);
    }
}
