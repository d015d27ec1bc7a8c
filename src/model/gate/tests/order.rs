//! Who goes when, and what those are told who wait.

use super::*;
use crate::model::WaitCause;
use tokio::task::JoinSet;
use tokio::time::timeout;

#[tokio::test(start_paused = true)]
async fn calls_go_in_order_and_one_that_failed_keeps_its_place() {
    let gate = gate(streams(1));
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for number in 0..20 {
        let (gate, order) = (Arc::clone(&gate), Arc::clone(&order));
        // The call is made here, so that the order is known; who comes to the gate first is left to chance.
        let mut call = gate.call(0);
        tasks.spawn(async move {
            sleep(Duration::from_millis(20 - number)).await;
            let mut permit = gate.enter(&mut call, &silent).await.unwrap();
            sleep(STREAM).await;
            if number == 3 {
                let hint = Some(Duration::ZERO);
                assert!(matches!(gate.failed(&mut call, permit, turned_away(429, hint)), Verdict::Retry));
                permit = gate.enter(&mut call, &silent).await.unwrap();
            }
            drop(permit);
            order.lock().unwrap().push(number);
        });
    }
    tasks.join_all().await;
    let order = order.lock().unwrap().clone();
    assert_eq!(order[0], 19, "the first to come met an open gate");
    assert_eq!(order[1..], (0..19).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn one_that_rests_after_a_failure_of_its_own_holds_up_nobody() {
    let gate = gate(streams(1));
    let mut broken = gate.call(0);
    let permit = gate.enter(&mut broken, &silent).await.unwrap();
    assert!(matches!(gate.failed(&mut broken, permit, turned_away(500, None)), Verdict::Retry));
    let (rests, begun) = (gate.enter(&mut broken, &silent), Instant::now());
    let other = async {
        let mut call = gate.call(0);
        let permit = gate.enter(&mut call, &silent).await.unwrap();
        assert_eq!(begun.elapsed(), Duration::ZERO);
        drop(permit);
    };
    let (rested, ()) = tokio::join!(rests, other);
    assert!(rested.is_ok() && begun.elapsed() >= seconds(0.4));
}

#[tokio::test(start_paused = true)]
async fn every_wait_is_told_once_per_cause_before_it_and_no_wait_is_not_told() {
    let told = Mutex::new(Vec::new());
    let tell = |wait: Wait| told.lock().unwrap().push((wait.cause, wait.time_ms, wait.detail));
    let take = || std::mem::take(&mut *told.lock().unwrap());

    let gate = gate(GateSettings { streams: 1, rpm: Some(1), ..GateSettings::default() });
    let (mut first, mut second) = (gate.call(0), gate.call(0));
    let permit = gate.enter(&mut first, &tell).await.unwrap();
    assert_eq!(take(), []);
    let mut waiting = Box::pin(gate.enter(&mut second, &tell));
    assert!(timeout(seconds(1.0), &mut waiting).await.is_err());
    assert_eq!(take(), [(WaitCause::Streams, None, "some".to_string())]);
    drop(permit);
    let permit = (&mut waiting).await.unwrap();
    assert_eq!(take(), [(WaitCause::Rate, Some(61_000), "some".to_string())]);
    drop(waiting);
    let failure = turned_away(429, Some(seconds(2.0)));
    assert!(matches!(gate.failed(&mut second, permit, failure), Verdict::Retry));
    // The one that was told to wait, one that comes meanwhile, and the rate after that.
    let mut third = gate.call(0);
    for call in [&mut second, &mut third] {
        assert!(timeout(seconds(1.0), gate.enter(call, &tell)).await.is_err());
        let told = take();
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].0, told[0].2.as_str()), (WaitCause::Cooldown, "some: too many requests"));
        assert!((1_000..2_300).contains(&told[0].1.unwrap()), "{told:?}");
    }
    // A failure of its own that says nothing of the provider's load.
    let gate = super::gate(streams(4));
    let mut broken = gate.call(0);
    let permit = gate.enter(&mut broken, &tell).await.unwrap();
    let failure = Failure { message: "internal".to_string(), ..turned_away(500, None) };
    assert!(matches!(gate.failed(&mut broken, permit, failure), Verdict::Retry));
    assert!(timeout(seconds(0.1), gate.enter(&mut broken, &tell)).await.is_err());
    let told = take();
    assert_eq!((told.len(), told[0].0, told[0].2.as_str()), (1, WaitCause::Retry, "some: internal"));
    // Without a hint the pause is ours: a retry to the one that failed, a cooldown to others.
    let gate = super::gate(streams(4));
    let mut failed = gate.call(0);
    let permit = gate.enter(&mut failed, &tell).await.unwrap();
    assert!(matches!(gate.failed(&mut failed, permit, turned_away(529, None)), Verdict::Retry));
    let mut other = gate.call(0);
    let (one, two) = tokio::join!(
        timeout(seconds(0.1), gate.enter(&mut failed, &tell)),
        timeout(seconds(0.1), gate.enter(&mut other, &tell)),
    );
    assert!(one.is_err() && two.is_err());
    let causes: Vec<_> = take().into_iter().map(|(cause, _, detail)| (cause, detail)).collect();
    assert_eq!(causes[0], (WaitCause::Retry, "some: overloaded".to_string()));
    assert_eq!(causes[1], (WaitCause::Cooldown, "some: overloaded".to_string()));
}

#[tokio::test(start_paused = true)]
async fn one_behind_those_that_wait_for_tokens_is_told_that_it_waits() {
    let gate = gate(GateSettings { streams: 8, tpm: Some(1000), ..GateSettings::default() });
    let (mut first, mut large, mut small) = (gate.call(900), gate.call(900), gate.call(10));
    let permit = gate.enter(&mut first, &silent).await.unwrap();
    let told = Mutex::new(Vec::new());
    let tell = |wait: Wait| told.lock().unwrap().push(wait.cause);
    let (begun, wait) = (Instant::now(), async {
        // Alone it could go at once; but one that is older cannot.
        drop(gate.enter(&mut small, &tell).await.unwrap());
    });
    let older = async {
        drop(gate.enter(&mut large, &silent).await.unwrap());
    };
    tokio::join!(older, wait);
    assert!(begun.elapsed() > seconds(60.0));
    assert_eq!(*told.lock().unwrap(), [WaitCause::Rate], "whose idle time would run meanwhile");
    drop(permit);
}
