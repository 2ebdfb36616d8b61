// Generated from openapi.json by `npm run schema`. Do not edit.

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description The API's part of the health. */
        ApiHealth: {
            /** @description How long things took. */
            latency: components["schemas"]["Latency"];
        };
        BadRequestErrorData: {
            /**
             * @description What went wrong, to program against.
             * @enum {string}
             */
            error: "host_invalid" | "body_broken";
            /** @description Names the request in the service's log; the same as the header `X-Request-Id`. */
            request_id: string;
        };
        BodyTooLargeErrorData: {
            /**
             * @description What went wrong, to program against.
             * @enum {string}
             */
            error: "body_too_large";
            /** @description Names the request in the service's log; the same as the header `X-Request-Id`. */
            request_id: string;
        };
        /** @description The bot's part of the health. */
        BotHealth: {
            /** @description Shards by their number. */
            shards: {
                [key: string]: components["schemas"]["ShardRecord"];
            };
            /** @description Since when the bot runs. */
            uptime: components["schemas"]["Uptime"];
        };
        /** @description The data of an event `changed` of `GET /live`. */
        Changes: {
            /** @description What to read again. */
            changed: components["schemas"]["LiveTopic"][];
        };
        /** @description A commit. */
        Commit: {
            /** @description Its hash. */
            sha: string;
            /** @description What it changed. */
            message: string;
            /** @description Who made it. */
            author: string;
            /**
             * Format: int64
             * @description When, epoch seconds.
             */
            timestamp: number;
        };
        /** @description The session that asks. */
        CurrentSession: {
            /** @description Its name, for `DELETE /sessions/{id}`; it is no token. */
            id: string;
            /**
             * Format: int64
             * @description When it began, epoch seconds.
             */
            created: number;
            /**
             * Format: int64
             * @description When it was last used, epoch seconds: now.
             */
            last_seen: number;
            /**
             * Format: int64
             * @description When it ends if it is not used again, epoch seconds: the earlier of its idle and its absolute limit.
             */
            expires: number;
        };
        /** @description A feedback entry. */
        FeedbackEntry: {
            /** @description The message. */
            feedback: string;
            /**
             * Format: int32
             * @description Stars; only 4 and 5 are ever shown.
             */
            rating: number;
            /**
             * Format: int64
             * @description When it was submitted, epoch seconds.
             */
            timestamp: number;
            /** @description The author's last known profile. */
            submitter: components["schemas"]["User"];
        };
        /** @description All feedback. */
        FeedbackStats: {
            /**
             * Format: int64
             * @description How many entries there are, of any rating.
             */
            count: number;
            /**
             * Format: double
             * @description The average of all ratings, from 1 to 5, with two decimals at most; `null` if there are none.
             * @example 4.67
             */
            average: number | null;
        };
        /** @description A guild that has the bot, as the session's user sees it. */
        Guild: {
            /** @description Guild name. */
            name: string;
            /** @description Guild id. */
            id: string;
            /**
             * Format: uri
             * @description Always a URL: the guild's own icon, or the provider's default picture.
             */
            icon: string;
            /**
             * Format: int64
             * @description Member count.
             */
            members: number;
            /** @description The owner's user id. */
            owner: string;
            /** @description The session user's role. Absent for a plain member, who holds none of the four. */
            role?: components["schemas"]["Role"];
            /**
             * @deprecated
             * @description Deprecated: always `true`, and will be removed.
             */
            service: boolean;
            /** @description Premium status. */
            plus: components["schemas"]["PlusStatus"];
            /** @description What the session's user may do. */
            permissions: components["schemas"]["Permissions"];
        };
        GuildNotFoundErrorData: {
            /**
             * @description What went wrong, to program against.
             * @enum {string}
             */
            error: "guild_not_found" | "not_found";
            /** @description Names the request in the service's log; the same as the header `X-Request-Id`. */
            request_id: string;
        };
        HeadersTooLargeErrorData: {
            /**
             * @description What went wrong, to program against.
             * @enum {string}
             */
            error: "headers_too_large";
            /** @description Names the request in the service's log; the same as the header `X-Request-Id`. */
            request_id: string;
        };
        /** @description Health of the API and of the bot. */
        Health: {
            /** @description The API's part. */
            api: components["schemas"]["ApiHealth"];
            /** @description The bot's part. */
            bot: components["schemas"]["BotHealth"];
        };
        IdpBadGatewayErrorData: {
            /**
             * @description What went wrong, to program against.
             * @enum {string}
             */
            error: "idp_unavailable" | "idp_misconfigured";
            /** @description Names the request in the service's log; the same as the header `X-Request-Id`. */
            request_id: string;
        };
        IdpGatewayTimeoutErrorData: {
            /**
             * @description What went wrong, to program against.
             * @enum {string}
             */
            error: "idp_timeout";
            /** @description Names the request in the service's log; the same as the header `X-Request-Id`. */
            request_id: string;
        };
        IdpUnavailableErrorData: {
            /**
             * @description What went wrong, to program against.
             * @enum {string}
             */
            error: "overloaded" | "store_unavailable" | "timeout" | "idp_rate_limited";
            /** @description Names the request in the service's log; the same as the header `X-Request-Id`. */
            request_id: string;
        };
        InternalErrorData: {
            /**
             * @description What went wrong, to program against.
             * @enum {string}
             */
            error: "internal";
            /** @description Names the request in the service's log; the same as the header `X-Request-Id`. */
            request_id: string;
        };
        /** @description A guild to which the session's user could add the bot. */
        InvitableGuild: {
            /** @description Guild name. */
            name: string;
            /** @description Guild id. */
            id: string;
            /**
             * Format: uri
             * @description Always a URL: the guild's own icon, or the provider's default picture.
             */
            icon: string;
            /**
             * Format: uri
             * @description The provider's page on which the user adds the bot to this guild.
             */
            invite: string;
        };
        /** @description How long things took, in milliseconds. */
        Latency: {
            /**
             * Format: double
             * @description From the client's `Sent-Epoch` to the request's arrival; `null` without a usable one.
             */
            response: number | null;
            /**
             * Format: double
             * @description From the request's arrival to its answer.
             */
            process: number;
        };
        /**
         * @description What to read again: `GET /`, `/team`, `/feedback` or `/stats`.
         * @enum {string}
         */
        LiveTopic: "status" | "team" | "feedback" | "stats";
        LiveUnavailableErrorData: {
            /**
             * @description What went wrong, to program against.
             * @enum {string}
             */
            error: "overloaded" | "store_unavailable" | "timeout" | "draining";
            /** @description Names the request in the service's log; the same as the header `X-Request-Id`. */
            request_id: string;
        };
        /** @description The session's user, and the session. */
        Me: {
            /** @description The user, as of their last sign-in. */
            user: components["schemas"]["User"];
            /** @description The session that asks. */
            session: components["schemas"]["CurrentSession"];
            /** @description The permission keys that the team's roster grants the user. */
            team: components["schemas"]["TeamPermission"][];
        };
        MethodNotAllowedErrorData: {
            /**
             * @description What went wrong, to program against.
             * @enum {string}
             */
            error: "method_not_allowed";
            /** @description Names the request in the service's log; the same as the header `X-Request-Id`. */
            request_id: string;
        };
        /** @description A new session. */
        NewSession: {
            /** @description The session token, shown this once. Send it in the header `Token`. */
            token: string;
            /** @description Who signed in. */
            user: components["schemas"]["User"];
        };
        NotFoundErrorData: {
            /**
             * @description What went wrong, to program against.
             * @enum {string}
             */
            error: "not_found";
            /** @description Names the request in the service's log; the same as the header `X-Request-Id`. */
            request_id: string;
        };
        /** @description Nothing to tell: `{}`. */
        Nothing: Record<string, never>;
        /** @description All 20 permission keys, always present. */
        Permissions: {
            ERLC_STAFF: boolean;
            SERVICE_PLUS_GUILD: boolean;
            QUALITY_ASSURANCE: boolean;
            ERLC_ADMIN: boolean;
            DOCWRITER: boolean;
            FOUNDER: boolean;
            ERLC_MANAGER: boolean;
            MANAGE_SERVER: boolean;
            EXECUTIVE: boolean;
            BOT_DEVELOPER: boolean;
            WEB_DEVELOPER: boolean;
            SETUP: boolean;
            SESSION_STARTER: boolean;
            MOD: boolean;
            SUPPORT: boolean;
            MANAGEMENT: boolean;
            ADMIN: boolean;
            SERVICE_STAFF: boolean;
            ERLC_LINKED: boolean;
            SERVICE_PLUS_MEMBER: boolean;
        };
        /** @description A subscription as the API shows it. */
        PlusRecord: {
            /** @description The id of the user who pays; an empty string where nobody does. */
            userid: string;
            /** @description The ids of the guilds that it covers. */
            guilds: string[];
            /**
             * Format: int32
             * @description How many guilds it may cover; informational.
             */
            slots: number;
        };
        /** @description The premium status of a guild. */
        PlusStatus: {
            /** @description The subscription that covers the guild; empty values where there is none. */
            plus: components["schemas"]["PlusRecord"];
            /** @description Whether the premium status is active. */
            active: boolean;
        };
        RateLimitedErrorData: {
            /**
             * @description What went wrong, to program against.
             * @enum {string}
             */
            error: "rate_limited";
            /** @description Names the request in the service's log; the same as the header `X-Request-Id`. */
            request_id: string;
        };
        RequestTimeoutErrorData: {
            /**
             * @description What went wrong, to program against.
             * @enum {string}
             */
            error: "request_timeout";
            /** @description Names the request in the service's log; the same as the header `X-Request-Id`. */
            request_id: string;
        };
        /** @description What the bot uses. */
        Resources: {
            /**
             * Format: double
             * @description Megabytes (10^6) resident, summed over the bot's living processes.
             */
            memory: number;
        };
        /**
         * @description The four roles, highest first; a plain member holds none of them.
         * @enum {string}
         */
        Role: "Owner" | "Manager" | "Administrator" | "Moderator";
        /** @description One session of the user. */
        Session: {
            /** @description Its name, for `DELETE /sessions/{id}`; it is no token. */
            id: string;
            /**
             * Format: int64
             * @description When it began, epoch seconds.
             */
            created: number;
            /**
             * Format: int64
             * @description When it was last used, epoch seconds; may lag by a minute.
             */
            last_seen: number;
            /** @description The client's `User-Agent`, cut to 256 bytes. */
            user_agent: string;
            /** @description Whether it is the one that asks. */
            current: boolean;
        };
        SessionNotFoundErrorData: {
            /**
             * @description What went wrong, to program against.
             * @enum {string}
             */
            error: "session_not_found" | "not_found";
            /** @description Names the request in the service's log; the same as the header `X-Request-Id`. */
            request_id: string;
        };
        /** @description How a shard of the bot is. */
        ShardRecord: {
            /**
             * Format: double
             * @description Epoch seconds of the last heartbeat sent; 0 if never known.
             */
            heartbeatSent: number;
            /**
             * Format: double
             * @description Epoch seconds of the last heartbeat acknowledged; 0 if never known.
             */
            heartbeatAcknowledged: number;
            /**
             * Format: double
             * @description The latency in milliseconds.
             */
            latency: number;
        };
        SignInBadGatewayErrorData: {
            /**
             * @description What went wrong, to program against.
             * @enum {string}
             */
            error: "idp_unavailable" | "idp_misconfigured";
            /** @description Names the request in the service's log; the same as the header `X-Request-Id`. */
            request_id: string;
        };
        SignInBadRequestErrorData: {
            /**
             * @description What went wrong, to program against.
             * @enum {string}
             */
            error: "idp_code_missing" | "idp_code_malformed" | "idp_code_verifier_malformed" | "redirect_uri_unknown" | "host_invalid" | "body_broken";
            /** @description Names the request in the service's log; the same as the header `X-Request-Id`. */
            request_id: string;
            /**
             * Format: int64
             * @description How many redirect addresses are configured. Only with `redirect_uri_unknown`.
             */
            configured?: number;
        };
        SignInForbiddenErrorData: {
            /**
             * @description What went wrong, to program against.
             * @enum {string}
             */
            error: "scope_missing" | "user_blocked";
            /** @description Names the request in the service's log; the same as the header `X-Request-Id`. */
            request_id: string;
        };
        /** @description How to send a user to the identity provider. */
        SignInOptions: {
            /**
             * Format: uri
             * @description The provider's page on which the user consents. Add `response_type=code`, the three values below, a `state` and a PKCE
             *     challenge to its query.
             */
            authorize_url: string;
            /** @description The id of the application at the provider. */
            client_id: string;
            /** @description The scopes to ask for, separated by blanks. */
            scope: string;
            /**
             * Format: uri
             * @description Where the provider sends the user back to: the address that is configured for the origin that asks, else the first one.
             */
            redirect_uri: string;
        };
        SignInUnauthorizedErrorData: {
            /**
             * @description What went wrong, to program against.
             * @enum {string}
             */
            error: "idp_code_rejected";
            /** @description Names the request in the service's log; the same as the header `X-Request-Id`. */
            request_id: string;
        };
        /** @description How much there is of everything. */
        Stats: {
            /**
             * Format: int64
             * @description Guilds that have the bot.
             */
            guilds: number;
            /**
             * Format: int64
             * @description Their members, added up.
             */
            members: number;
            /**
             * Format: int64
             * @description The bot's shards, as `GET /` shows them.
             */
            shards: number;
            /** @description All feedback. */
            feedback: components["schemas"]["FeedbackStats"];
        };
        /** @description The status of the API and of the bot. */
        Status: {
            /** @description The running service's own build. */
            version: components["schemas"]["Version"];
            /** @description What the bot uses. */
            resources: components["schemas"]["Resources"];
            /** @description Health of the API and of the bot. */
            health: components["schemas"]["Health"];
        };
        StoppingUnavailableErrorData: {
            /**
             * @description What went wrong, to program against.
             * @enum {string}
             */
            error: "overloaded" | "timeout" | "draining";
            /** @description Names the request in the service's log; the same as the header `X-Request-Id`. */
            request_id: string;
        };
        StoreUnavailableErrorData: {
            /**
             * @description What went wrong, to program against.
             * @enum {string}
             */
            error: "overloaded" | "store_unavailable" | "timeout";
            /** @description Names the request in the service's log; the same as the header `X-Request-Id`. */
            request_id: string;
        };
        /** @description A member of the team that maintains the bot. */
        TeamMember: {
            /** @description Username. */
            username: string;
            /** @description Display name. */
            name: string;
            /**
             * Format: uri
             * @description Avatar URL.
             */
            avatar: string;
            /** @description The identity provider's user id. */
            discord_id: string;
            /** @description Role title. */
            role: string;
            /**
             * @description Colour of the role.
             * @example #5865F2
             */
            color: string;
            /** @description Position category: a lower-case word that the operator chose. */
            category: string;
            /**
             * Format: int64
             * @description Position within the category, ascending.
             */
            position: number;
        };
        /**
         * @description A permission key that says who someone is to the bot's team.
         * @enum {string}
         */
        TeamPermission: "QUALITY_ASSURANCE" | "DOCWRITER" | "FOUNDER" | "EXECUTIVE" | "BOT_DEVELOPER" | "WEB_DEVELOPER" | "SUPPORT" | "MANAGEMENT" | "SERVICE_STAFF";
        TokenUnauthorizedErrorData: {
            /**
             * @description What went wrong, to program against.
             * @enum {string}
             */
            error: "token_missing" | "token_invalid";
            /** @description Names the request in the service's log; the same as the header `X-Request-Id`. */
            request_id: string;
        };
        UnavailableErrorData: {
            /**
             * @description What went wrong, to program against.
             * @enum {string}
             */
            error: "overloaded" | "timeout";
            /** @description Names the request in the service's log; the same as the header `X-Request-Id`. */
            request_id: string;
        };
        /** @description Since when the bot runs. */
        Uptime: {
            /** @description "3 days, 4 hours", or "offline". */
            readable: string;
            /**
             * Format: int64
             * @description Epoch seconds at which the oldest living process started; 0 when offline.
             */
            epoch: number;
        };
        /** @description A user of the chat platform. */
        User: {
            /** @description The unique handle. */
            username: string;
            /** @description The display name, or the username where there is none. */
            name: string;
            /**
             * @description The provider's id, numeric text.
             * @example 80351110224678912
             */
            id: string;
            /**
             * Format: uri
             * @description Always a URL: the user's own picture, or the provider's default one.
             */
            avatar: string;
        };
        /** @description The data of an event of `GET /me/live`. */
        UserChanges: {
            /** @description What to read again. The event `changed` has it; the event `ended`, the last one, does not. */
            changed?: components["schemas"]["UserLiveTopic"][];
        };
        /**
         * @description What to read again: `GET /`, `/team`, `/feedback`, `/stats`, `/guilds` and below it, `/sessions` or `/me`.
         * @enum {string}
         */
        UserLiveTopic: "status" | "team" | "feedback" | "stats" | "guilds" | "sessions" | "me";
        /** @description The running version of the service. */
        Version: {
            /** @description The release. */
            name: string;
            /** @description The branch it was built from. */
            branch: string;
            /** @description The commit it was built from. */
            commit: components["schemas"]["Commit"];
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
