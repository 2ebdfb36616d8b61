use super::*;

#[test]
fn a_tile_says_an_age_in_few_letters() {
    for (seconds, english, german) in [
        (0, "0 s", "0 s"),
        (119, "119 s", "119 s"),
        (120, "2 min", "2 min"),
        (7_199, "119 min", "119 min"),
        (7_200, "2 h", "2 h"),
        (172_800, "2 d", "2 T"),
    ] {
        let span = Duration::from_secs(seconds);
        assert_eq!(((EN.short_span)(span), (DE.short_span)(span)), (english.to_owned(), german.to_owned()));
    }
}

#[test]
fn one_shard_and_one_day_are_singular() {
    let when = html! { "then" };
    let said = |words: &StatusWords| {
        [
            (words.all_online)(1, Some("Up for 1 minute")),
            (words.all_online)(2, None),
            (words.all_online)(3, None),
            (words.some_offline)(1, 3, &when, "just now").into_string(),
            (words.some_offline)(2, 3, &when, "just now").into_string(),
            (words.availability_summary)("100%", 1),
            (words.availability_summary)("100%", 2),
            (words.affected)(1, 3),
            (words.affected)(2, 3),
            (words.shards_up)(1).to_owned(),
            (words.shards_up)(2).to_owned(),
        ]
    };
    let english = [
        "Its shard is online. Up for 1 minute.",
        "Both shards are online.",
        "All 3 shards are online.",
        "1 of 3 shards has been offline since then (just now). Servers on the other shards aren't affected.",
        "2 of 3 shards have been offline since then (just now). Servers on the other shards aren't affected.",
        "100% uptime over the recorded period (1 day).",
        "100% uptime over the recorded period (2 days).",
        "1 of 3 shards was down",
        "2 of 3 shards were down",
        "shard up",
        "shards up",
    ];
    assert_eq!(said(&EN), english);
    let german = [
        "Sein Shard ist online. Up for 1 minute.",
        "Beide Shards sind online.",
        "Alle 3 Shards sind online.",
        "1 von 3 Shards ist seit then (just now) offline. Server auf den anderen Shards sind nicht betroffen.",
        "2 von 3 Shards sind seit then (just now) offline. Server auf den anderen Shards sind nicht betroffen.",
        "100% Verfügbarkeit im erfassten Zeitraum (1 Tag).",
        "100% Verfügbarkeit im erfassten Zeitraum (2 Tage).",
        "1 von 3 Shards war offline",
        "2 von 3 Shards waren offline",
        "Shard online",
        "Shards online",
    ];
    assert_eq!(said(&DE), german);
}
