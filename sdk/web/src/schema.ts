// Generated from openapi.json by `npm run schema`. Do not edit.

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description The API's health. */
        ApiHealth: {
            /** @description Latencies. */
            latency: components["schemas"]["Latency"];
        };
        BadRequestErrorData: {
            /**
             * @description What went wrong. Stable: use it in programs.
             * @enum {string}
             */
            error: "host_invalid" | "body_broken";
            /** @description Identifies the request in the service's log; the same as the `X-Request-Id` header. */
            request_id: string;
        };
        BodyTooLargeErrorData: {
            /**
             * @description What went wrong. Stable: use it in programs.
             * @enum {string}
             */
            error: "body_too_large";
            /** @description Identifies the request in the service's log; the same as the `X-Request-Id` header. */
            request_id: string;
        };
        /** @description The bot's health. */
        BotHealth: {
            /** @description The shards by number. */
            shards: {
                [key: string]: components["schemas"]["ShardRecord"];
            };
            /** @description How long the bot has been running. */
            uptime: components["schemas"]["Uptime"];
        };
        /** @description The data of a `changed` event of `GET /live`. */
        Changes: {
            /** @description What to fetch again. */
            changed: components["schemas"]["LiveTopic"][];
        };
        /** @description A commit. */
        Commit: {
            /** @description The commit hash. */
            sha: string;
            /** @description The commit message. */
            message: string;
            /** @description The author. */
            author: string;
            /**
             * Format: int64
             * @description When it was committed, in epoch seconds.
             */
            timestamp: number;
        };
        /** @description The calling session. */
        CurrentSession: {
            /** @description Its ID, for `DELETE /sessions/{id}`. It is not the token. */
            id: string;
            /**
             * Format: int64
             * @description When the user signed in, in epoch seconds.
             */
            created: number;
            /**
             * Format: int64
             * @description When it was last used, in epoch seconds: now.
             */
            last_seen: number;
            /**
             * Format: int64
             * @description When it expires if it is not used again, in epoch seconds: its idle limit or its absolute limit, if that comes first.
             */
            expires: number;
        };
        /** @description A feedback entry. */
        FeedbackEntry: {
            /** @description The message. */
            feedback: string;
            /**
             * Format: int32
             * @description Stars: 4 or 5.
             */
            rating: number;
            /**
             * Format: int64
             * @description When it was submitted, in epoch seconds.
             */
            timestamp: number;
            /** @description The author's last known profile. */
            submitter: components["schemas"]["User"];
        };
        /** @description Totals over all feedback. */
        FeedbackStats: {
            /**
             * Format: int64
             * @description The number of entries with any rating.
             */
            count: number;
            /**
             * Format: double
             * @description The average rating, from 1 to 5, with at most two decimals; `null` if there are no ratings.
             * @example 4.67
             */
            average: number | null;
        };
        /** @description A guild with the bot, as the session's user sees it. */
        Guild: {
            /** @description Guild name. */
            name: string;
            /** @description Guild ID. */
            id: string;
            /**
             * Format: uri
             * @description Always a URL: the guild's icon, or the provider's default one.
             */
            icon: string;
            /**
             * Format: int64
             * @description Member count.
             */
            members: number;
            /** @description The owner's user ID. */
            owner: string;
            /** @description The user's role in the guild. Absent for plain members, who have none of the four. */
            role?: components["schemas"]["Role"];
            /**
             * @deprecated
             * @description Deprecated: always `true`, and will be removed.
             */
            service: boolean;
            /** @description Premium status. */
            plus: components["schemas"]["PlusStatus"];
            /** @description The user's permissions in the guild. */
            permissions: components["schemas"]["Permissions"];
        };
        GuildNotFoundErrorData: {
            /**
             * @description What went wrong. Stable: use it in programs.
             * @enum {string}
             */
            error: "guild_not_found" | "not_found";
            /** @description Identifies the request in the service's log; the same as the `X-Request-Id` header. */
            request_id: string;
        };
        HeadersTooLargeErrorData: {
            /**
             * @description What went wrong. Stable: use it in programs.
             * @enum {string}
             */
            error: "headers_too_large";
            /** @description Identifies the request in the service's log; the same as the `X-Request-Id` header. */
            request_id: string;
        };
        /** @description The health of the API and the bot. */
        Health: {
            /** @description The API's health. */
            api: components["schemas"]["ApiHealth"];
            /** @description The bot's health. */
            bot: components["schemas"]["BotHealth"];
        };
        IdpBadGatewayErrorData: {
            /**
             * @description What went wrong. Stable: use it in programs.
             * @enum {string}
             */
            error: "idp_unavailable" | "idp_misconfigured";
            /** @description Identifies the request in the service's log; the same as the `X-Request-Id` header. */
            request_id: string;
        };
        IdpGatewayTimeoutErrorData: {
            /**
             * @description What went wrong. Stable: use it in programs.
             * @enum {string}
             */
            error: "idp_timeout";
            /** @description Identifies the request in the service's log; the same as the `X-Request-Id` header. */
            request_id: string;
        };
        IdpUnavailableErrorData: {
            /**
             * @description What went wrong. Stable: use it in programs.
             * @enum {string}
             */
            error: "overloaded" | "store_unavailable" | "timeout" | "idp_rate_limited";
            /** @description Identifies the request in the service's log; the same as the `X-Request-Id` header. */
            request_id: string;
        };
        InternalErrorData: {
            /**
             * @description What went wrong. Stable: use it in programs.
             * @enum {string}
             */
            error: "internal";
            /** @description Identifies the request in the service's log; the same as the `X-Request-Id` header. */
            request_id: string;
        };
        /** @description A guild the user can add the bot to. */
        InvitableGuild: {
            /** @description Guild name. */
            name: string;
            /** @description Guild ID. */
            id: string;
            /**
             * Format: uri
             * @description Always a URL: the guild's icon, or the provider's default one.
             */
            icon: string;
            /**
             * Format: uri
             * @description The provider's page for adding the bot to this guild.
             */
            invite: string;
        };
        /** @description Latencies in milliseconds. */
        Latency: {
            /**
             * Format: double
             * @description From the client's `Sent-Epoch` to the request's arrival; `null` without a usable `Sent-Epoch`.
             */
            response: number | null;
            /**
             * Format: double
             * @description From the request's arrival to the response.
             */
            process: number;
        };
        /**
         * @description What to fetch again: `GET /`, `/team`, `/feedback` or `/stats`.
         * @enum {string}
         */
        LiveTopic: "status" | "team" | "feedback" | "stats";
        LiveUnavailableErrorData: {
            /**
             * @description What went wrong. Stable: use it in programs.
             * @enum {string}
             */
            error: "overloaded" | "store_unavailable" | "timeout" | "draining";
            /** @description Identifies the request in the service's log; the same as the `X-Request-Id` header. */
            request_id: string;
        };
        /** @description The session's user, and the session. */
        Me: {
            /** @description The user, as of their last sign-in. */
            user: components["schemas"]["User"];
            /** @description The calling session. */
            session: components["schemas"]["CurrentSession"];
            /** @description The permission keys the team roster grants the user. */
            team: components["schemas"]["TeamPermission"][];
        };
        MethodNotAllowedErrorData: {
            /**
             * @description What went wrong. Stable: use it in programs.
             * @enum {string}
             */
            error: "method_not_allowed";
            /** @description Identifies the request in the service's log; the same as the `X-Request-Id` header. */
            request_id: string;
        };
        /** @description A new session. */
        NewSession: {
            /** @description The session token. It is shown only once. Send it in the `Token` header. */
            token: string;
            /** @description Who signed in. */
            user: components["schemas"]["User"];
        };
        NotFoundErrorData: {
            /**
             * @description What went wrong. Stable: use it in programs.
             * @enum {string}
             */
            error: "not_found";
            /** @description Identifies the request in the service's log; the same as the `X-Request-Id` header. */
            request_id: string;
        };
        /** @description No data: `{}`. */
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
            /** @description The ID of the subscriber; an empty string if there is none. */
            userid: string;
            /** @description The IDs of the guilds it covers. */
            guilds: string[];
            /**
             * Format: int32
             * @description How many guilds it can cover; informational.
             */
            slots: number;
        };
        /** @description The premium status of a guild. */
        PlusStatus: {
            /** @description The subscription that covers the guild; empty values if there is none. */
            plus: components["schemas"]["PlusRecord"];
            /** @description Whether premium is active. */
            active: boolean;
        };
        RateLimitedErrorData: {
            /**
             * @description What went wrong. Stable: use it in programs.
             * @enum {string}
             */
            error: "rate_limited";
            /** @description Identifies the request in the service's log; the same as the `X-Request-Id` header. */
            request_id: string;
        };
        RequestTimeoutErrorData: {
            /**
             * @description What went wrong. Stable: use it in programs.
             * @enum {string}
             */
            error: "request_timeout";
            /** @description Identifies the request in the service's log; the same as the `X-Request-Id` header. */
            request_id: string;
        };
        /** @description The bot's resource usage. */
        Resources: {
            /**
             * Format: double
             * @description Resident memory in megabytes (10^6 bytes), summed over the bot's running processes.
             */
            memory: number;
        };
        /**
         * @description The four roles, highest first. Plain members have none of them.
         * @enum {string}
         */
        Role: "Owner" | "Manager" | "Administrator" | "Moderator";
        /** @description One of the user's sessions. */
        Session: {
            /** @description Its ID, for `DELETE /sessions/{id}`. It is not the token. */
            id: string;
            /**
             * Format: int64
             * @description When the user signed in, in epoch seconds.
             */
            created: number;
            /**
             * Format: int64
             * @description When it was last used, in epoch seconds; may lag by a minute.
             */
            last_seen: number;
            /** @description The client's `User-Agent`, truncated to 256 bytes. */
            user_agent: string;
            /** @description Whether it is the calling session. */
            current: boolean;
        };
        SessionNotFoundErrorData: {
            /**
             * @description What went wrong. Stable: use it in programs.
             * @enum {string}
             */
            error: "session_not_found" | "not_found";
            /** @description Identifies the request in the service's log; the same as the `X-Request-Id` header. */
            request_id: string;
        };
        /** @description A shard's health. */
        ShardRecord: {
            /**
             * Format: double
             * @description Epoch seconds of the last heartbeat sent; 0 if unknown.
             */
            heartbeatSent: number;
            /**
             * Format: double
             * @description Epoch seconds of the last heartbeat acknowledged; 0 if unknown.
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
             * @description What went wrong. Stable: use it in programs.
             * @enum {string}
             */
            error: "idp_unavailable" | "idp_misconfigured";
            /** @description Identifies the request in the service's log; the same as the `X-Request-Id` header. */
            request_id: string;
        };
        SignInBadRequestErrorData: {
            /**
             * @description What went wrong. Stable: use it in programs.
             * @enum {string}
             */
            error: "idp_code_missing" | "idp_code_malformed" | "idp_code_verifier_malformed" | "redirect_uri_unknown" | "host_invalid" | "body_broken";
            /** @description Identifies the request in the service's log; the same as the `X-Request-Id` header. */
            request_id: string;
            /**
             * Format: int64
             * @description How many redirect addresses are configured. Only with `redirect_uri_unknown`.
             */
            configured?: number;
        };
        SignInForbiddenErrorData: {
            /**
             * @description What went wrong. Stable: use it in programs.
             * @enum {string}
             */
            error: "scope_missing" | "user_blocked";
            /** @description Identifies the request in the service's log; the same as the `X-Request-Id` header. */
            request_id: string;
        };
        /** @description How to send a user to the identity provider. */
        SignInOptions: {
            /**
             * Format: uri
             * @description The provider's consent page. Add `response_type=code`, the three values below, a `state` and a PKCE challenge to its
             *     query.
             */
            authorize_url: string;
            /** @description The application's client ID at the provider. */
            client_id: string;
            /** @description The scopes to ask for, separated by spaces. */
            scope: string;
            /**
             * Format: uri
             * @description Where the provider sends the user back to: the address configured for the caller's origin, or the first one.
             */
            redirect_uri: string;
        };
        SignInUnauthorizedErrorData: {
            /**
             * @description What went wrong. Stable: use it in programs.
             * @enum {string}
             */
            error: "idp_code_rejected";
            /** @description Identifies the request in the service's log; the same as the `X-Request-Id` header. */
            request_id: string;
        };
        /** @description Totals over everything the bot has reported. */
        Stats: {
            /**
             * Format: int64
             * @description The number of guilds with the bot.
             */
            guilds: number;
            /**
             * Format: int64
             * @description The sum of their member counts.
             */
            members: number;
            /**
             * Format: int64
             * @description The number of the bot's shards, as in `GET /`.
             */
            shards: number;
            /** @description Totals over all feedback. */
            feedback: components["schemas"]["FeedbackStats"];
        };
        /** @description The status of the API and the bot. */
        Status: {
            /** @description The build of the running service. */
            version: components["schemas"]["Version"];
            /** @description The bot's resource usage. */
            resources: components["schemas"]["Resources"];
            /** @description The health of the API and the bot. */
            health: components["schemas"]["Health"];
        };
        StoppingUnavailableErrorData: {
            /**
             * @description What went wrong. Stable: use it in programs.
             * @enum {string}
             */
            error: "overloaded" | "timeout" | "draining";
            /** @description Identifies the request in the service's log; the same as the `X-Request-Id` header. */
            request_id: string;
        };
        StoreUnavailableErrorData: {
            /**
             * @description What went wrong. Stable: use it in programs.
             * @enum {string}
             */
            error: "overloaded" | "store_unavailable" | "timeout";
            /** @description Identifies the request in the service's log; the same as the `X-Request-Id` header. */
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
            /** @description The user ID at the identity provider. */
            discord_id: string;
            /** @description Role title. */
            role: string;
            /**
             * @description Colour of the role.
             * @example #5865F2
             */
            color: string;
            /** @description Position category: a lower-case word chosen by the operator. */
            category: string;
            /**
             * Format: int64
             * @description Position within the category, ascending.
             */
            position: number;
        };
        /**
         * @description A permission key that says what the user does in the bot's team.
         * @enum {string}
         */
        TeamPermission: "QUALITY_ASSURANCE" | "DOCWRITER" | "FOUNDER" | "EXECUTIVE" | "BOT_DEVELOPER" | "WEB_DEVELOPER" | "SUPPORT" | "MANAGEMENT" | "SERVICE_STAFF";
        TokenUnauthorizedErrorData: {
            /**
             * @description What went wrong. Stable: use it in programs.
             * @enum {string}
             */
            error: "token_missing" | "token_invalid";
            /** @description Identifies the request in the service's log; the same as the `X-Request-Id` header. */
            request_id: string;
        };
        UnavailableErrorData: {
            /**
             * @description What went wrong. Stable: use it in programs.
             * @enum {string}
             */
            error: "overloaded" | "timeout";
            /** @description Identifies the request in the service's log; the same as the `X-Request-Id` header. */
            request_id: string;
        };
        /** @description How long the bot has been running. */
        Uptime: {
            /** @description "3 days, 4 hours", or "offline". */
            readable: string;
            /**
             * Format: int64
             * @description When the oldest running process started, in epoch seconds; 0 when offline.
             */
            epoch: number;
        };
        /** @description A user of the chat platform. */
        User: {
            /** @description The unique handle. */
            username: string;
            /** @description The display name, or the username if there is none. */
            name: string;
            /**
             * @description The ID at the provider, as a string of digits.
             * @example 80351110224678912
             */
            id: string;
            /**
             * Format: uri
             * @description Always a URL: the user's avatar, or the provider's default one.
             */
            avatar: string;
        };
        /** @description The data of an event of `GET /me/live`. */
        UserChanges: {
            /** @description What to fetch again. `changed` events have it; the last event, `ended`, does not. */
            changed?: components["schemas"]["UserLiveTopic"][];
        };
        /**
         * @description What to fetch again: `GET /`, `/team`, `/feedback`, `/stats`, `/guilds` and below it, `/sessions` or `/me`.
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
