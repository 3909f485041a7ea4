use k8s_openapi::jiff::Timestamp;

use super::*;

fn note(uid: &str, what: What) -> Note {
    let at = PoolAt { key: Key::new("ns", "p"), uid: uid.to_owned() };
    Note::pool(&at, what, "text")
}

fn events() -> (Events, IntCounterVec) {
    let counts = IntCounterVec::new(prometheus::Opts::new("events", "e"), &["result"]).unwrap();
    (Events::new(counts.clone()), counts)
}

#[tokio::test]
async fn nobody_waits_for_an_event_and_what_does_not_fit_is_counted() {
    let (events, counts) = events();
    for _ in 0..QUEUE + 7 {
        events.tell(note("u", What::FailedCreate));
    }
    assert_eq!(counts.with_label_values(&["dropped"]).get(), 7);
    assert_eq!(events.next().await.what, What::FailedCreate);
    events.tell(note("u", What::PodEvicted));
    assert_eq!(counts.with_label_values(&["dropped"]).get(), 7);
}

#[tokio::test(start_paused = true)]
async fn what_fails_again_and_again_is_one_event_recounted_once_a_minute() {
    let mut book = Book::new(Instant::now());
    let failed = note("u", What::FailedCreate);
    assert_eq!(book.step(&failed, Instant::now()), Step::Create);
    book.written(&failed, Some("e".to_owned()));
    let mut writes = 0;
    for second in 1..=600 {
        tokio::time::advance(Duration::from_secs(1)).await;
        match book.step(&failed, Instant::now()) {
            Step::Recount(event, count) => {
                assert_eq!((event.as_str(), count), ("e", second + 1));
                writes += 1;
            }
            Step::Merge => {}
            other @ (Step::Create | Step::Drop) => panic!("{other:?}"),
        }
    }
    assert_eq!(writes, 10);
    tokio::time::advance(QUIET).await;
    assert_eq!(book.step(&failed, Instant::now()), Step::Create);
}

#[tokio::test(start_paused = true)]
async fn what_is_normal_is_not_written_again_while_it_goes_on() {
    let mut book = Book::new(Instant::now());
    let made = note("u", What::SuccessfulCreate);
    assert_eq!(book.step(&made, Instant::now()), Step::Create);
    book.written(&made, Some("e".to_owned()));
    for _ in 0..100 {
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(book.step(&made, Instant::now()), Step::Merge);
    }
    assert_eq!(book.step(&note("other", What::SuccessfulCreate), Instant::now()), Step::Create);
}

#[tokio::test(start_paused = true)]
async fn many_objects_in_trouble_at_once_are_told_of_at_a_bounded_rate() {
    let mut book = Book::new(Instant::now());
    let steps = |book: &mut Book, from: u32| {
        let all = (from..from + 1000).map(|n| note(&n.to_string(), What::FailedCreate));
        all.filter(|note| book.step(note, Instant::now()) == Step::Create).count()
    };
    assert_eq!(steps(&mut book, 0), 25);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(steps(&mut book, 1000), 10);
}

#[test]
fn trouble_is_told_when_it_begins_and_waiting_is_none() {
    let ready =
        |status: bool, reason| vec![Condition::new(ConditionType::Ready, status, reason, "why", Timestamp::now())];
    let serving = ready(true, Reason::Serving);
    let refused = ready(false, Reason::PodRefused);
    assert_eq!(trouble(&serving, &refused), Some((What::Trouble(Reason::PodRefused), "why".to_owned())));
    assert_eq!(trouble(&refused, &refused), None);
    assert!(trouble(&refused, &ready(false, Reason::QuotaExceeded)).is_some());
    assert_eq!(trouble(&refused, &serving), None);
    assert_eq!(trouble(&[], &ready(false, Reason::PoolCapacityExhausted)), None);
}
