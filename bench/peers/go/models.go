package main

// What the routes answer.

type Envelope struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data"`
}

type User struct {
	Username string `json:"username"`
	Name     string `json:"name"`
	ID       string `json:"id"`
	Avatar   string `json:"avatar"`
}

type Status struct {
	Version struct {
		Name   string `json:"name"`
		Branch string `json:"branch"`
		Commit struct {
			SHA       string `json:"sha"`
			Message   string `json:"message"`
			Author    string `json:"author"`
			Timestamp int64  `json:"timestamp"`
		} `json:"commit"`
	} `json:"version"`
	Resources struct {
		Memory float64 `json:"memory"`
	} `json:"resources"`
	Health struct {
		API struct {
			Latency struct {
				Response *float64 `json:"response"`
				Process  float64  `json:"process"`
			} `json:"latency"`
		} `json:"api"`
		Bot struct {
			Shards map[string]Shard `json:"shards"`
			Uptime struct {
				Readable string `json:"readable"`
				Epoch    int64  `json:"epoch"`
			} `json:"uptime"`
		} `json:"bot"`
	} `json:"health"`
}

type Shard struct {
	HeartbeatSent         float64 `json:"heartbeatSent"`
	HeartbeatAcknowledged float64 `json:"heartbeatAcknowledged"`
	Latency               float64 `json:"latency"`
}

type TeamMember struct {
	Username  string `json:"username"`
	Name      string `json:"name"`
	Avatar    string `json:"avatar"`
	DiscordID string `json:"discord_id"`
	Role      string `json:"role"`
	Color     string `json:"color"`
	Category  string `json:"category"`
	Position  int    `json:"position"`
}

type Feedback struct {
	Feedback  string `json:"feedback"`
	Rating    int    `json:"rating"`
	Timestamp int64  `json:"timestamp"`
	Submitter User   `json:"submitter"`
}

type Guild struct {
	Name    string `json:"name"`
	ID      string `json:"id"`
	Icon    string `json:"icon"`
	Members int    `json:"members"`
	Owner   string `json:"owner"`
	Role    string `json:"role,omitempty"`
	Service bool   `json:"service"`
	Plus    struct {
		Plus struct {
			UserID string   `json:"userid"`
			Guilds []string `json:"guilds"`
			Slots  int      `json:"slots"`
		} `json:"plus"`
		Active bool `json:"active"`
	} `json:"plus"`
	Permissions Permissions `json:"permissions"`
}

type Permissions struct {
	ErlcStaff         bool `json:"ERLC_STAFF"`
	ServicePlusGuild  bool `json:"SERVICE_PLUS_GUILD"`
	QualityAssurance  bool `json:"QUALITY_ASSURANCE"`
	ErlcAdmin         bool `json:"ERLC_ADMIN"`
	Docwriter         bool `json:"DOCWRITER"`
	Founder           bool `json:"FOUNDER"`
	ErlcManager       bool `json:"ERLC_MANAGER"`
	ManageServer      bool `json:"MANAGE_SERVER"`
	Executive         bool `json:"EXECUTIVE"`
	BotDeveloper      bool `json:"BOT_DEVELOPER"`
	WebDeveloper      bool `json:"WEB_DEVELOPER"`
	Setup             bool `json:"SETUP"`
	SessionStarter    bool `json:"SESSION_STARTER"`
	Mod               bool `json:"MOD"`
	Support           bool `json:"SUPPORT"`
	Management        bool `json:"MANAGEMENT"`
	Admin             bool `json:"ADMIN"`
	ServiceStaff      bool `json:"SERVICE_STAFF"`
	ErlcLinked        bool `json:"ERLC_LINKED"`
	ServicePlusMember bool `json:"SERVICE_PLUS_MEMBER"`
}
