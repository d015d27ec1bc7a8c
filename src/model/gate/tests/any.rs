//! What holds whatever comes: rates and permits.

use super::*;
use proptest::prelude::*;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Runs a future in virtual time.
fn virtually<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Requests reach the provider with delays of their own, and no minute there holds more than the configured ones.
    #[test]
    fn the_rate_is_never_exceeded(
        rpm in prop_oneof![1_u32..20, 20_u32..400],
        seed: u64,
        arrivals in prop::collection::vec((0_u64..90_000, 0_u64..900, any::<bool>()), 1..80),
    ) {
        let mut reached = virtually(async {
            let gate = gate(GateSettings { streams: 16, rpm: Some(rpm), seed, ..GateSettings::default() });
            let begin = Instant::now();
            let mut tasks = JoinSet::new();
            for (at, delay, fails) in arrivals.clone() {
                let gate = Arc::clone(&gate);
                tasks.spawn(async move {
                    sleep(Duration::from_millis(at)).await;
                    let mut call = gate.call(0);
                    let mut reached = Vec::new();
                    loop {
                        let permit = gate.enter(&mut call, &silent).await.unwrap();
                        sleep(Duration::from_millis(delay)).await;
                        reached.push(begin.elapsed());
                        let failure = turned_away(500, Some(Duration::ZERO));
                        if !fails || matches!(gate.failed(&mut call, permit, failure), Verdict::GiveUp(_)) {
                            return reached;
                        }
                    }
                });
            }
            tasks.join_all().await.concat()
        });
        reached.sort();
        prop_assert!(reached.len() >= arrivals.len(), "all went out");
        for (at, start) in reached.iter().enumerate() {
            let minute = reached[at..].iter().take_while(|later| **later - *start <= seconds(60.0)).count();
            prop_assert!(minute <= rpm as usize, "{minute} in a minute of {rpm}");
        }
    }

    /// Reserved tokens, corrected by what was used, stay within the configured ones in every minute.
    #[test]
    fn the_tokens_are_never_exceeded(
        calls in prop::collection::vec((0_u64..90_000, 1_u64..1_500, prop::option::of(0.0..1.0)), 1..60),
    ) {
        const TPM: u64 = 2_000;
        let mut used = virtually(async {
            let gate = gate(GateSettings { streams: 16, tpm: Some(TPM), ..GateSettings::default() });
            let begin = Instant::now();
            let mut tasks = JoinSet::new();
            for (at, tokens, share) in calls.clone() {
                let gate = Arc::clone(&gate);
                tasks.spawn(async move {
                    sleep(Duration::from_millis(at)).await;
                    let mut permit = gate.enter(&mut gate.call(tokens), &silent).await.unwrap();
                    let start = begin.elapsed();
                    sleep(STREAM).await;
                    permit.answered(&RateState::default());
                    // Some servers do not count.
                    let Some(share) = share else {
                        permit.settle(&Usage::default());
                        return (start, tokens);
                    };
                    let output = (tokens as f64 * share) as u64;
                    permit.settle(&Usage { output, cache_read: 7_000, ..Usage::default() });
                    (start, output)
                });
            }
            tasks.join_all().await
        });
        used.sort();
        for (at, (start, _)) in used.iter().enumerate() {
            let minute = used[at..].iter().take_while(|(later, _)| *later - *start <= seconds(60.0));
            let sum: u64 = minute.map(|(_, tokens)| tokens).sum();
            prop_assert!(sum <= TPM, "{sum} tokens in a minute");
        }
    }

    /// Calls that are dropped at any moment of their life leave nothing behind, and the others all go.
    #[test]
    fn nothing_leaks_when_calls_are_dropped(
        seed: u64,
        lives in prop::collection::vec((0_u64..3_000, prop::option::of(0_u64..4_000)), 1..60),
    ) {
        virtually(async {
            let server = Server::new(|now, nth, open| match nth % 5 {
                3 => Err(turned_away(529, None)),
                4 if now < seconds(5.0) => Err(turned_away(429, Some(seconds(0.3)))),
                _ if open >= 6 => Err(turned_away(500, None)),
                _ => Ok(RateState::default()),
            });
            let settings = GateSettings { streams: 4, rpm: Some(3_000), tpm: Some(500_000), max_tries: 64, seed };
            let gate = gate(settings);
            let mut tasks = JoinSet::new();
            for (at, life) in lives {
                let (gate, server) = (Arc::clone(&gate), Arc::clone(&server));
                tasks.spawn(async move {
                    sleep(Duration::from_millis(at)).await;
                    match life {
                        Some(life) => drop(timeout(Duration::from_millis(life), call(&gate, &server, &silent)).await),
                        None => assert!(call(&gate, &server, &silent).await.is_ok()),
                    }
                });
            }
            timeout(seconds(900.0), tasks.join_all()).await.unwrap();
            assert_eq!(gate.state().load(), (0, 0));
        });
    }
}
