//! `/guilds`.

use bytes::Bytes;
use domain::saturating;
use domain::subscription::Plus;
use domain::{GuildEntry, InvitableGuild, Permission, PermissionSet, Role, Snowflake};
use serde::ser::{Serialize, SerializeMap, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::envelope;
use super::picture::PictureHost;

/// A guild with the bot, as the session's user sees it.
#[derive(Clone, Debug, serde::Serialize, ToSchema)]
#[schema(as = Guild)]
pub struct GuildData {
    /// Guild name.
    name: String,
    /// Guild ID.
    #[schema(value_type = String, pattern = "^[1-9][0-9]{0,18}$")]
    id: Snowflake,
    /// Always a URL: the guild's icon, or the provider's default one.
    #[schema(format = Uri)]
    icon: String,
    /// Member count.
    members: u64,
    /// The owner's user ID.
    #[schema(value_type = String, pattern = "^[1-9][0-9]{0,18}$")]
    owner: Snowflake,
    /// The user's role in the guild. Absent for plain members, who have none of the four.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    role: Option<RoleData>,
    /// Deprecated: always `true`, and will be removed.
    #[schema(deprecated)]
    service: bool,
    /// Premium status.
    plus: PlusData,
    /// The user's permissions in the guild.
    #[schema(value_type = Permissions)]
    permissions: PermissionsData,
}

/// The four roles, highest first. Plain members have none of them.
#[derive(Clone, Copy, Debug, serde::Serialize, ToSchema)]
#[schema(as = Role)]
pub enum RoleData {
    /// Owns the guild.
    Owner,
    /// Can manage the guild, or has a role mapped to `ERLC_MANAGER`.
    Manager,
    /// Has a role mapped to `ERLC_ADMIN` or `ADMIN`.
    Administrator,
    /// Has a role mapped to `ERLC_STAFF` or `MOD`.
    Moderator,
}

/// The premium status of a guild.
#[derive(Clone, Debug, serde::Serialize, ToSchema)]
#[schema(as = PlusStatus)]
pub struct PlusData {
    /// The subscription that covers the guild; empty values if there is none.
    plus: PlusRecord,
    /// Whether premium is active.
    active: bool,
}

/// A subscription as the API shows it.
#[derive(Clone, Debug, Default, serde::Serialize, ToSchema)]
pub struct PlusRecord {
    /// The ID of the subscriber; an empty string if there is none.
    userid: String,
    /// The IDs of the guilds it covers.
    #[schema(value_type = Vec<String>)]
    guilds: Vec<Snowflake>,
    /// How many guilds it can cover; informational.
    slots: u32,
}

/// A map that always has all keys, in the specification's order.
#[derive(Clone, Copy, Debug)]
struct PermissionsData(PermissionSet);

impl Serialize for PermissionsData {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(Permission::ALL.len()))?;
        for key in Permission::ALL {
            map.serialize_entry(key.name(), &self.0.has(key))?;
        }
        map.end()
    }
}

/// The schema of [`PermissionsData`].
struct Permissions;

impl PartialSchema for Permissions {
    fn schema() -> RefOr<Schema> {
        let description = format!("All {} permission keys, always present.", Permission::ALL.len());
        let object = ObjectBuilder::new().schema_type(Type::Object).description(Some(description));
        let with_keys = Permission::ALL.into_iter().fold(object, |object, key| {
            object.property(key.name(), ObjectBuilder::new().schema_type(Type::Boolean)).required(key.name())
        });
        with_keys.into()
    }
}

impl ToSchema for Permissions {}

impl GuildData {
    fn new(guild: GuildEntry, pictures: &PictureHost) -> Self {
        Self {
            name: guild.name,
            id: guild.id,
            icon: pictures.shown(&guild.icon),
            members: guild.members,
            owner: guild.owner,
            role: guild.role.map(RoleData::from),
            service: true,
            plus: guild.plus.into(),
            permissions: PermissionsData(guild.permissions),
        }
    }
}

impl From<Role> for RoleData {
    fn from(role: Role) -> Self {
        match role {
            Role::Owner => Self::Owner,
            Role::Manager => Self::Manager,
            Role::Administrator => Self::Administrator,
            Role::Moderator => Self::Moderator,
        }
    }
}

impl From<Plus> for PlusData {
    fn from(Plus { subscription, active }: Plus) -> Self {
        let record = subscription.map(|subscription| PlusRecord {
            userid: subscription.userid.to_string(),
            guilds: subscription.guilds,
            slots: subscription.slots,
        });
        Self { plus: record.unwrap_or_default(), active }
    }
}

/// The whole body of a list, and where each guild is in it.
#[derive(Clone, Debug, Default)]
pub struct GuildList {
    pub body: Bytes,
    /// The guilds by ID, each with the bytes of its entry.
    entries: Box<[(Snowflake, u32, u32)]>,
}

impl GuildList {
    pub fn new(guilds: Vec<GuildEntry>, pictures: &PictureHost) -> Self {
        let mut body = envelope::OPENING.to_vec();
        let mut entries = Vec::with_capacity(guilds.len());
        body.push(b'[');
        for guild in guilds {
            if body.last() != Some(&b'[') {
                body.push(b',');
            }
            let (id, start) = (guild.id, body.len());
            envelope::append(&mut body, &GuildData::new(guild, pictures));
            entries.push((id, offset(start), offset(body.len())));
        }
        body.push(b']');
        body.extend_from_slice(envelope::CLOSING);
        entries.sort_unstable();
        Self { body: body.into_boxed_slice().into(), entries: entries.into() }
    }

    /// The whole body of a response with one of the guilds, if it is on the list.
    pub fn one(&self, guild: Snowflake) -> Option<Bytes> {
        let index = self.entries.binary_search_by_key(&guild, |(id, ..)| *id).ok()?;
        let (_, start, end) = self.entries[index];
        let entry = self.body.get(start as usize..end as usize)?;
        Some([envelope::OPENING, entry, envelope::CLOSING].concat().into())
    }

    /// How much memory it takes besides the body.
    pub fn index_size(&self) -> usize {
        self.entries.len() * size_of::<(Snowflake, u32, u32)>()
    }
}

/// A list of 200 guilds is far from 4 GiB; beyond that, a guild would not be found.
fn offset(position: usize) -> u32 {
    saturating::to_u32(position)
}

/// A guild the user can add the bot to.
#[derive(Clone, Debug, serde::Serialize, ToSchema)]
#[schema(as = InvitableGuild)]
pub struct InvitableGuildData {
    /// Guild name.
    name: String,
    /// Guild ID.
    #[schema(value_type = String, pattern = "^[1-9][0-9]{0,18}$")]
    id: Snowflake,
    /// Always a URL: the guild's icon, or the provider's default one.
    #[schema(format = Uri)]
    icon: String,
    /// The provider's page for adding the bot to this guild.
    #[schema(format = Uri)]
    invite: String,
}

/// The whole body; `invite` returns the address where the bot is added to a guild.
pub fn invitable(
    guilds: Vec<InvitableGuild>,
    invite: impl Fn(Snowflake) -> String,
    pictures: &PictureHost,
) -> GuildList {
    let shown = guilds.into_iter().map(|InvitableGuild { name, id, icon }| InvitableGuildData {
        name,
        id,
        icon: pictures.shown(&icon),
        invite: invite(id),
    });
    GuildList { body: envelope::success(&shown.collect::<Vec<_>>()), entries: Box::default() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    fn pictures() -> PictureHost {
        PictureHost::new("https://cdn.example", "/0.png", "https://cdn.example")
    }

    fn shown(guild: GuildEntry) -> GuildData {
        GuildData::new(guild, &pictures())
    }

    fn guild() -> GuildEntry {
        GuildEntry {
            id: Snowflake::new(10).unwrap(),
            name: "plain".to_owned(),
            icon: "https://example.com/icon.png".into(),
            members: 5,
            owner: Snowflake::new(1).unwrap(),
            role: None,
            plus: Plus { subscription: None, active: false },
            permissions: PermissionSet::EMPTY,
        }
    }

    #[test]
    fn a_plain_member_has_no_role_key_at_all() {
        let shown = serde_json::to_value(shown(guild())).unwrap();
        assert!(shown.get("role").is_none());
        assert_eq!(shown["service"], true);
    }

    #[test]
    fn a_role_is_shown_by_its_name() {
        for role in [Role::Owner, Role::Manager, Role::Administrator, Role::Moderator] {
            let shown = serde_json::to_value(shown(GuildEntry { role: Some(role), ..guild() })).unwrap();
            assert_eq!(shown["role"], format!("{role:?}"));
        }
    }

    #[test]
    fn no_subscription_is_still_an_object() {
        let text = serde_json::to_string(&PlusData::from(guild().plus)).unwrap();
        assert_eq!(text, r#"{"plus":{"userid":"","guilds":[],"slots":0},"active":false}"#);
    }

    proptest! {
        #[test]
        fn all_20_keys_are_always_written_in_order(keys in proptest::collection::vec(select(&Permission::ALL), 0..40)) {
            let set: PermissionSet = keys.into_iter().collect();
            let text = serde_json::to_string(&PermissionsData(set)).unwrap();
            let expected = Permission::ALL.map(|key| format!("\"{}\":{}", key.name(), set.has(key)));
            prop_assert_eq!(text, format!("{{{}}}", expected.join(",")));
        }
    }

    #[test]
    fn a_list_is_an_envelope_around_the_guilds_in_their_order_and_each_can_be_shown_alone() {
        let other = GuildEntry { name: "other, [\"]".to_owned(), id: Snowflake::new(30).unwrap(), ..guild() };
        for guilds in [vec![], vec![guild()], vec![other.clone(), guild()]] {
            let expected: Vec<GuildData> = guilds.iter().cloned().map(shown).collect();
            let list = GuildList::new(guilds.clone(), &pictures());
            assert_eq!(list.body, envelope::success(&expected));
            for guild in &guilds {
                let alone = envelope::success(&shown(guild.clone()));
                assert_eq!(list.one(guild.id), Some(alone), "{}", guild.id);
            }
            assert_eq!(list.one(Snowflake::new(20).unwrap()), None);
        }
    }
}
