//! a-tree over the rules and events that the bench has written; writes what it found.
//!
//! Arguments: a file of rules, one a line; a file of events, one a line; the file for the result; the seconds of
//! processor time that matching may take. The first round gathers the pairs of event and rule and stops after a
//! quarter of the seconds. Five others repeat its events and are timed, each for an eighth of the seconds. Events
//! are made before anything is timed.

use a_tree::{ATree, AttributeDefinition, Event};
use serde_json::{json, Value};

/// Numbers that are not whole have at most so many decimals.
const SCALE: u32 = 4;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let rules = std::fs::read_to_string(&arguments[1]).unwrap();
    let texts = std::fs::read_to_string(&arguments[2]).unwrap();
    let budget: f64 = arguments[4].parse().unwrap();
    let rows: Vec<Value> = texts.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let before = processor();
    let definitions = definitions(&rows[0]);
    let mut tree: ATree<u64> = ATree::new(&definitions).unwrap();
    for (number, rule) in rules.lines().enumerate() {
        tree.insert(&(number as u64), rule).unwrap();
    }
    let build = processor() - before;
    let events: Vec<Event> = rows.iter().map(|row| event(&tree, row)).collect();
    let (mut digest, mut counts) = (0u64, Vec::new());
    let began = processor();
    for (number, event) in events.iter().enumerate() {
        let report = tree.search(event).unwrap();
        for rule in report.matches() {
            digest = digest.wrapping_add(mixed((number as u64) << 32 | **rule));
        }
        counts.push(report.matches().len());
        if processor() - began > budget / 4.0 {
            break;
        }
    }
    let mut rounds = Vec::new();
    while rounds.len() < 5 {
        let (began, mut matched) = (processor(), 0);
        while processor() - began < budget / 8.0 {
            for event in &events[..counts.len()] {
                std::hint::black_box(tree.search(event).unwrap());
            }
            matched += counts.len();
        }
        rounds.push((processor() - began) * 1e6 / matched as f64);
    }
    let result = json!({"build": build, "events": counts.len(), "counts": counts,
                        "digest": format!("{digest:x}"), "rounds": rounds});
    std::fs::write(&arguments[3], result.to_string()).unwrap();
}

/// The attributes of the first event, by the kinds of their values.
fn definitions(row: &Value) -> Vec<AttributeDefinition> {
    let fields = row.as_object().unwrap();
    let define = |(name, value): (&String, &Value)| match value {
        Value::String(_) => AttributeDefinition::string(name),
        Value::Number(number) if number.is_f64() => AttributeDefinition::float(name),
        _ => AttributeDefinition::integer(name),
    };
    fields.iter().map(define).collect()
}

fn event(tree: &ATree<u64>, row: &Value) -> Event {
    let mut builder = tree.make_event();
    for (name, value) in row.as_object().unwrap() {
        match value {
            Value::String(text) => builder.with_string(name, text),
            Value::Number(number) if number.is_f64() => {
                let scaled = (number.as_f64().unwrap() * 10f64.powi(SCALE as i32)).round() as i64;
                builder.with_float(name, scaled, SCALE)
            }
            _ => builder.with_integer(name, value.as_i64().unwrap()),
        }
        .unwrap();
    }
    builder.build().unwrap()
}

/// The processor time that this process has used so far, in seconds.
fn processor() -> f64 {
    let mut used = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // Fills the struct above and touches nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut used) };
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

/// Spreads a number over 64 bits (the finaliser of SplitMix64).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9E3779B97F4A7C15);
    let number = (number ^ number >> 30).wrapping_mul(0xBF58476D1CE4E5B9);
    let number = (number ^ number >> 27).wrapping_mul(0x94D049BB133111EB);
    number ^ number >> 31
}
