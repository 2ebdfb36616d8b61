//! The guild list: who is where with which role, and how fresh it is.

use bot_companion::idp::Endpoint;
use bot_companion::idp::sandbox::people::{HARBOUR, OWNER};

use crate::harness::{TestApp, guild};

#[tokio::test]
async fn a_user_sees_the_guilds_that_they_share_with_the_bot() {
    let app = TestApp::start().await;
    app.bot_says([bot_companion::domain::Change::Guild(guild(HARBOUR.id, HARBOUR.name, OWNER))]).await;
    let owner = app.user("owner").await;
    let guilds = owner.guilds().await;
    assert_eq!(guilds.len(), 1);
    assert_eq!(guilds[0]["role"], "Owner");
    assert_eq!(guilds[0]["service"], true);
    assert_eq!(guilds[0]["permissions"].as_object().unwrap().len(), 20);
    assert_eq!(app.sandbox.calls(Endpoint::Guilds), 1);
}

#[tokio::test]
async fn a_user_in_no_guild_gets_an_empty_list() {
    let app = TestApp::start().await;
    assert_eq!(app.user("newcomer").await.guilds().await, Vec::<serde_json::Value>::new());
}
