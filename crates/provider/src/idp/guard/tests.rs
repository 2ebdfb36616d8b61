use domain::Time;
use runtime::client_key::ClientKey;

use super::*;
use crate::idp::circuit_breaker::FAILURES;

const LIMIT: Duration = Duration::from_secs(12);

fn guard(budget: u32) -> (Guard, Clock) {
    let clock = Clock::manual(Time::from_seconds(1_700_000_000));
    (Guard::new(clock.clone(), budget), clock)
}

/// Someone who signs in from this network.
fn stranger(network: u16) -> Caller {
    let [high, low] = network.to_be_bytes();
    Caller::SignIn(Some(ClientKey::network_of([198, high, low, 1].into())))
}

fn end(guard: &Guard, endpoint: Endpoint, outcome: CallOutcome) {
    guard.enter(endpoint, stranger(0), LIMIT).unwrap().settle(outcome);
}

fn refused(guard: &Guard, endpoint: Endpoint) -> Option<IdpErrorKind> {
    guard.enter(endpoint, stranger(0), LIMIT).err().map(|error| {
        assert!(!error.code_spent, "nothing was sent");
        error.kind
    })
}

fn open(guard: &Guard, endpoint: Endpoint) {
    for _ in 0..FAILURES {
        end(guard, endpoint, CallOutcome::Failed);
    }
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn opens_after_five_failures_in_a_row_and_only_there() {
    let (guard, _) = guard(1000);
    for _ in 0..4 {
        end(&guard, Endpoint::Token, CallOutcome::Failed);
    }
    end(&guard, Endpoint::Token, CallOutcome::Healthy);
    for _ in 0..4 {
        end(&guard, Endpoint::Token, CallOutcome::Failed);
    }
    assert_eq!(refused(&guard, Endpoint::Token), None);
    end(&guard, Endpoint::Token, CallOutcome::Failed);
    assert_eq!(refused(&guard, Endpoint::Token), Some(IdpErrorKind::CircuitOpen(secs(5))));
    assert_eq!(refused(&guard, Endpoint::Guilds), None);
}

#[test]
fn every_kind_of_answer_that_is_not_a_failure_keeps_it_closed() {
    for outcome in
        [CallOutcome::Healthy, CallOutcome::Denied, CallOutcome::Limited { span: Duration::ZERO, global: false }]
    {
        let (guard, _) = guard(1000);
        for _ in 0..50 {
            end(&guard, Endpoint::User, outcome);
        }
        assert_eq!(refused(&guard, Endpoint::User), None, "{outcome:?}");
    }
}

#[test]
fn pauses_double_up_to_a_minute() {
    let (guard, clock) = guard(1000);
    open(&guard, Endpoint::Token);
    for pause in [5, 10, 20, 40, 60, 60] {
        clock.advance(Duration::from_millis(pause * 1000 - 1));
        assert_eq!(
            refused(&guard, Endpoint::Token),
            Some(IdpErrorKind::CircuitOpen(Duration::from_millis(1))),
            "{pause}"
        );
        clock.advance(Duration::from_millis(1));
        end(&guard, Endpoint::Token, CallOutcome::Failed);
    }
    clock.advance(secs(60));
    end(&guard, Endpoint::Token, CallOutcome::Healthy);
    open(&guard, Endpoint::Token);
    clock.advance(secs(5));
    assert_eq!(refused(&guard, Endpoint::Token), None, "a success starts the pauses anew");
}

#[test]
fn half_open_lets_one_probe_through() {
    let (guard, clock) = guard(1000);
    open(&guard, Endpoint::Token);
    clock.advance(secs(5));
    let probe = guard.enter(Endpoint::Token, stranger(0), LIMIT).unwrap();
    assert_eq!(refused(&guard, Endpoint::Token), Some(IdpErrorKind::CircuitOpen(Duration::ZERO)));
    probe.settle(CallOutcome::Healthy);
    assert_eq!(refused(&guard, Endpoint::Token), None);
    assert_eq!(refused(&guard, Endpoint::Token), None);
}

#[test]
fn a_probe_that_was_dropped_early_makes_room_for_the_next() {
    let (guard, clock) = guard(1000);
    open(&guard, Endpoint::Token);
    clock.advance(secs(5));
    drop(guard.enter(Endpoint::Token, stranger(0), LIMIT).unwrap());
    let next = guard.enter(Endpoint::Token, stranger(0), LIMIT).unwrap();
    clock.advance(LIMIT);
    drop(next);
    assert_eq!(
        refused(&guard, Endpoint::Token),
        Some(IdpErrorKind::CircuitOpen(secs(10))),
        "it was given up: a failed probe"
    );
}

#[test]
fn calls_that_were_given_up_count_as_failures() {
    let (guard, clock) = guard(1000);
    for _ in 0..20 {
        drop(guard.enter(Endpoint::Token, stranger(0), LIMIT).unwrap());
    }
    assert_eq!(refused(&guard, Endpoint::Token), None);
    let calls: Vec<_> = (0..FAILURES).map(|_| guard.enter(Endpoint::Token, stranger(0), LIMIT).unwrap()).collect();
    clock.advance(LIMIT);
    drop(calls);
    assert_eq!(refused(&guard, Endpoint::Token), Some(IdpErrorKind::CircuitOpen(secs(5))));
}

#[test]
fn late_failures_do_not_prolong_the_pause() {
    let (guard, clock) = guard(1000);
    let late = guard.enter(Endpoint::Token, stranger(0), LIMIT).unwrap();
    open(&guard, Endpoint::Token);
    clock.advance(secs(4));
    late.settle(CallOutcome::Failed);
    clock.advance(secs(1));
    let late = guard.enter(Endpoint::Token, stranger(0), LIMIT).unwrap();
    late.settle(CallOutcome::Healthy);
    assert_eq!(refused(&guard, Endpoint::Token), None);
}

#[test]
fn a_late_failure_does_not_speak_for_the_probe() {
    let (guard, clock) = guard(1000);
    let late = guard.enter(Endpoint::Token, stranger(0), LIMIT).unwrap();
    open(&guard, Endpoint::Token);
    clock.advance(secs(5));
    let probe = guard.enter(Endpoint::Token, stranger(0), LIMIT).unwrap();
    late.settle(CallOutcome::Failed);
    clock.advance(secs(60));
    assert_eq!(
        refused(&guard, Endpoint::Token),
        Some(IdpErrorKind::CircuitOpen(Duration::ZERO)),
        "one probe at a time"
    );
    probe.settle(CallOutcome::Healthy);
    assert_eq!(refused(&guard, Endpoint::Token), None);
}

#[test]
fn holds_reach_as_far_as_the_limit_does() {
    use Endpoint::{Guilds, Revoke, Token, User};
    for (hit, global, held) in [
        (Token, true, vec![Token, User, Guilds, Revoke]),
        (Guilds, true, vec![Token, User, Guilds, Revoke]),
        (Token, false, vec![Token]),
        (Revoke, false, vec![Revoke]),
        (User, false, vec![]),
        (Guilds, false, vec![]),
    ] {
        let (guard, clock) = guard(1000);
        end(&guard, hit, CallOutcome::Limited { span: secs(30), global });
        clock.advance(secs(10));
        for endpoint in [Token, User, Guilds, Revoke] {
            let expected = held.contains(&endpoint).then_some(IdpErrorKind::BackingOff(secs(20)));
            assert_eq!(refused(&guard, endpoint), expected, "{hit:?} {global} {endpoint:?}");
        }
        clock.advance(secs(20));
        for endpoint in [Token, User, Guilds, Revoke] {
            assert_eq!(refused(&guard, endpoint), None);
        }
    }
}

#[test]
fn a_shorter_limit_does_not_cut_a_longer_one() {
    let (guard, _) = guard(1000);
    let second = guard.enter(Endpoint::Token, stranger(0), LIMIT).unwrap();
    end(&guard, Endpoint::Token, CallOutcome::Limited { span: secs(30), global: true });
    second.settle(CallOutcome::Limited { span: secs(1), global: false });
    assert_eq!(refused(&guard, Endpoint::Token), Some(IdpErrorKind::BackingOff(secs(30))));
}

#[test]
fn the_budget_stops_everything_until_enough_has_aged_out() {
    let (guard, clock) = guard(4);
    let spend = |endpoint, caller, outcome| guard.enter(endpoint, caller, LIMIT).unwrap().settle(outcome);
    spend(Endpoint::User, stranger(1), CallOutcome::Denied);
    clock.advance(secs(100));
    spend(Endpoint::User, stranger(2), CallOutcome::Limited { span: Duration::ZERO, global: false });
    spend(Endpoint::Token, stranger(3), CallOutcome::Blocked);
    spend(Endpoint::Guilds, Caller::User, CallOutcome::Denied);
    // The first one was at 0 s, in the slot that expires at 600 s.
    assert_eq!(refused(&guard, Endpoint::Revoke), Some(IdpErrorKind::BackingOff(secs(500))));
    assert!(guard.enter(Endpoint::Guilds, Caller::User, LIMIT).is_err());
    clock.advance(secs(500));
    assert_eq!(refused(&guard, Endpoint::Revoke), None);
    spend(Endpoint::User, stranger(4), CallOutcome::Denied);
    assert_eq!(refused(&guard, Endpoint::User), Some(IdpErrorKind::BackingOff(secs(100))));
}

#[test]
fn the_budget_forgets_over_long_silence_and_survives_floods() {
    let (guard, clock) = guard(2);
    let enter = |network| guard.enter(Endpoint::User, stranger(network), LIMIT).unwrap();
    let calls: Vec<_> = (0..1000).map(enter).collect();
    for call in calls {
        call.settle(CallOutcome::Denied);
    }
    assert_eq!(refused(&guard, Endpoint::User), Some(IdpErrorKind::BackingOff(secs(600))));
    clock.advance(secs(600 * 24 * 365));
    assert_eq!(refused(&guard, Endpoint::User), None);
    let (none, _) = self::guard(0);
    assert_eq!(refused(&none, Endpoint::User), None);
}

/// Makes refused calls on a user's behalf until none is let through, and returns how many were.
fn spend(guard: &Guard, caller: Caller) -> usize {
    let calls = std::iter::from_fn(|| guard.enter(Endpoint::Guilds, caller, LIMIT).ok());
    calls.take(10_000).map(|call| call.settle(CallOutcome::Denied)).count()
}

#[test]
fn answers_that_are_no_refusals_cost_nothing() {
    let (guard, _) = guard(1000);
    for outcome in [CallOutcome::Healthy, CallOutcome::Failed].into_iter().cycle().take(100) {
        guard.enter(Endpoint::Guilds, Caller::User, LIMIT).unwrap().settle(outcome);
    }
    assert_eq!(spend(&guard, Caller::User), 750);
}

#[test]
fn the_last_quarter_of_the_budget_is_for_signing_in() {
    let (guard, _) = guard(1000);
    assert_eq!(spend(&guard, Caller::User), 750);
    for _ in 0..250 {
        assert_eq!(refused(&guard, Endpoint::Token), None);
        end(&guard, Endpoint::User, CallOutcome::Denied);
    }
    assert!(matches!(refused(&guard, Endpoint::Token), Some(IdpErrorKind::BackingOff(_))), "that is all");
}

#[test]
fn strangers_leave_users_a_quarter_of_the_budget_and_one_network_leaves_strangers_more() {
    let (guard, clock) = guard(1000);
    assert_eq!(spend(&guard, stranger(0)), 250, "one network, however long it tries");
    assert!(guard.state().can_sign_in);
    let all: usize = (1..=1_000).map(|network| spend(&guard, stranger(network))).sum();
    assert_eq!(all, 500, "one for each further network");
    assert!(!guard.state().can_sign_in);
    assert_eq!(spend(&guard, Caller::User), 250, "what is left is the users'");
    clock.advance(secs(600));
    assert_eq!(spend(&guard, stranger(0)), 250, "all is forgotten after ten minutes");
}

#[test]
fn a_hundred_networks_with_ten_odd_codes_each_do_not_stop_the_others() {
    let (guard, _) = guard(1000);
    let mut calls = 0;
    for network in (1..=102).flat_map(|network| [network; 10]) {
        if let Ok(call) = guard.enter(Endpoint::Token, stranger(network), LIMIT) {
            call.settle(CallOutcome::Blocked);
            calls += 1;
        }
    }
    assert_eq!(calls, 25 * 10 + 77, "a quarter of the budget, and then one of each network");
    for _ in 0..1_000 {
        guard.enter(Endpoint::Token, stranger(1_000), LIMIT).unwrap().settle(CallOutcome::Healthy);
    }
}

/// Spends the quarter that is left to networks that caused refusals.
fn spend_the_refused_networks_quarter(guard: &Guard) {
    assert_eq!(spend(guard, stranger(0)), 250);
    assert!(refused(guard, Endpoint::Token).is_some(), "it is held back now");
}

#[test]
fn a_429_is_not_held_against_the_network_that_met_it() {
    let (guard, clock) = guard(1000);
    spend_the_refused_networks_quarter(&guard);
    let met = guard.enter(Endpoint::Token, stranger(1), LIMIT).unwrap();
    met.settle(CallOutcome::Limited { span: secs(1), global: false });
    clock.advance(secs(1));
    let denied = guard.enter(Endpoint::Token, stranger(1), LIMIT).unwrap();
    denied.settle(CallOutcome::Denied);
    assert!(guard.enter(Endpoint::Token, stranger(1), LIMIT).is_err(), "a refusal is");
}

#[test]
fn who_has_exchanged_a_code_is_not_stopped_because_of_their_network() {
    let (guard, _) = guard(1000);
    spend_the_refused_networks_quarter(&guard);
    assert!(guard.enter(Endpoint::User, stranger(0), LIMIT).is_ok());
}

#[test]
fn a_network_without_limits_is_bounded_by_the_share_of_all_sign_ins_alone() {
    let (guard, _) = guard(1000);
    spend_the_refused_networks_quarter(&guard);
    let free = Caller::SignIn(None);
    assert_eq!(spend(&guard, free), 500, "three quarters with those of the others");
    assert!(guard.enter(Endpoint::Token, stranger(1), LIMIT).is_err());
}

#[test]
fn an_edge_that_turns_odd_codes_away_does_not_close_the_sign_in() {
    let (guard, _) = guard(1000);
    for _ in 0..50 {
        end(&guard, Endpoint::Token, CallOutcome::Blocked);
    }
    assert_eq!(refused(&guard, Endpoint::Token), None);
    for _ in 0..FAILURES {
        end(&guard, Endpoint::User, CallOutcome::Blocked);
    }
    assert!(refused(&guard, Endpoint::User).is_some());
}
