//! What follows from failures: who is tried again, when, and how many at once.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_hint_of_any_size_is_obeyed_or_ends_the_call() {
    // As seconds, fractions, milliseconds and dates come out of the headers; a date that is past is 0.
    for hint in [2.0, 1.5, 3.0, 0.0, 90.0] {
        let hint = seconds(hint);
        let server = Server::new(
            move |_, nth, _| if nth == 0 { Err(turned_away(429, Some(hint))) } else { Ok(RateState::default()) },
        );
        let ends = agents(1, &gate(streams(1)), &server).await;
        assert_eq!(ends, [Ok(2)]);
        let waited = server.arrivals()[1] - LATENCY;
        let most = hint + (hint / 10).min(seconds(1.0)) + seconds(0.002);
        assert!(hint <= waited && waited <= most, "{waited:?} after a hint of {hint:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hint_of_a_day_ends_all_calls_with_the_reason_and_nobody_sends_any_more() {
    let day = seconds(86_400.0);
    let server = Server::new(move |_, _, _| Err(turned_away(429, Some(day))));
    let gate = gate(streams(2));
    let ends = agents(4, &gate, &server).await;
    assert_eq!(server.arrivals().len(), 2, "two at once, none after them");
    for end in ends {
        let words = end.unwrap_err().words().unwrap();
        assert!(words.starts_with("given up: it asks for a pause of 1day"), "{words}");
    }
    assert_eq!(server.begin.elapsed(), LATENCY);
    sleep(seconds(3600.0)).await;
    let late = call(&gate, &server, &silent).await.unwrap_err();
    assert!(late.words().unwrap().contains("23h"), "{late:?}");
    assert_eq!(server.arrivals().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn thirty_two_agents_share_two_requests_per_second() {
    for hint in [Some(seconds(1.0)), Some(seconds(2.0)), Some(Duration::ZERO), None] {
        let server = Server::limited(2, hint);
        let gate = gate(streams(32));
        let ends = agents(32, &gate, &server).await;
        assert!(ends.iter().all(Result::is_ok), "{hint:?}: {ends:?}");
        server.assert_silence();
        let (requests, took) = (server.arrivals().len(), server.begin.elapsed());
        assert!(requests <= 32 * 4, "{requests} requests with {hint:?}");
        assert!(took <= seconds(32.0 * 3.0), "{took:?} with {hint:?}");
        // Not all in the same moment again.
        let starts = server.arrivals();
        let second = starts.iter().position(|start| *start > Duration::ZERO).unwrap();
        assert!(gaps(&starts[second..]).iter().all(|gap| *gap > seconds(0.009)), "{starts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn five_workers_at_one_request_per_second_pause_together_and_finish() {
    let server = Server::limited(1, Some(seconds(2.0)));
    let ends = agents(5, &gate(streams(5)), &server).await;
    assert!(ends.iter().all(Result::is_ok), "{ends:?}");
    server.assert_silence();
    assert!(server.arrivals().len() <= 5 + 4 + 3 + 2 + 1, "{:?}", server.arrivals());
}

#[tokio::test(start_paused = true)]
async fn a_constant_429_is_asked_ever_more_slowly_and_not_for_ever() {
    for hint in [None, Some(Duration::ZERO)] {
        let server = Server::new(move |_, _, _| Err(turned_away(429, hint)));
        let ends = agents(32, &gate(streams(8)), &server).await;
        let arrivals = server.arrivals();
        // Rounds are apart by growing pauses, whoever sends in them.
        let pauses: Vec<Duration> = gaps(&arrivals).into_iter().filter(|gap| *gap > seconds(0.35)).collect();
        let grown = pauses.iter().position(|pause| *pause > seconds(24.0)).unwrap();
        assert!((4..=7).contains(&grown), "{pauses:?}");
        assert!(pauses[..=grown].windows(2).all(|two| two[0] < two[1]), "{pauses:?}");
        assert!(pauses.iter().all(|pause| *pause < seconds(40.0)), "{pauses:?}");
        assert!(arrivals.len() < 64, "{} requests", arrivals.len());
        assert!(server.begin.elapsed() < seconds(11.0 * 60.0), "{:?}", server.begin.elapsed());
        let mut words: Vec<String> = ends.into_iter().map(|end| end.unwrap_err().words().unwrap()).collect();
        words.sort();
        words.dedup();
        assert!(words.len() <= 4, "{words:?}");
        assert!(words.iter().any(|words| words.starts_with("given up with another call")), "{words:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_recovers_after_529_twice_and_ends_a_storm_with_a_word() {
    let server = Server::new(|_, nth, _| if nth < 2 { Err(turned_away(529, None)) } else { Ok(RateState::default()) });
    assert_eq!(agents(1, &gate(streams(8)), &server).await, [Ok(3)]);

    let server = Server::new(
        |now, _, _| {
            if now < seconds(300.0) { Err(turned_away(529, None)) } else { Ok(RateState::default()) }
        },
    );
    let gate = gate(streams(8));
    let end = call(&gate, &server, &silent).await.unwrap_err();
    assert_eq!((&end.why, end.tries, end.failure.status), (&Why::UsedUp, 8, Some(529)));
    let words = end.words().unwrap();
    assert!(words.starts_with("given up after 8 tries over 1m") || words.starts_with("given up after 8 tries over 5"));
    assert!(gaps(&server.arrivals()).windows(2).all(|two| two[0] < two[1]), "{:?}", server.arrivals());
    // The gate is as good as before.
    sleep(seconds(300.0)).await;
    assert_eq!(agents(20, &gate, &server).await, vec![Ok(1); 20]);
}

#[tokio::test(start_paused = true)]
async fn what_waiting_does_not_help_is_tried_once() {
    for kind in [
        ModelErrorKind::Quota,
        ModelErrorKind::Auth,
        ModelErrorKind::NotFound,
        ModelErrorKind::InvalidRequest,
        ModelErrorKind::ContextFull,
        ModelErrorKind::NoTools,
        ModelErrorKind::Egress,
        ModelErrorKind::Protocol,
        ModelErrorKind::Script,
    ] {
        let server = Server::new(move |_, _, _| Err(Failure::new(kind, "")));
        let end = call(&gate(streams(1)), &server, &silent).await.unwrap_err();
        assert_eq!((&end.why, end.tries, end.words()), (&Why::Final, 1, None), "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_providers_word_on_another_try_counts() {
    let should = |status, should| {
        Server::new(move |_, nth, _| {
            let failure = turned_away(status, None);
            let retry = RetryHint { should: Some(should), ..failure.retry };
            if nth == 0 { Err(Failure { retry, ..failure }) } else { Ok(RateState::default()) }
        })
    };
    assert_eq!(call(&gate(streams(1)), &should(400, true), &silent).await, Ok(2));
    let end = call(&gate(streams(1)), &should(529, false), &silent).await.unwrap_err();
    assert_eq!((end.why, end.tries), (Why::Final, 1));
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_was_never_reached_is_tried_three_times_and_one_that_broke_four() {
    let unreachable = || Failure::new(ModelErrorKind::Network, "connection refused");
    let server = Server::new(move |_, _, _| Err(unreachable()));
    let end = call(&gate(streams(1)), &server, &silent).await.unwrap_err();
    assert_eq!(end.tries, 3);
    assert!(server.begin.elapsed() < seconds(3.0), "{:?}", server.begin.elapsed());

    let server = Server::new(move |_, _, _| Err(turned_away(500, None)));
    assert_eq!(call(&gate(streams(1)), &server, &silent).await.unwrap_err().tries, 4);

    let server = Server::new(move |_, nth, _| if nth == 0 { Ok(RateState::default()) } else { Err(unreachable()) });
    let gate = gate(streams(1));
    call(&gate, &server, &silent).await.unwrap();
    assert_eq!(call(&gate, &server, &silent).await.unwrap_err().tries, 8, "a line that breaks may come back");
}

#[tokio::test(start_paused = true)]
async fn streams_halve_once_per_round_and_come_back_with_success() {
    // Bears four streams at once, later as many as come.
    let server = Server::new(|now, _, open| {
        let bears = if now < seconds(20.0) { 4 } else { 32 };
        if open < bears { Ok(RateState::default()) } else { Err(turned_away(529, None)) }
    });
    let gate = gate(streams(32));
    let first = agents(100, &gate, &server).await;
    assert!(first.iter().all(Result::is_ok), "{first:?}");
    assert!(server.begin.elapsed() < seconds(20.0), "{:?}", server.begin.elapsed());
    let limit = gate.state().limit();
    assert!((1..=6).contains(&limit), "the limit is {limit}");
    assert_eq!(server.seen.lock().unwrap().most_open, 4);
    let turned_away = server.seen.lock().unwrap().hints.len();
    assert!(turned_away < 100, "{turned_away} of 100 were turned away");

    sleep(seconds(20.0)).await;
    let second = agents(500, &gate, &server).await;
    assert!(second.iter().all(Result::is_ok));
    assert!(gate.state().limit() > 16, "the limit is {}", gate.state().limit());
}

#[tokio::test(start_paused = true)]
async fn used_up_headers_of_a_success_stop_the_next_request_until_they_reset() {
    for (reset, waits) in [(7.0, 7.0), (86_400.0, 60.0)] {
        let rates = RateState { remaining_requests: Some(0), remaining_tokens: Some(5), reset: Some(seconds(reset)) };
        let server = Server::new(move |_, nth, _| if nth == 0 { Ok(rates) } else { Ok(RateState::default()) });
        let gate = gate(streams(8));
        call(&gate, &server, &silent).await.unwrap();
        call(&gate, &server, &silent).await.unwrap();
        let waited = server.arrivals()[1] - LATENCY;
        assert!(seconds(waits) <= waited && waited < seconds(waits + 1.1), "{waited:?}");
    }
    let plenty = RateState { remaining_requests: Some(3), remaining_tokens: None, reset: Some(seconds(50.0)) };
    let server = Server::new(move |_, _, _| Ok(plenty));
    assert_eq!(agents(8, &gate(streams(8)), &server).await, vec![Ok(1); 8]);
    assert!(server.begin.elapsed() < seconds(1.0));
}

#[tokio::test(start_paused = true)]
async fn overload_after_content_lowers_the_streams_of_all() {
    let gate = gate(streams(8));
    let mut call = gate.call(0);
    let mut permit = gate.enter(&mut call, &silent).await.unwrap();
    permit.answered(&RateState::default());
    permit.lost(&turned_away(529, None));
    assert_eq!(gate.state().limit(), 1);
    assert_eq!(gate.state().load(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn one_seed_gives_one_schedule() {
    let mut schedules = Vec::new();
    for seed in [1, 1, 2] {
        let server = Server::limited(2, None);
        let gate = gate(GateSettings { seed, ..streams(8) });
        agents(8, &gate, &server).await;
        schedules.push(server.arrivals());
    }
    assert_eq!(schedules[0], schedules[1]);
    assert_ne!(schedules[0], schedules[2]);
}
