# Everything a developer runs. `make` alone lists it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
# Snapshots are compared, never rewritten; `INSTA_UPDATE=always make test` updates them.
export INSTA_UPDATE ?= no

# The stages in the order they run. Each can be run alone: `make test-site`.
CHECK := check-format check-lints test-unit test-sqlite
TEST := $(CHECK) test-postgres test-secrets
# Scripts in tests/system that use a debug build of the service.
SYSTEM := metrics systemd manifests fake-discord conformance sdk-python sdk-js sdk-web sdk-rust histories examples site
# Programs in tests/system/cluster.
CLUSTER := cluster proxies certificates
TEST_ALL := test-docs test-scripts $(SYSTEM:%=test-%) test-readme $(CLUSTER:%=test-%) test-fuzz test-faults test-instructions
# What only a release needs, of the same kinds.
RELEASE_SYSTEM := launcher contents web-examples openapi feed-go
RELEASE_CLUSTER := alerts
RELEASE := test-licenses test-dist $(RELEASE_SYSTEM:%=test-%) $(RELEASE_CLUSTER:%=test-%) test-versions rolling-upgrade
# Modules of the suite that test what is above the store: on SQLite only.
ABOVE_STORE := browsers command_line compression connections dashboard_docs dev exit_codes fast_path feed_docs hosts http_protocol init logs \
	networks openapi repository secure site site_dashboard site_incidents site_look site_reference site_status sockets start_checks tls traces \
	unread_answers

.PHONY: help run build check test test-all $(TEST) $(TEST_ALL) test-release $(RELEASE) debug-build screenshots fuzz-api cluster-faults rolling-restart failover revocations faults bench bench-quick openapi site-client packages dist needs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' Makefile
	@for name in $(SYSTEM) $(RELEASE_SYSTEM); do printf '  make %-17s %s\n' "test-$$name" "$$(sed -n '2s/^# //p' "tests/system/$$name")"; done
	@for name in $(CLUSTER) $(RELEASE_CLUSTER); do printf '  make %-17s %s\n' "test-$$name" "$$(sed -n '1s/^"""//p' "tests/system/cluster/test_$$name.py")"; done

run: needs ## start the service with demo data and a sandbox instead of the provider
	cargo run -p bot-companion -- dev

build: needs ## build the release binary
	cargo build --release --locked -p bot-companion

check: needs ## formatting, lints, unit tests, the suite on SQLite: what you run before a commit
	@scripts/stages $(CHECK)

test: needs ## make check, then what depends on the store on PostgreSQL, and a check of the logs for secrets; installs PostgreSQL if needed
	@scripts/stages $(TEST)

test-all: ## all other stages below; installs what they need. Continues after a failure
	@scripts/install-needs tests
	@scripts/stages --keep-going $(TEST_ALL)

check-format: ## formatting
	cargo fmt --all --check

check-lints: ## clippy
	cargo clippy --locked --workspace --all-targets -- -D warnings

# Tests spend more time waiting than working.
test-unit test-sqlite test-postgres: export RUST_TEST_THREADS ?= $(shell n=$$(nproc 2>/dev/null || echo 2); echo $$((n < 5 ? 2 * n : n)))

test-unit: ## the tests next to the code
	cargo test --locked --workspace --lib --bins

test-sqlite: ## the suite on SQLite
	rm -rf "$(TARGET_DIR)/suite-logs"
	cargo test --locked --workspace --test suite

test-postgres: ## what depends on the store, on PostgreSQL: its own tests, and most of the suite
	@scripts/install-needs postgres
	scripts/with-postgres bash -euc 'cargo test --locked --workspace --lib; \
		BOT_COMPANION_TEST_STORE=postgres cargo test --locked --workspace --test suite -- $(ABOVE_STORE:%=--skip %::)'

test-secrets: ## check the suite's logs for secrets
	tests/system/secrets-in-log

test-docs: needs ## rustdoc without warnings, and the curl examples in docs/ and on the reference page
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --workspace --document-private-items
	cargo test --locked --workspace --test suite -- --ignored the_examples_of_the the_commands_of_the_page

test-licenses: needs ## cargo deny: licences, banned crates, sources
	tests/system/licenses

test-scripts: ## shellcheck on every shell script
	tests/system/shellcheck

# Built once for all stages, unless BOT_COMPANION names one. With the suite, because `cargo build` alone would choose other features for
# some dependencies and compile most of them again.
debug-build: needs
	@[ -n "$${BOT_COMPANION:-}" ] || cargo test --quiet --locked --workspace --test suite --no-run

$(SYSTEM:%=test-%) $(RELEASE_SYSTEM:%=test-%): test-%: debug-build
	BOT_COMPANION="$${BOT_COMPANION:-$(TARGET_DIR)/debug/bot-companion}" tests/system/$*

test-readme: debug-build ## the dashboard code in README.md and docs/dashboard.md, and the example without a framework, in Chromium
	BOT_COMPANION="$${BOT_COMPANION:-$(TARGET_DIR)/debug/bot-companion}" tests/system/web-examples plain readme

$(CLUSTER:%=test-%) $(RELEASE_CLUSTER:%=test-%): test-%: debug-build
	BOT_COMPANION="$${BOT_COMPANION:-$(TARGET_DIR)/debug/bot-companion}" tests/system/cluster/run test_$*

test-fuzz: debug-build ## make fuzz-api with 2,000 requests on a debug build
	FUZZ_REQUESTS=2000 BOT_COMPANION="$${BOT_COMPANION:-$(TARGET_DIR)/debug/bot-companion}" tests/system/fuzz-api

test-versions: needs ## a bot on the oldest and the newest release of each Python and JavaScript library; each set of the Rust SDK's features
	tests/system/sdk-versions
	VERSIONS=1 tests/system/sdk-js
	VERSIONS=1 tests/system/sdk-rust

screenshots: needs ## take screenshots of every page of the site, at both widths and in both themes, into target/screenshots
	scripts/screenshots

fuzz-api: needs ## send 20,000 generated requests to a running service and check the answers against its OpenAPI document
	tests/system/fuzz-api

cluster-faults: needs ## kill a replica, stop, silence and cut off the database under load, and check that the promises hold
	tests/system/cluster/run cluster_faults

rolling-restart: needs ## restart three replicas 10 times under load and check that no request fails
	tests/system/cluster/run rolling_restart

# The debug build is another build of the same schema; BOT_COMPANION_OLD can name an earlier release's binary.
rolling-upgrade: ## replace three replicas of one build by another under load and check that no request fails
	@scripts/install-needs tests
	cargo build --quiet --locked -p bot-companion
	BOT_COMPANION_OLD="$${BOT_COMPANION_OLD:-$(abspath $(TARGET_DIR))/debug/bot-companion}" tests/system/cluster/run rolling_upgrade

failover: needs ## kill the PostgreSQL primary 20 times under load and check that nothing acknowledged is lost
	tests/system/cluster/run failover

revocations: needs ## end 1,000 sessions at one replica and measure how long the others still accept them
	tests/system/cluster/run revocations

test-instructions: debug-build ## compare the instruction counts of the four warm reads with the committed figures
	BOT_COMPANION="$${BOT_COMPANION:-$(TARGET_DIR)/debug/bot-companion}" bench/instructions --check

faults: needs ## run every fault scenario and write what was tried and lost into docs/measurements.md; takes hours
	tests/faults/run

test-faults: debug-build ## the bounded versions of the fault scenarios, on a debug build
	FAULTS_QUICK=1 BOT_COMPANION="$${BOT_COMPANION:-$(TARGET_DIR)/debug/bot-companion}" tests/faults/run --check

bench: needs ## measure everything and write docs/measurements.md; installs what it needs
	bench/run

bench-quick: needs ## measure for two minutes and print it
	bench/run --quick

# Written to another file first, so that a failing build does not leave an empty document.
openapi: needs ## regenerate the OpenAPI document, the types of the dashboard's client, and that client for the site
	mkdir -p "$(TARGET_DIR)"
	cargo run -p bot-companion -- openapi > "$(TARGET_DIR)/openapi.json"
	cp "$(TARGET_DIR)/openapi.json" openapi.json
	cd sdk/web && npm ci --silent && npm run --silent schema
	$(MAKE) --no-print-directory site-client

# Committed, so that compiling the service doesn't need Node.
site-client: needs ## build the dashboard's client for the site's own pages
	cd sdk/web && npm ci --silent && npm run --silent build
	cp sdk/web/dist/companion.min.js crates/service/src/site/assets/companion.js
	cp sdk/web/dist/companion-tabs.min.js crates/service/src/site/assets/tabs.js

packages: ## build all packages into dist/, with checksums, and start each once; takes about 20 minutes; needs root at the end
	packaging/all

dist: packages ## make packages, then make test-release
	@$(MAKE) --no-print-directory test-release

test-release: ## what only a release needs: licences, packages, framework examples, generated clients, alerts, each library's oldest and newest release, a rolling restart between two builds; needs root and dist/
	@scripts/install-needs tests
	@scripts/stages --keep-going $(RELEASE)

test-dist: ## test the packages in dist/ in clean environments; needs root and a finished `make packages`
	for program in packaging/quick-start packaging/*/test* packaging/reproducible tests/system/tls; do "$$program"; done

needs: # what a build needs besides Rust
	@scripts/install-needs

clean: ## remove all build output
	cargo clean
	rm -rf dist
