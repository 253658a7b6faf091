//! Chat templates: every construct and every template in the wild against Jinja's own implementation
//! (`tests/vectors/chat`, which says how it was set up), and what is declined.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at what it did not expect")]

mod fetched;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant, UNIX_EPOCH};

use kiln_engine::chat::{ChatError, ChatTemplate, Conversation, Message};
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    messages: Vec<Message>,
    #[serde(default)]
    tools: Vec<serde_json::Value>,
    #[serde(default = "yes")]
    add_generation_prompt: bool,
}

fn yes() -> bool {
    true
}

impl Case {
    fn conversation(&self) -> Conversation<'_> {
        Conversation {
            tools: &self.tools,
            add_generation_prompt: self.add_generation_prompt,
            bos_token: Some("<BOS>"),
            eos_token: Some("<EOS>"),
            now: UNIX_EPOCH + Duration::from_secs(1_790_000_000),
            ..Conversation::to_answer(&self.messages)
        }
    }
}

fn vectors(file: &str) -> String {
    fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/chat").join(file))
        .unwrap()
}

fn json<T: for<'de> Deserialize<'de>>(file: &str) -> BTreeMap<String, T> {
    serde_json::from_str(&vectors(file)).unwrap()
}

fn render(source: &str, case: &Case) -> Result<String, ChatError> {
    ChatTemplate::new(Some(source))?.render(&case.conversation())
}

fn decline(source: &str) -> ChatError {
    render(source, &json::<Case>("conversations.json")["system"]).unwrap_err()
}

#[test]
fn every_construct_renders_as_jinja_does() {
    let cases: BTreeMap<String, Case> = json("conversations.json");
    let expected: BTreeMap<String, String> = json("constructs.expected.json");
    let sources: BTreeMap<String, String> = json("constructs.json");
    assert_eq!(sources.len(), expected.len());
    let differs = |expected: &BTreeMap<String, String>| -> Vec<String> {
        let differs = sources.iter().filter_map(|(name, source)| {
            let want = &expected[name];
            match render(source, &cases["calls"]) {
                Ok(text) if text == *want => None,
                Ok(text) => Some(format!("{name}\n  got  {text:?}\n  want {want:?}")),
                Err(error) => Some(format!("{name}: {error}")),
            }
        });
        differs.collect()
    };
    let found = differs(&expected);
    assert!(found.is_empty(), "{}", found.join("\n"));

    // A blank too many is seen.
    let mut falsified = expected.clone();
    falsified.get_mut("chatml").unwrap().push(' ');
    assert_eq!(differs(&falsified).len(), 1);
}

/// Templates in the wild that Jinja's authors' setting refuses and we render: what it stumbles over there.
const MORE: &[(&str, &str)] = &[
    // They loop over the tools without asking whether there are any.
    ("CohereForAI-c4ai-command-r-plus-tool_use", "system turns answered"),
    ("NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "system turns answered"),
    ("NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "system turns answered"),
    // It prints a lazy list as JSON.
    ("llama-cpp-deepseek-r1", "tools calls"),
];

/// Templates that print otherwise: Jinja escapes what is added to a `safe` string as if it were HTML, which no model was
/// trained on.
const OTHERWISE: &[(&str, &str)] = &[("meetkai-functionary-medium-v3.1", "tools calls")];

/// Named declines, the template's own or ours: template, conversations, and a part of the message.
const DECLINES: &[(&str, &str, &str)] = &[
    ("google-gemma-2-2b-it", "system tools", "refuses this conversation: System role not supported"),
    ("google-gemma-2-2b-it", "calls", "refuses this conversation: Conversation roles must alternate"),
    (
        "fireworks-ai-llama-3-firefunction-v2",
        "system turns answered tools calls",
        "line 21: invalid operation",
    ),
    ("CohereForAI-c4ai-command-r-plus-tool_use", "tools", "line 104: invalid operation"),
    ("meetkai-functionary-medium-v3.2", "calls", "line 281: invalid operation"),
    ("Kimi-K2-Instruct", "calls", "sequence has no method append"),
    ("Kimi-K2-Thinking", "calls", "sequence has no method append"),
];

fn listed(table: &[(&str, &str)], name: &str, conversation: &str) -> bool {
    table.iter().any(|row| row.0 == name && row.1.split(' ').any(|word| word == conversation))
}

fn fnv1a(text: &str) -> String {
    let step = |value: u64, byte: u8| (value ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, step))
}

#[test]
fn every_template_in_the_wild_renders_or_is_a_named_decline() {
    let folder = fetched::path("KILN_TEMPLATES", "templates");
    let cases: BTreeMap<String, Case> = json("conversations.json");
    let (mut equal, mut more, mut declined) = (0, 0, 0);
    let mut wrong = Vec::new();
    let rows = vectors("renderings.tsv");
    for row in rows.lines() {
        let [name, conversation, expected] = row.split('\t').collect::<Vec<_>>()[..] else { panic!("{row}") };
        let path = folder.join(format!("{name}.jinja"));
        let source = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let case = &cases[conversation];
        match render(&source, case) {
            Ok(text) if fnv1a(&text) == expected => equal += 1,
            Ok(text) if listed(MORE, name, conversation) || listed(OTHERWISE, name, conversation) => {
                let last =
                    case.messages.last().and_then(|message| message.fields["content"].as_str()).unwrap();
                assert!(text.contains(last.trim()), "{name}, {conversation}: {text}");
                more += 1;
            }
            Ok(_) => wrong.push(format!("{name}, {conversation}: differs from {expected}")),
            Err(error) => {
                let message = error.to_string();
                let known = DECLINES.iter().any(|row| {
                    row.0 == name
                        && row.1.split(' ').any(|word| word == conversation)
                        && message.contains(row.2)
                });
                assert!(!message.contains('\n'), "{message:?}");
                if known && expected.starts_with('!') {
                    declined += 1;
                } else {
                    wrong.push(format!("{name}, {conversation}: {message}"));
                }
            }
        }
    }
    println!(
        "{} renderings: {equal} equal, {more} stated otherwise, {declined} declined by name",
        rows.lines().count()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_ne!(fnv1a("a"), fnv1a("b"));
    assert_eq!(equal + more + declined, rows.lines().count());
}

#[test]
fn a_template_that_raises_speaks_for_itself_on_one_line() {
    let error = decline("{{ raise_exception('Only one\n  system message, ' ~ messages[0].role) }}");
    assert!(
        matches!(&error, ChatError::Raised { message } if message == "Only one system message, system"),
        "{error:?}"
    );
    // Also from inside a macro, a loop and a filter block.
    let deep = "{% macro m(x) %}{% for i in [1] %}{% filter upper %}{{ raise_exception(x) }}{% endfilter %}{% endfor %}{% endmacro %}{{ m('deep') }}";
    let error = decline(deep);
    assert!(matches!(&error, ChatError::Raised { message } if message == "deep"), "{error:?}");
}

#[test]
fn declines_name_the_line_and_the_reason() {
    assert!(matches!(ChatTemplate::new(None), Err(ChatError::Missing)));
    assert!(ChatError::Missing.to_string().contains("--raw"));
    for (source, line, part) in [
        ("a\n{% if %}", 2, "syntax error"),
        ("{% for x in y %}", 1, "syntax error"),
        ("\n\n{% nosuchtag %}", 3, "nosuchtag"),
        ("{{ 'a' | nosuchfilter }}", 1, "nosuchfilter"),
        ("{{ unclosed", 1, "syntax error"),
    ] {
        let error = match ChatTemplate::new(Some(source)) {
            Err(error) => error,
            Ok(_) => decline(source),
        };
        let message = error.to_string();
        assert!(message.contains(&format!("line {line}")) && message.contains(part), "{source:?}: {message}");
        assert!(!message.contains('\n'), "{message:?}");
    }
    for (source, line, part) in [
        ("{{ messages[0].nope.deeper }}", 1, "undefined"),
        ("\n{{ [].append(1) }}", 2, "sequence has no method append"),
        ("{{ 'a'.nosuch() }}", 1, "string has no method nosuch"),
        ("{{ nosuch() }}", 1, "nosuch"),
        ("{{ 'a' + 1 }}", 1, "+"),
        ("{{ missing|tojson }}", 1, "undefined"),
        ("{{ strftime_now('%Q') }}", 1, "strftime_now"),
        ("{{ 1 // 0 }}", 1, ""),
    ] {
        let error = decline(source);
        let message = error.to_string();
        assert!(matches!(error, ChatError::Render { .. }), "{source:?}: {error:?}");
        assert!(message.contains(&format!("line {line}")) && message.contains(part), "{source:?}: {message}");
    }
}

/// A template comes with a file from a stranger: it may neither hang nor eat the memory.
#[test]
fn a_template_without_end_is_stopped() {
    let nested = "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}x{% endfor %}{% endfor %}{% endfor %}";
    let doubling = "{% set ns = namespace(x='xxxxxxxx') %}{% for i in range(64) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}";
    let recursion = "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}";
    for source in [nested, doubling, recursion] {
        let start = Instant::now();
        let error = decline(source);
        assert!(matches!(error, ChatError::Endless { .. } | ChatError::Render { .. }), "{error:?}");
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    }
}

#[test]
fn variables_reach_the_template() {
    let messages = [Message::text("user", "Hi")];
    let mut conversation = Conversation::to_answer(&messages);
    conversation.variables.insert("enable_thinking".to_owned(), false.into());
    let template = ChatTemplate::new(Some("{{ enable_thinking }} {{ bos_token is defined }}")).unwrap();
    assert_eq!(template.render(&conversation).unwrap(), "False False");
}
