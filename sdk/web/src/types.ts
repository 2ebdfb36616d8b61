// Short names for the types from the OpenAPI document that dashboards use.
import type { components } from "./schema.js";

type Schemas = components["schemas"];

export type User = Schemas["User"];
export type Guild = Schemas["Guild"];
export type InvitableGuild = Schemas["InvitableGuild"];
export type Role = Schemas["Role"];
export type Permissions = Schemas["Permissions"];
export type Me = Schemas["Me"];
export type SessionEntry = Schemas["Session"];
export type Status = Schemas["Status"];
export type Stats = Schemas["Stats"];
export type TeamMember = Schemas["TeamMember"];
export type FeedbackEntry = Schemas["FeedbackEntry"];
export type SignInOptions = Schemas["SignInOptions"];
export type NewSession = Schemas["NewSession"];
/** What can change, as named by the live stream. */
export type Topic = Schemas["UserLiveTopic"];

/** Every `data.error` that a dashboard can get from the service. */
export type ServiceErrorCode = { [Name in keyof Schemas]: Schemas[Name] extends { error: infer Code extends string } ? Code : never }[keyof Schemas];
