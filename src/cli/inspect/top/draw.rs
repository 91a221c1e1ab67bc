//! The screen of `outboxd top`.

use std::time::Duration;

use indicatif::HumanBytes;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Sparkline, Table};

use super::Seen;
use crate::cli::inspect::status::{age, of_process};
use crate::cli::shell::text::clean;
use crate::telemetry::{Level, Overview, events_of_all};

const CHART_LINES: u16 = 7;

/// Below this width the list has fewer columns.
const NARROW: u16 = 90;

const KEYS: &str = " q leaves · ↑ ↓ choose an instance ";

/// Draws the whole screen: a line for each instance, then the chosen one.
pub(super) fn draw(frame: &mut Frame<'_>, seen: &[Seen], selected: usize) {
    let lines = u16::try_from(seen.len()).unwrap_or(u16::MAX).saturating_add(1);
    let list = if seen.len() > 1 { Constraint::Max(lines) } else { Constraint::Length(0) };
    let parts =
        Layout::vertical([list, Constraint::Fill(1), Constraint::Max(CHART_LINES)]).areas(frame.area());
    let [list, middle, chart]: [Rect; 3] = parts;
    frame.render_widget(instances(seen, selected, list.width), list);
    let Some(chosen) = seen.get(selected) else { return };
    match &chosen.said {
        Ok(overview) => {
            frame.render_widget(details(overview), middle);
            frame.render_widget(events(overview), chart);
        }
        Err(why) => {
            let block =
                Block::bordered().title(clean(&format!(" ✗ {} ", chosen.instance))).title_bottom(KEYS);
            frame.render_widget(Paragraph::new(clean(why)).block(block.red()), middle);
        }
    }
}

fn instances(seen: &[Seen], selected: usize, width: u16) -> Table<'static> {
    let is_narrow = width < NARROW;
    let share = if is_narrow { usize::from(width) / 2 } else { usize::from(width) * 3 / 10 };
    // Each column is reduced by its separator.
    let names = names(seen, share.saturating_sub(2));
    // What a narrow screen has no room for is among the details.
    let chosen = |cells: [String; 6]| {
        let [instance, state, lag, oldest, runway, events] = cells;
        if is_narrow {
            vec![instance, state, oldest]
        } else {
            vec![instance, state, lag, oldest, runway, events]
        }
    };
    let head = ["INSTANCE", "STATE", "LAG", "OLDEST", "RUNWAY", "EVENTS"].map(str::to_owned);
    let head = Row::new(chosen(head)).bold();
    let rows = seen.iter().zip(names).enumerate().map(|(number, (seen, name))| {
        let cells = chosen(match &seen.said {
            Ok(overview) => cells(&name, overview),
            Err(_) => {
                let dash = || "-".to_owned();
                [name, "✗ no answer".to_owned(), dash(), dash(), dash(), dash()]
            }
        });
        let style = Style::new().fg(colour(seen.said.as_ref().map_or(Level::Wrong, |seen| seen.state.level)));
        Row::new(cells).style(if number == selected { style.reversed() } else { style })
    });
    let widths: &[u16] = if is_narrow { &[5, 4, 1] } else { &[3, 3, 1, 1, 1, 1] };
    Table::new(rows.collect::<Vec<_>>(), widths.iter().map(|width| Constraint::Fill(*width))).header(head)
}

/// Returns a name of each instance that fits: its address without the scheme, and its number where the rest is alike.
fn names(seen: &[Seen], room: usize) -> Vec<String> {
    let address = |seen: &Seen| {
        let address = seen.instance.to_string();
        address.strip_prefix("http://").unwrap_or(&address).to_owned()
    };
    let short: Vec<_> = seen.iter().map(|seen| shortened(&address(seen), room)).collect();
    let is_twice = |name: &String| short.iter().filter(|other| *other == name).count() > 1;
    let name = |(number, (seen, name)): (usize, (&Seen, &String))| {
        if !is_twice(name) {
            return name.clone();
        }
        let number = format!("{} ", number.saturating_add(1));
        let room = room.saturating_sub(number.len());
        number + &shortened(&address(seen), room)
    };
    seen.iter().zip(&short).enumerate().map(name).collect()
}

/// Cuts a text in its middle: an address differs at its beginning or its end.
fn shortened(text: &str, room: usize) -> String {
    let characters: Vec<_> = text.chars().collect();
    if characters.len() <= room {
        return text.to_owned();
    }
    let kept = room.saturating_sub(1);
    let (begin, end) = (kept / 2, kept.saturating_sub(kept / 2));
    let end = characters.iter().skip(characters.len().saturating_sub(end));
    characters.iter().take(begin).chain(&['…']).chain(end).collect()
}

fn cells(instance: &str, seen: &Overview) -> [String; 6] {
    let lag = seen.lag.bytes.map_or_else(|| "-".to_owned(), |bytes| HumanBytes(bytes).to_string());
    [
        instance.to_owned(),
        clean(&format!("{} {}", seen.state.level.sign(), seen.state.words)),
        lag,
        age(seen.lag.seconds),
        seen.slot.runway.words().0,
        format!("{:.1}/s", seen.events.per_second),
    ]
}

fn details(seen: &Overview) -> Paragraph<'static> {
    let mut lines = of_process(seen).into_iter().map(|line| clean(&line));
    let title = lines.next().unwrap_or_default();
    let block = Block::bordered().title(format!(" {title} ")).title_bottom(KEYS);
    let block = block.border_style(Style::new().fg(colour(seen.state.level)));
    Paragraph::new(lines.map(Line::from).collect::<Vec<_>>()).block(block)
}

fn events(seen: &Overview) -> Sparkline<'static> {
    // In thousandths: the height is a share of the highest.
    let thousandths = |sample: f64| {
        let millis = Duration::try_from_secs_f64(sample).unwrap_or_default().as_millis();
        u64::try_from(millis).unwrap_or(u64::MAX)
    };
    let data: Vec<_> = events_of_all(&seen.topics).into_iter().map(thousandths).collect();
    Sparkline::default().data(data).block(Block::bordered().title(" events a second, the last 15 min "))
}

const fn colour(level: Level) -> Color {
    match level {
        Level::Well => Color::Green,
        Level::Watch => Color::Yellow,
        Level::Wrong => Color::Red,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Instant, SystemTime};

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::http::Instance;
    use crate::telemetry::{ConfigInfo, History, Limits, Metrics, Phase, Status};

    fn streaming(slot: &str) -> Box<Overview> {
        overview(slot, |metrics| metrics.topic_tally().add("orders", 7))
    }

    fn overview(slot: &str, counted: impl FnOnce(&Metrics)) -> Box<Overview> {
        let info = ConfigInfo { slot: slot.to_owned(), ..ConfigInfo::default() };
        let (metrics, now) = (Metrics::new(&info), Instant::now());
        let status = Status::new(Limits::default(), now);
        status.enter(Phase::Streaming);
        counted(&metrics);
        let (state, clock) = (status.snapshot(), SystemTime::now());
        let mut history = History::default();
        history.sample(&state, metrics.topics(), now);
        Box::new(Overview::new(&state, &metrics, &history, now, clock))
    }

    fn seen(port: &str, said: Result<Box<Overview>, String>) -> Seen {
        Seen { instance: Instance::parse(port).unwrap(), said }
    }

    fn screen(seen: &[Seen], selected: usize, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, seen, selected)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn one_instance_has_the_whole_screen() {
        let screen = screen(&[seen("8080", Ok(streaming("orders_outbox")))], 0, 110, 30);
        for expected in ["streaming", "slot orders_outbox", "orders 7", "the last 15 min", "q leaves"] {
            assert!(screen.contains(expected), "{expected} is not in\n{screen}");
        }
        assert!(!screen.contains("INSTANCE"), "{screen}");
    }

    #[test]
    fn of_several_each_has_a_line_and_the_chosen_one_its_details() {
        let both =
            [seen("8080", Ok(streaming("first"))), seen("8081", Err("no answer: re\u{1b}fused".to_owned()))];
        let (first, second) = (screen(&both, 0, 110, 30), screen(&both, 1, 110, 30));
        for expected in ["127.0.0.1:8080", "127.0.0.1:8081", "✗ no answer"] {
            assert!(first.contains(expected) && second.contains(expected), "{expected}\n{first}\n{second}");
        }
        assert!(first.contains("slot first") && !second.contains("slot first"));
        assert!(second.contains("no answer: re\\u{1b}fused"), "{second}");
    }

    #[test]
    fn a_narrow_screen_shows_which_instance_is_which() {
        let hosts =
            ["relay-orders-production-1.example.com:8080", "relay-orders-production-2.example.com:8080"];
        let both = hosts.map(|host| seen(host, Ok(streaming("first"))));
        let all = screen(&both, 0, 60, 24);
        let names: Vec<_> =
            all.lines().filter(|line| line.contains("com:8080")).map(|line| line.split(' ').next()).collect();
        assert!(names.len() >= 2 && names[0] != names[1], "{all}");
        assert!(all.contains("streaming"), "{all}");
        let ports = ["127.0.0.1:8080", "127.0.0.1:8081"].map(|port| seen(port, Ok(streaming("first"))));
        let all = screen(&ports, 0, 60, 24);
        assert!(all.contains("127.0.0.1:8080") && all.contains("127.0.0.1:8081"), "{all}");
    }

    #[test]
    fn who_has_sent_nothing_has_no_sign_before_the_zero() {
        let [.., rate] = cells("8080", &overview("first", |_| ()));
        assert_eq!(rate, "0.0/s");
    }

    #[test]
    fn any_screen_is_drawn_on() {
        let both = [seen("8080", Ok(streaming("first"))), seen("8081", Err(String::new()))];
        for (width, height) in [(1, 1), (10, 3), (40, 8), (300, 100)] {
            screen(&both, 0, width, height);
            screen(&both, 7, width, height);
        }
    }
}
