use domain::Time;

use super::*;
use crate::config::{Config, Layer};

fn limits(settings: &str) -> (RateLimits, Clock) {
    let nothing = std::iter::empty::<(String, String)>();
    let config = Config::load_over(&[Layer::new("test", settings)], None, nothing).unwrap();
    let clock = Clock::manual(Time::from_seconds(1));
    (RateLimits::new(&config.limits, &config.feed, clock.clone()), clock)
}

/// Sends this many requests, in turn from this many /64s of a network, and returns how many are allowed.
fn allowed(limits: &RateLimits, network: &str, subnets: u32, requests: u32) -> usize {
    let first: u128 = network.parse::<std::net::Ipv6Addr>().unwrap().to_bits();
    let client = |number: u32| std::net::Ipv6Addr::from_bits(first + (u128::from(number % subnets) << 64) + 7).into();
    (0..requests).filter(|number| limits.request(client(*number), limits.clock.ticks()).is_ok()).count()
}

const TWO_AT_ONCE: &str = "[limits]\nrequests_per_second = 1\nrequests_burst = 2";

#[test]
fn a_56_may_send_four_times_as_much_as_a_64_and_a_48_eight_times() {
    let (limits, clock) = limits(TWO_AT_ONCE);
    for (network, subnets, at_once, per_second) in [
        ("2001:db8:1::", 1, 2, 1),
        ("2001:db8:2::", 4, 8, 4),
        ("2001:db8:3::", 32, 8, 4),
        ("2001:db8:4::", 256, 8, 4),
        ("2001:db8:5::", 512, 16, 8),
        ("2001:db8:6::", 2_048, 16, 8),
    ] {
        assert_eq!(allowed(&limits, network, subnets, 3_000), at_once, "{subnets}");
        for _ in 0..3 {
            clock.advance(Duration::from_secs(1));
            assert_eq!(allowed(&limits, network, subnets, 3_000), per_second, "{subnets}");
        }
    }
    assert_eq!(allowed(&limits, "2001:db8:7::", 1, 10), 2, "another /48 has its own");
}

#[test]
fn what_one_level_refuses_costs_nothing_at_the_others() {
    let (limits, clock) = limits(TWO_AT_ONCE);
    assert_eq!(allowed(&limits, "2001:db8::", 1, 1_000), 2, "one /64 that sends far too much");
    assert_eq!(allowed(&limits, "2001:db8:0:1::", 255, 1_000), 6, "leaves its neighbours what is theirs");
    assert_eq!(allowed(&limits, "2001:db8:0:80::", 1, 1_000), 0, "now the /56 has nothing left");
    clock.advance(Duration::from_millis(500));
    // The /56 has two again, and this /64 has lost nothing by being refused.
    assert_eq!(allowed(&limits, "2001:db8:0:80::", 1, 1_000), 2);
    assert_eq!(allowed(&limits, "2001:db8:0:100::", 1, 1_000), 2, "nor has the /48");
}

#[test]
fn a_refused_sign_in_counts_at_every_level_and_is_given_back_at_every_level() {
    let (limits, _) = limits("[limits]\nrefused_sign_ins_per_minute = 10");
    let client = |subnet: u16| std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, subnet, 0, 0, 0, 1).into();
    let reserve =
        || -> Vec<_> { (0..1_000).filter_map(|turn| limits.reserve_sign_in(client(turn % 256)).ok()).collect() };
    let taken = reserve();
    assert_eq!(taken.len(), 40);
    for reservation in taken {
        limits.refund_sign_in(reservation);
    }
    assert_eq!(reserve().len(), 40, "all were given back, and are not now");
    assert_eq!(reserve().len(), 0);
    let keys = (0..10_000).filter(|turn| limits.unknown_key(client(turn % 256)).is_ok()).count();
    assert_eq!(keys, 240, "guessed keys count the same way");
}

#[test]
fn ipv4_clients_have_no_neighbours_and_exempt_ones_no_limit() {
    let (limits, _) = limits(&format!("{TWO_AT_ONCE}\nexempt = [\"2001:db8:0:1::/64\"]"));
    for last in 0..=255 {
        let client = IpAddr::from([192, 0, 2, last]);
        let count = (0..10).filter(|_| limits.request(client, limits.clock.ticks()).is_ok()).count();
        assert_eq!(count, 2);
    }
    assert_eq!(allowed(&limits, "2001:db8:0:1::", 1, 1_000), 1_000);
    assert_eq!(allowed(&limits, "2001:db8::", 1, 1_000), 2, "nor do they use up what is their network's");
}
