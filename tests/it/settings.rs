//! Settings as the binary takes them: layers, trust of the workspace, which model a run uses, `models` and `doctor`.

use crate::command::{Said, Sandbox, finish};
use crate::net::Server;
use std::path::Path;

/// A reply of Chat Completions, whole.
const REPLY: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n\
    {\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"ok\"},\"finish_reason\":\"stop\"}],\
    \"usage\":{\"prompt_tokens\":20,\"completion_tokens\":1}}";
/// A key that must be seen nowhere but in a request's header.
const KEY: &str = "sk-never-to-be-seen";

/// Runs `sortie` with these arguments, separated by blanks, and variables.
fn sortie(sandbox: &Sandbox, args: &str, env: &[(&str, &str)]) -> Said {
    let mut command = sandbox.sortie();
    command.args(args.split(' ')).envs(env.iter().copied());
    let said = finish(command);
    assert!(!said.stderr.contains(KEY) && !said.stdout.contains(KEY), "{}{}", said.stdout, said.stderr);
    said
}

/// A config that sends the key of a known provider to this server.
fn elsewhere(server: &Server) -> String {
    format!("model = \"openai/m\"\n[providers.openai]\nbase_url = \"http://{}\"\n", server.place)
}

#[test]
fn a_key_goes_where_the_workspace_says_only_once_that_is_trusted() {
    let sandbox = Sandbox::new();
    let there = Server::new(REPLY);
    sandbox.file("workspace/.sortie/config.toml", elsewhere(&there));
    // Nowhere else either: this is a test.
    let args = "run -C workspace --network 127.0.0.1 what?";
    let env = [("OPENAI_API_KEY", KEY)];
    let heard = |said: &Said, server: &Server| {
        let heard = server.heard();
        let with_key = heard.iter().filter(|head| head.to_lowercase().contains(&format!("bearer {KEY}"))).count();
        assert_eq!(with_key, heard.len(), "{}", said.stderr);
        heard.len()
    };

    let said = sortie(&sandbox, args, &env);
    assert_eq!((said.code, heard(&said, &there)), (4, 0), "{}", said.stderr);
    let note =
        "note: `.sortie/config.toml` is ignored: the workspace is not trusted yet; --trust accepts what is set there\n";
    assert!(said.stderr.starts_with(note), "{}", said.stderr);

    let said = sortie(&sandbox, &format!("{args} --trust --dry-run"), &env);
    assert!(said.stdout.contains("openai/m (`model` in the config)"), "{}", said.stdout);
    assert!(!sandbox.path().join("state/trust").exists(), "a dry run remembers nothing");

    let said = sortie(&sandbox, &format!("{args} --trust"), &env);
    assert_eq!((said.code, heard(&said, &there) > 0), (0, true), "{}", said.stderr);
    let said = sortie(&sandbox, args, &env);
    assert_eq!((said.code, heard(&said, &there) > 0), (0, true), "{}", said.stderr);
    assert!(!said.stderr.contains("ignored"), "it is remembered: {}", said.stderr);

    // What a pull may bring.
    let thief = Server::new(REPLY);
    sandbox.file("workspace/.sortie/config.local.toml", elsewhere(&thief));
    let said = sortie(&sandbox, args, &env);
    assert_eq!((said.code, heard(&said, &thief), heard(&said, &there)), (4, 0, 0), "{}", said.stderr);
    let note = format!(
        "note: `.sortie/config.toml` and `.sortie/config.local.toml` are ignored: the settings have changed since you trusted \
         them (`~ providers.openai.base_url = \"http://{}\" (it was \"http://{}\")`); --trust accepts what is set there\n",
        thief.place, there.place
    );
    assert!(said.stderr.starts_with(&note), "{}", said.stderr);
}

#[test]
fn what_is_not_trusted_may_be_broken_and_what_is_may_not() {
    let sandbox = Sandbox::new();
    let quiet = sortie(&sandbox, "models -C workspace", &[]);
    assert_eq!((quiet.code, quiet.stderr.as_str()), (0, ""));
    sandbox.file("workspace/.sortie/.gitignore", "runs/\n");
    sandbox.file("workspace/.sortie/config.toml", "# nothing is set\n");
    let quiet = sortie(&sandbox, "models -C workspace", &[]);
    assert_eq!((quiet.code, quiet.stderr.as_str()), (0, ""), "there is nothing to trust");
    sandbox.file("workspace/.sortie/config.toml", "[permissions]\nallow = []\nkey = \"sk-hush-hush\"\n");
    let ignored = sortie(&sandbox, "models -C workspace", &[]);
    let note = "note: `.sortie/config.toml` is ignored: the workspace is not trusted, and something is wrong with what it brings";
    assert_eq!(ignored.code, 0);
    assert!(ignored.stderr.starts_with(note), "{}", ignored.stderr);
    let said = sortie(&sandbox, "models -C workspace --trust", &[]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("`permissions` is not supported by this version yet"), "{}", said.stderr);
    assert!(!said.stderr.contains("hush"), "{}", said.stderr);
    std::fs::remove_file(sandbox.path().join("workspace/.sortie/config.toml")).unwrap();
    std::fs::create_dir(sandbox.path().join("workspace/.sortie/config.toml")).unwrap();
    let said = sortie(&sandbox, "models -C workspace --trust", &[]);
    assert!(said.code == 2 && said.stderr.contains("it is not a file"), "{}", said.stderr);
}

#[test]
fn the_users_own_file_is_told_with_all_of_its_problems() {
    let sandbox = Sandbox::new();
    let own = sandbox.file("config/sortie/config.toml", "modle = \"a/b\"\nkey = \"sk-hush-hush\"\njobs = 0\n");
    let folder = sandbox.path().join("config");
    let said = sortie(&sandbox, "run -C workspace what?", &[("XDG_CONFIG_HOME", folder.to_str().unwrap())]);
    assert_eq!(said.code, 2);
    insta::assert_snapshot!(sandbox.without_path(&said.stderr));
    let said = sortie(&sandbox, "run -C workspace what?", &[("SORTIE_CONFIG", "no/such/file")]);
    assert!(said.code == 2 && said.stderr.contains("there is no file `no/such/file`"), "{}", said.stderr);
    // Named by the variable it is the user's own, wherever it lies.
    std::fs::write(&own, "model = \"a/b\"\n").unwrap();
    let said = sortie(&sandbox, "models", &[("SORTIE_CONFIG", own.to_str().unwrap())]);
    assert!(said.stdout.starts_with("model     a/b (`model` in the config)\n"), "{}", said.stdout);
}

#[test]
fn a_run_without_a_reply_leads_to_the_doctor_and_a_model_behind_it_is_named() {
    let sandbox = Sandbox::new();
    sandbox.file("workspace/a.rs", "");
    let file =
        sandbox.file("own.toml", "[providers.p]\nprotocol = \"openai-chat\"\nbase_url = \"http://127.0.0.1:9\"\n");
    let env = [("SORTIE_CONFIG", file.to_str().unwrap())];
    let run = |args: &str| sortie(&sandbox, &format!("run -C workspace --model p/m {args} what?"), &env);

    let said = run("--network offline");
    assert_eq!((said.code, said.stdout.as_str()), (4, ""), "{}", said.stderr);
    assert!(said.stderr.contains("hint: `sortie doctor --model p/m -C workspace` tries key and"), "{}", said.stderr);
    let said = run("--network offline --trace-http");
    assert!(said.stderr.contains("hint: `sortie trace show "), "{}", said.stderr);

    for (flag, role) in [("--fallback-model", "fallback"), ("--small-model", "small")] {
        let said = run(&format!("{flag} openai/m"));
        assert_eq!(said.code, 2, "{}", said.stderr);
        let error =
            format!("error: {role} model `openai/m`: the provider `openai` needs a key: OPENAI_API_KEY is not set");
        assert!(said.stderr.starts_with(&error), "{}", said.stderr);
    }
    let said = run("--fallback-model p/");
    assert!(said.stderr.contains("hint: write the model behind it: `p/MODEL`"), "{}", said.stderr);
}

#[test]
fn the_upper_layer_names_the_model() {
    let sandbox = Sandbox::new();
    let own = sandbox.file("own.toml", "model = \"p/own\"\nsmall_model = \"p/small\"\n");
    let own = own.to_str().unwrap();
    let key = [("ANTHROPIC_API_KEY", KEY)];
    let model = |args: &str, env: &[(&str, &str)]| {
        let said = sortie(&sandbox, &format!("models -C workspace --trust {args}").trim_end().replace("  ", " "), env);
        said.stdout.lines().next().unwrap_or_default().trim_start_matches("model     ").to_string()
    };
    assert_eq!(model("", &[]), "builtin/scout (no model is named, and no provider is set up)");
    assert_eq!(
        model("", &[("ANTHROPIC_API_KEY", " ")]),
        "builtin/scout (no model is named, and no provider is set up)"
    );
    let default = model("", &key);
    assert!(
        default.starts_with("anthropic/") && default.ends_with("(no model is named, and ANTHROPIC_API_KEY is set)")
    );
    let mut env = vec![key[0], ("SORTIE_CONFIG", own)];
    assert_eq!(model("", &env), "p/own (`model` in the config)");
    sandbox.file("workspace/.sortie/config.toml", "model = \"p/project\"");
    assert_eq!(model("", &env), "p/project (`model` in the config)");
    sandbox.file("workspace/.sortie/config.local.toml", "model = \"p/local\"");
    assert_eq!(model("", &env), "p/local (`model` in the config)");
    env.push(("SORTIE_MODEL", "p/variable"));
    assert_eq!(model("", &env), "p/variable (named by --model or SORTIE_MODEL)");
    assert_eq!(model("--model p/flag", &env), "p/flag (named by --model or SORTIE_MODEL)");
    let said = sortie(&sandbox, "models", &[("DEEPSEEK_API_KEY", KEY)]);
    let none = "model     none: the provider `deepseek` is set up, but no model is named
";
    assert!(said.stdout.starts_with(none), "{}", said.stdout);
    let said = sortie(&sandbox, "models", &[("SORTIE_CONFIG", own)]);
    assert!(said.stdout.contains("\nsmall     p/small\n"), "{}", said.stdout);
}

#[test]
fn variables_that_cannot_be_read_are_named() {
    let sandbox = Sandbox::new();
    for (name, value, expected) in [
        ("SORTIE_JOBS", "0", "the variable SORTIE_JOBS: at least 1 is needed"),
        ("SORTIE_NETWORK", "http://h", "the variable SORTIE_NETWORK: `http://h` is not a host"),
        ("SORTIE_IDLE_TIMEOUT", "5", "the variable SORTIE_IDLE_TIMEOUT: "),
        ("HTTPS_PROXY", "socks5://me:hush@h", "`HTTPS_PROXY` names a proxy that speaks `socks5`"),
        ("SSL_CERT_FILE", "no/such.pem", "`no/such.pem` (`SSL_CERT_FILE`)"),
        ("OPENAI_BASE_URL", "h", "check the variable OPENAI_BASE_URL"),
        ("OPENAI_API_KEY", "sk-hush\nhush", "OPENAI_API_KEY holds characters that no key has"),
        ("OPENAI_API_KEY", "", "the provider `openai` needs a key: OPENAI_API_KEY is not set"),
    ] {
        let mut env = vec![("OPENAI_API_KEY", KEY), ("SORTIE_MODEL", "openai/m")];
        env.retain(|(other, _)| *other != name);
        env.push((name, value));
        let said = sortie(&sandbox, "run -C workspace what?", &env);
        assert!(said.code == 2 && said.stderr.contains(expected), "{name}: {} {}", said.code, said.stderr);
        assert!(!said.stderr.contains("hush"), "{name}: {}", said.stderr);
    }
    // Empty is unset.
    let env: Vec<_> =
        ["SORTIE_JOBS", "SORTIE_NETWORK", "SORTIE_CONFIG", "SORTIE_MODEL", "HTTPS_PROXY", "SSL_CERT_FILE"]
            .map(|name| (name, ""))
            .to_vec();
    let said = sortie(&sandbox, "run -C workspace --dry-run what?", &env);
    assert!(said.code == 0 && said.stdout.contains("model      builtin/scout"), "{}{}", said.stdout, said.stderr);
}

#[test]
fn a_named_model_answers_for_every_node_and_an_alias_means_the_runs() {
    let node = |model: &str| {
        format!("version = 1\nname = \"p\"\n[[node]]\nid = \"a\"\nmodel = \"{model}\"\nprompt = \"Look.\"\n")
    };
    let script =
        "[[reply]]\nnode = \"a\"\ncalls = [{ name = \"report\", args = { status = \"done\", summary = \"x\" } }]\n";
    let run = "run -C workspace --plan plan.toml";
    for (model, args, env, code) in [
        ("acme/huge", "--model script/script.toml", None, 0),
        ("acme/huge", "", Some(("SORTIE_MODEL", "script/script.toml")), 0),
        ("acme/huge", "", Some(("SORTIE_CONFIG", "own.toml")), 2),
        ("sonnet", "", Some(("SORTIE_CONFIG", "own.toml")), 0),
        ("inherit", "", Some(("SORTIE_CONFIG", "own.toml")), 0),
        ("huge", "", Some(("SORTIE_CONFIG", "own.toml")), 2),
    ] {
        let sandbox = Sandbox::new();
        sandbox.file("plan.toml", node(model));
        sandbox.file("script.toml", script);
        sandbox.file("own.toml", "model = \"script/script.toml\"\n");
        let said = sortie(&sandbox, format!("{run} {args}").trim_end(), env.as_slice());
        assert_eq!(said.code, code, "{model} {args}: {}", said.stderr);
    }
}

#[test]
fn what_the_config_puts_behind_a_model_does_not_stand_behind_a_script() {
    let sandbox = Sandbox::new();
    sandbox.file("script.toml", "[[reply]]\nnode = \"coordinator\"\ntext = \"42\"\n");
    sandbox.file("own.toml", "fallback_models = [\"openai/m\"]\nsmall_model = \"openai/m\"\n");
    let env = [("SORTIE_CONFIG", "own.toml")];
    let said = sortie(&sandbox, "run -C workspace --model script/script.toml what?", &env);
    assert_eq!((said.code, said.stdout.as_str()), (0, "42\n"), "{}", said.stderr);
    let run = "run -C workspace --model script/script.toml --fallback-model openai/m what?";
    let said = sortie(&sandbox, run, &env);
    assert!(said.code == 2 && said.stderr.contains("OPENAI_API_KEY is not set"), "{}", said.stderr);
}

#[test]
fn a_command_of_a_plan_sees_no_variable_that_the_config_names_for_a_key() {
    let sandbox = Sandbox::new();
    sandbox.file(
        "own.toml",
        "[providers.acme]\nkey_env = \"ACME\"\nheaders = { x-team = \"TEAM\" }\nprotocol = \"openai-chat\"\nbase_url = \"http://h\"",
    );
    sandbox.file("plan.toml", "version = 1\nname = \"p\"\n[[node]]\nid = \"a\"\ncommand = \"env\"\n");
    let env = [
        ("SORTIE_CONFIG", "own.toml"),
        ("SORTIE_MODEL", "builtin/scout"),
        ("ACME", KEY),
        ("TEAM", KEY),
        ("OPENAI_API_KEY", KEY),
        ("PLAIN", "seen"),
    ];
    let said = sortie(&sandbox, "run -C workspace --plan plan.toml", &env);
    assert!(said.code == 0 && said.stdout.contains("PLAIN=seen"), "{}{}", said.stdout, said.stderr);
    assert!(!said.stdout.contains("ACME") && !said.stdout.contains("TEAM"), "{}", said.stdout);
}

#[test]
fn models_are_listed_without_their_keys() {
    let sandbox = Sandbox::new();
    let own = sandbox.file(
        "own.toml",
        "model = \"acme/large\"\nfallback_models = [\"ollama/a\", \"acme/small\"]\n\
         [providers.acme]\nprotocol = \"anthropic\"\nbase_url = \"http://h/anthropic/\"\nkey_env = \"ACME\"\n\
         [models.\"acme/large\"]\ncontext_window = 32000\nprice = { input = 1, output = 5 }\n[models.\"acme/small\"]\n",
    );
    let env = [("SORTIE_CONFIG", own.to_str().unwrap()), ("ACME", KEY)];
    insta::assert_snapshot!(sortie(&sandbox, "models", &env).stdout);
    let said = sortie(&sandbox, "models --json", &env);
    let object: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(object["model"], "acme/large");
    assert_eq!(object["providers"][0]["key_in"], "ACME");
    assert_eq!(object["providers"][0]["endpoint"], "http://h/anthropic/v1/messages");
    let named = |name: &str| object["models"].as_array().unwrap().iter().find(|model| model["name"] == name).cloned();
    assert_eq!(named("acme/large").unwrap()["price"]["output"], 5.0);
    assert!(named("anthropic/claude-sonnet-4-5").is_some(), "all of them are in the object");
    let said = sortie(&sandbox, "models antropic", &[]);
    assert!(said.code == 2 && said.stderr.contains("there is no provider `antropic`"), "{}", said.stderr);
}

/// What `doctor` says, without what differs from machine to machine.
fn doctor(sandbox: &Sandbox, args: &str, env: &[(&str, &str)], servers: &[&Server]) -> (i32, String) {
    let said = sortie(sandbox, format!("doctor -C workspace {args}").trim_end(), env);
    let mut text = sandbox.without_path(&said.stdout);
    for server in servers {
        text = text.replace(&server.place, "SERVER");
    }
    let lines = text.lines().map(|line| match line.split_once(" answered after ") {
        Some((before, after)) => format!("{before} answered after N {}", after.split_once(' ').unwrap().1),
        None if line.contains(" git ") => "ok    git        VERSION".to_string(),
        None => line.to_string(),
    });
    (said.code, lines.map(|line| line + "\n").collect())
}

#[test]
fn a_key_in_the_query_of_a_base_url_is_not_shown() {
    let sandbox = Sandbox::new();
    let server = Server::new(REPLY);
    let base_url = format!("http://{}/v1?api_key={KEY}&version=2", server.place);
    let own = sandbox.file(
        "own.toml",
        format!("[providers.acme]\nprotocol = \"anthropic\"\nbase_url = \"{base_url}\"\nkey_env = \"ACME\"\n"),
    );
    let env = [("SORTIE_CONFIG", own.to_str().unwrap()), ("ACME", "another-key")];
    for (command, env) in [
        ("models", &env[..]),
        ("models --json", &env),
        ("doctor --model acme/m", &env),
        ("doctor --model acme/m", &env[..1]),
    ] {
        let said = sortie(&sandbox, command, env);
        let said = format!("{}{}", said.stdout, said.stderr);
        assert!(!said.contains(KEY) && said.contains("/v1/messages?api_key=***&version=2"), "{command}: {said}");
    }
}

#[test]
fn the_doctor_says_what_is_there_and_what_to_do() {
    let sandbox = Sandbox::new();
    let server = Server::new(REPLY);
    let base_url = format!("http://{}", server.place);
    let env = [("OPENAI_API_KEY", KEY), ("OPENAI_BASE_URL", &base_url), ("SORTIE_MODEL", "openai/m")];
    let (code, text) = doctor(&sandbox, "", &env, &[&server]);
    assert_eq!(code, 0, "{text}");
    insta::assert_snapshot!("doctor_fine", text);
    assert_eq!(server.heard().len(), 1);

    let (code, text) = doctor(&sandbox, "--offline", &env, &[&server]);
    assert_eq!((code, server.heard().len()), (0, 0), "{text}");
    let (code, text) = doctor(&sandbox, "--network offline", &env, &[&server]);
    assert_eq!((code, server.heard().len()), (1, 0), "{text}");
    assert!(text.contains("fail  address    `SERVER` may not be reached: network is offline"), "{text}");

    let env = [("OPENAI_BASE_URL", base_url.as_str())];
    sandbox.file("workspace/.sortie/config.toml", "network = \"offline\"\n");
    let (code, text) = doctor(&sandbox, "", &env, &[&server]);
    assert_eq!(code, 1, "{text}");
    insta::assert_snapshot!("doctor_without_key", text);
    let heard = server.heard();
    assert!(heard.len() == 1 && heard[0].starts_with("GET ") && !heard[0].contains("authorization"), "{heard:?}");
    assert!(!sandbox.path().join("state").exists() && !Path::new(&sandbox.workspace()).join(".sortie/runs").exists());
}

#[test]
fn help_teaches() {
    let sandbox = Sandbox::new();
    for command in ["run", "models", "doctor"] {
        let said = sortie(&sandbox, &format!("{command} --help"), &[]);
        insta::assert_snapshot!(format!("help_{command}"), said.stdout);
    }
}
