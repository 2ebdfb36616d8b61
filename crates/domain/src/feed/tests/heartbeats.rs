use serde_json::{Value, json};

use super::super::*;
use super::{NOW, bytes, with};

#[test]
fn a_heartbeat_tells_ages() {
    let report = json!({"instance": "i-1", "started_at": 1_799_999_999.5, "memory": 1000, "library": "x", "shard_count": 2,
        "shards": [{"id": 0, "sent_ms_ago": 1500.5, "acknowledged_ms_ago": null, "latency": -1}, {"id": 1, "latency": 4.5}]});
    let read = heartbeat("key", &bytes(&report), NOW).unwrap();
    assert_eq!(read.started_at, Time::from_millis(1_799_999_999_500));
    assert_eq!(read.shards[0].sent, Some(Time::from_millis(1_799_999_998_500)));
    assert_eq!((read.shards[0].latency, read.shards[1].latency), (None, Some(4.5)));
    for (fields, reason) in [
        (json!({"instance": "a b"}), "`instance` must be 1 to 64 letters, digits, `_` or `-`."),
        (json!({"shard_count": 0}), "`shard_count` must be a whole number from 1 to 100000."),
        (json!({"shards": [{"id": 2}]}), "`shards`: `id` must be a shard's number below `shard_count`."),
        (
            json!({"shards": [{"id": 0, "sent_ms_ago": -1}]}),
            "`shards`: `sent_ms_ago` must be a number that is not negative, or null.",
        ),
        (json!({"started_at": null}), "`started_at` must be a time in epoch seconds."),
    ] {
        assert_eq!(heartbeat("key", &bytes(&with(report.clone(), &fields)), NOW).unwrap_err().to_string(), reason);
    }
}

#[test]
fn every_field_of_a_heartbeat_has_its_kind_and_its_bounds() {
    let report = json!({"instance": "i", "started_at": 5, "memory": 7, "shard_count": 2,
        "shards": [{"id": 1, "sent_ms_ago": 0, "acknowledged_ms_ago": 2500, "latency": 0}]});
    let read = |fields: &Value| heartbeat("key", &bytes(&with(report.clone(), fields)), NOW);
    let whole = read(&json!({})).unwrap();
    assert_eq!((whole.started_at, whole.memory, whole.shard_count), (Time::from_seconds(5), 7, 2));
    assert_eq!((whole.instance.key.as_str(), whole.instance.name.as_str()), ("key", "i"));
    let shard = &whole.shards[0];
    assert_eq!((shard.id, shard.sent, shard.latency), (1, Some(NOW), Some(0.0)));
    assert_eq!(shard.acknowledged, Some(Time::from_millis(NOW.millis() - 2_500)));
    for (memory, counted) in [(json!(null), 0), (json!(0), 0), (json!(1_u64 << 50), 1 << 50)] {
        assert_eq!(read(&json!({ "memory": memory })).unwrap().memory, counted);
    }
    assert_eq!(read(&json!({"shard_count": 100_000})).unwrap().shard_count, 100_000);
    for (leaving, read_as) in [(json!(null), false), (json!(false), false), (json!(true), true)] {
        assert_eq!(read(&json!({ "leaving": leaving })).unwrap().leaving, read_as);
    }
    let escaped = br#"{"inst\u0061nce":"\u0069","started_at":5.5,"shard_count":1,"shards":[]}"#;
    assert_eq!(heartbeat("key", escaped, NOW).unwrap().instance.name.as_str(), "i");

    let odd = [json!(true), json!("1"), json!([]), json!([1]), json!({}), json!({"a": 1}), json!(-1), json!(u64::MAX)];
    for (field, more) in [
        ("memory", [json!((1_u64 << 50) + 1), json!(1.5)]),
        ("shard_count", [json!(100_001), json!(null)]),
        ("started_at", [json!(null), json!(1e300)]),
    ] {
        for value in odd.iter().chain(&more) {
            assert!(
                read(&json!({ field: value })).unwrap_err().to_string().starts_with(&format!("`{field}`")),
                "{value}"
            );
        }
    }
    for value in [json!(1), json!([]), json!("true")] {
        assert!(read(&json!({ "leaving": value })).is_err(), "{value}");
    }
    for value in [json!(null), json!(1), json!([]), json!("")] {
        assert!(read(&json!({ "instance": value })).is_err(), "{value}");
    }
    let of_shard =
        |field: &str, value: &Value| read(&json!({"shards": [with(json!({"id": 0}), &json!({ field: value }))]}));
    for field in ["sent_ms_ago", "acknowledged_ms_ago", "latency"] {
        for value in &odd[..6] {
            let reason = of_shard(field, value).unwrap_err().to_string();
            assert!(reason.starts_with(&format!("`shards`: `{field}`")), "{reason}");
        }
        assert!(of_shard(field, &json!(1.5)).is_ok() && of_shard(field, &json!(null)).is_ok());
    }
    for value in odd.iter().chain(&[json!(null), json!(2), json!(1.5)]) {
        assert!(of_shard("id", value).is_err(), "{value}");
    }
    let long_ago = of_shard("sent_ms_ago", &json!(1e300)).unwrap();
    assert_eq!(long_ago.shards[0].sent, Some(Time::from_seconds(0)));

    let too_many = json!(vec![json!({"id": 0}); 100_001]);
    for shards in [json!(1), json!({}), json!([1]), too_many] {
        let reason = read(&json!({ "shards": shards })).unwrap_err().to_string();
        assert!(reason.starts_with("A heartbeat must be a JSON object with `shards`"), "{reason}");
    }
    assert!(read(&json!({"shards": vec![json!({"id": 0}); 100_000]})).is_ok());
    assert!(heartbeat("key", b"[]", NOW).unwrap_err().to_string().starts_with("A heartbeat must be"));
    assert!(heartbeat("key", b"{", NOW).unwrap_err().to_string().starts_with("The line is not valid JSON (column 1"));
}
