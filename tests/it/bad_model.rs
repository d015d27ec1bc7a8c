//! Providers that cannot be used, as the binary tells it: what, which provider, what to do; exit 4; the key in no place.
//! What servers say in their own words is in `tests/scenarios/runs/wire-*`.

use crate::command::{Sandbox, finish};
use crate::net::Server;
use std::net::TcpListener;

/// Runs against an OpenAI-compatible server at this address.
fn told(base_url: &str, env: &[(&str, &str)]) -> String {
    let key = "sk-never-to-be-seen";
    let sandbox = Sandbox::new();
    sandbox.file("plan.toml", "version = 1\nname = \"p\"\n[[node]]\nid = \"a\"\nprompt = \"Look.\"\n");
    let mut command = sandbox.sortie();
    command.args(["run", "-C", "workspace", "--plan", "plan.toml", "--model", "openai/m", "--output", "json"]);
    command.env("OPENAI_API_KEY", key).env("OPENAI_BASE_URL", base_url).envs(env.iter().copied());
    let said = finish(command);
    assert_eq!(said.code, 4, "{}{}", said.stdout, said.stderr);
    assert!(!format!("{}{}", said.stdout, said.stderr).contains(key));
    for entry in walk(&sandbox.workspace().join(".sortie")) {
        assert!(!std::fs::read_to_string(&entry).unwrap_or_default().contains(key), "{}", entry.display());
    }
    let result: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    result["nodes"][0]["cause"]["detail"].as_str().unwrap().to_string()
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

fn closed() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn each_way_not_to_get_through_has_one_clear_message() {
    let nobody = closed();
    let proxy = closed();
    let plain = Server::new("HTTP/1.1 400 Bad Request\r\n\r\n");
    let proxied = format!("http://me:hush@{proxy}");
    let nobody_url = format!("http://{nobody}/v1");
    let plain_url = format!("https://{}", plain.place);
    type Case<'a> = (&'a str, Vec<(&'a str, &'a str)>, Vec<String>);
    let cases: Vec<Case<'_>> = vec![
        (
            &nobody_url,
            vec![],
            vec![
                format!("no answer of `openai`: `{nobody}` cannot be reached: connection refused"),
                "check the base URL".into(),
            ],
        ),
        (&plain_url, vec![], vec![format!("`{}` does not speak TLS", plain.place), "http://".into()]),
        (
            "http://no-such-host.invalid",
            vec![],
            vec![
                "the name of `no-such-host.invalid` is not known (DNS)".into(),
                "check the spelling of the base URL".into(),
            ],
        ),
        (
            "https://api.test/v1",
            vec![("https_proxy", &proxied)],
            vec![format!("the proxy `{proxy}` cannot be reached: connection refused"), "NO_PROXY".into()],
        ),
        (
            &nobody_url,
            vec![("SORTIE_NETWORK", "offline")],
            vec![format!("`{nobody}` may not be reached: network is offline"), "network = [\"127.0.0.1\"]".into()],
        ),
    ];
    std::thread::scope(|scope| {
        for (base_url, env, expected) in &cases {
            scope.spawn(move || {
                let said = told(base_url, env);
                for words in expected {
                    assert!(said.contains(words), "{base_url}: {said}");
                }
                assert!(!said.contains("hush"), "{said}");
            });
        }
    });
}

#[test]
fn a_redirect_is_told_and_the_key_does_not_go_along() {
    let there = Server::new("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let answer = format!("HTTP/1.1 302 Found\r\nlocation: http://{}/v1\r\ncontent-length: 0\r\n\r\n", there.place);
    let here = Server::new(answer);
    let said = told(&format!("http://{}", here.place), &[]);
    assert!(said.contains(&format!("redirects to `http://{}/v1`", there.place)), "{said}");
    assert_eq!((here.heard().len(), there.heard().len()), (1, 0));
}
