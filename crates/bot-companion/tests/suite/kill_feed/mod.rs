//! The service is killed (SIGKILL) over and over while two bots feed it, and started again on the same data. Nothing
//! acknowledged may be lost, nothing may be half-applied, and what a kill has cut off must recover without help.
//!
//! The *recorder* speaks the feed directly, one request at a time, sends what the generator of `crate::feed_model` makes up,
//! and compares what is shown with the model. The other bot reports through the Python SDK (`tests/system/pretend_bot.py`).
//! People sign in and read at the same time.
//!
//! `tests/system/kill-feed` runs this, and documents the options.

mod checks;
mod life;
mod recorder;
mod sdk_bot;
mod site;

use std::io::Write;
use std::time::Duration;

use life::Findings;
use recorder::{Recorder, Says};
use runtime::random::Random;
use sdk_bot::{SdkBot, Told};
use site::Site;
use tokio::time::{Instant, timeout};

use crate::feed_model::setting;
use crate::harness::PATIENCE;

/// After this many kills, both bots rest and the service has to show exactly what they sent.
const KILLS_PER_REPORT: u64 = 20;

fn say(text: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{text}").and_then(|()| out.flush()).unwrap();
}

/// The results, printed at the end, whatever happens.
struct Summary {
    seed: u64,
    kills: u64,
    findings: Findings,
    is_healed: bool,
}

impl Drop for Summary {
    fn drop(&mut self) {
        let Findings { lost, half_applied, other } = &self.findings;
        for finding in lost.iter().chain(half_applied).chain(other) {
            say(finding);
        }
        let healed = if self.is_healed { "healed" } else { "NOT healed" };
        let counts = format!("{} acknowledged writes lost, {} half-applied", lost.len(), half_applied.len());
        let line = format!("{} kills: {counts}, {healed}", self.kills);
        if !self.is_healed {
            say(&format!("again with KILL_SEED={}", self.seed));
        }
        match std::env::var_os("KILL_SUMMARY") {
            // The script prints it after the test runner's output.
            Some(file) => std::fs::write(file, line + "\n").unwrap(),
            None => say(&line),
        }
    }
}

#[tokio::test]
#[ignore = "takes minutes: run it with tests/system/kill-feed"]
async fn kills_lose_nothing_acknowledged_and_leave_nothing_half_applied() {
    let rounds = setting("KILL_ROUNDS").unwrap_or(200);
    let seed = setting("KILL_SEED").unwrap_or_else(|| Random::from_system().number() % (1 << 32));
    say(&format!("seed {seed}"));
    let mut summary = Summary { seed, kills: 0, findings: Findings::default(), is_healed: false };
    let mut site = Site::new().await;
    let mut recorder = Recorder::new(&site.key, seed);
    let mut sdk_bot = SdkBot::start(&site, seed + 1);
    let began = Instant::now();
    'all: for (says, until) in [(Says::Subscriptions, rounds / 2), (Says::Team, rounds)] {
        sdk_bot.detach().await;
        if says != recorder.says {
            hand_over(&mut site, &mut recorder, says).await;
        }
        sdk_bot.attach(says).await;
        while site.kills < until {
            let stop = until.min((site.kills / KILLS_PER_REPORT + 1) * KILLS_PER_REPORT);
            sdk_bot.live().await;
            while site.kills < stop && !summary.findings.any() {
                life::run(&mut site, &mut recorder, &mut summary.findings).await;
                summary.kills = site.kills;
            }
            let told = sdk_bot.rest().await;
            if !summary.findings.any() {
                heal(&mut site, &mut recorder, &told, &mut summary.findings).await;
            }
            report(&site, &recorder, rounds, &told, began);
            if summary.findings.any() {
                break 'all;
            }
        }
    }
    summary.is_healed = !summary.findings.any();
    assert!(summary.is_healed, "see above");
}

/// Nothing is sent any more, and nobody helps: what is shown must match the bots again.
async fn heal(site: &mut Site, recorder: &mut Recorder, told: &Told, findings: &mut Findings) {
    let mut service = site.spawn();
    service.listens().await;
    let client = service.client();
    life::check(site, recorder, &client, findings).await;
    if findings.any() {
        return;
    }
    let mut last = None;
    let equal = async {
        loop {
            last = told.difference(&client, &site.people, recorder).await;
            if last.is_none() {
                last = recorder.miscount(&client).await;
            }
            if last.is_none() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    if timeout(PATIENCE, equal).await.is_err() {
        findings.other.push(format!("not healed: {}", last.unwrap_or_default()));
    }
    service.kill();
}

/// The recorder takes over from the SDK's bot, which is detached.
async fn hand_over(site: &mut Site, recorder: &mut Recorder, says: Says) {
    let mut service = site.spawn();
    service.listens().await;
    recorder.hand_over(&service.client(), says).await;
    service.kill();
}

fn report(site: &Site, recorder: &Recorder, rounds: u64, told: &Told, began: Instant) {
    let recorder::Counts { acknowledged, cut, applied } = &recorder.counts;
    say(&format!(
        "{:4} of {rounds} kills ({} while starting) in {} s: {acknowledged} requests acknowledged, {cut} cut of which {applied} had \
         been applied; {} reads, {} sign-ins, {} changes through the SDK",
        site.kills,
        site.early,
        began.elapsed().as_secs(),
        site.reads,
        site.sign_ins,
        told.changes
    ));
}
