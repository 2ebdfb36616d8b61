"""The routes' responses."""

from typing import Generic, TypeVar

from pydantic import BaseModel

Data = TypeVar("Data")


class Envelope(BaseModel, Generic[Data]):
    code: int = 200
    message: str = "OK"
    data: Data


class User(BaseModel):
    username: str
    name: str
    id: str
    avatar: str


class Commit(BaseModel):
    sha: str
    message: str
    author: str
    timestamp: int


class Version(BaseModel):
    name: str
    branch: str
    commit: Commit


class Resources(BaseModel):
    memory: float


class Latency(BaseModel):
    response: float | None
    process: float


class ApiHealth(BaseModel):
    latency: Latency


class Shard(BaseModel):
    heartbeatSent: float
    heartbeatAcknowledged: float
    latency: float


class Uptime(BaseModel):
    readable: str
    epoch: int


class BotHealth(BaseModel):
    shards: dict[str, Shard]
    uptime: Uptime


class Health(BaseModel):
    api: ApiHealth
    bot: BotHealth


class Status(BaseModel):
    version: Version
    resources: Resources
    health: Health


class TeamMember(BaseModel):
    username: str
    name: str
    avatar: str
    discord_id: str
    role: str
    color: str
    category: str
    position: int


class Feedback(BaseModel):
    feedback: str
    rating: int
    timestamp: int
    submitter: User


class Subscription(BaseModel):
    userid: str
    guilds: list[str]
    slots: int


class Plus(BaseModel):
    plus: Subscription
    active: bool


class Permissions(BaseModel):
    ERLC_STAFF: bool
    SERVICE_PLUS_GUILD: bool
    QUALITY_ASSURANCE: bool
    ERLC_ADMIN: bool
    DOCWRITER: bool
    FOUNDER: bool
    ERLC_MANAGER: bool
    MANAGE_SERVER: bool
    EXECUTIVE: bool
    BOT_DEVELOPER: bool
    WEB_DEVELOPER: bool
    SETUP: bool
    SESSION_STARTER: bool
    MOD: bool
    SUPPORT: bool
    MANAGEMENT: bool
    ADMIN: bool
    SERVICE_STAFF: bool
    ERLC_LINKED: bool
    SERVICE_PLUS_MEMBER: bool


class Guild(BaseModel):
    name: str
    id: str
    icon: str
    members: int
    owner: str
    role: str | None = None
    service: bool
    plus: Plus
    permissions: Permissions
