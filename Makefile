# Everything a developer runs. `make` alone lists it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
# Snapshots are compared, never rewritten; `INSTA_UPDATE=always make test` writes them anew.
export INSTA_UPDATE ?= no

.PHONY: help run build test test-openapi test-sdks test-versions test-cluster test-proxies test-alerts test-site screenshots fuzz-api slow-clients kill-feed rolling-restart failover revocations bench openapi site-client dist needs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

run: needs ## start the service with demonstration data and a sandbox in the provider's place
	cargo run -p bot-companion -- dev

build: needs ## build the release binary
	cargo build --release --locked -p bot-companion

test: ## formatting, lints, documentation, all tests (the suite on SQLite and on PostgreSQL), no secret in their logs, the OpenAPI document with other people's tools, the SDKs with real bots, the site in Chromium, replicas with faults, the proxies and the alerts of deploy
	@scripts/install-needs tests
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --workspace --document-private-items
	rm -rf "$(TARGET_DIR)/suite-logs"
	scripts/with-postgres bash -euc 'cargo test --locked --workspace; BOT_COMPANION_TEST_STORE=postgres cargo test --locked -p bot-companion --test suite'
	scripts/check-secrets-in-log
	cargo build --locked -p bot-companion
	BOT_COMPANION="$(TARGET_DIR)/debug/bot-companion" scripts/test-openapi
	BOT_COMPANION="$(TARGET_DIR)/debug/bot-companion" scripts/test-metrics
	BOT_COMPANION="$(TARGET_DIR)/debug/bot-companion" $(MAKE) --no-print-directory test-sdks
	BOT_COMPANION="$(TARGET_DIR)/debug/bot-companion" scripts/test-site
	BOT_COMPANION="$(TARGET_DIR)/debug/bot-companion" scripts/test-cluster
	BOT_COMPANION="$(TARGET_DIR)/debug/bot-companion" scripts/test-proxies
	BOT_COMPANION="$(TARGET_DIR)/debug/bot-companion" scripts/test-alerts

test-openapi: needs ## the OpenAPI document with other people's tools: linters, and clients from four generators
	scripts/test-openapi

test-sdks: needs ## the SDKs: conformance scenarios, real bots on the fake Discord, the example bots, the client in Go, the dashboard's client, the example dashboards in Chromium
	scripts/test-fake-discord
	scripts/test-conformance
	scripts/test-sdk-python
	scripts/test-sdk-js
	scripts/test-sdk-web
	scripts/test-sdk-rust
	scripts/test-feed-go
	scripts/test-examples
	scripts/test-web-examples

test-site: needs ## the site in Chromium: what it shows and does, accessibility, both themes, widths and languages, hostile names
	scripts/test-site

screenshots: needs ## write every page of the site as a picture, at both widths and in both themes, into target/screenshots
	scripts/screenshots

test-versions: needs ## a bot on the oldest and the newest release of each library of Python and JavaScript
	scripts/test-sdk-versions
	VERSIONS=1 scripts/test-sdk-js

test-cluster: needs ## three replicas behind HAProxy on PostgreSQL: faults, a rolling restart, revocations, a failover
	scripts/test-cluster

test-proxies: needs ## nginx and HAProxy with the configurations of deploy before three replicas
	scripts/test-proxies

test-alerts: needs ## the alerts and the dashboard of deploy with a real Prometheus, on services that are broken on purpose
	scripts/test-alerts

fuzz-api: needs ## send 20,000 generated requests to a running service and check the answers against its OpenAPI document
	scripts/fuzz-api

slow-clients: needs ## hold 10,000 slow connections open and see that a normal client is still answered
	scripts/slow-clients

kill-feed: needs ## kill the service 200 times during a feed and see that nothing is lost or half-applied
	scripts/kill-feed

rolling-restart: needs ## restart three replicas 10 times under load and see that no request fails
	scripts/rolling-restart

failover: needs ## kill the PostgreSQL primary 20 times under load and see that nothing acknowledged is lost
	scripts/failover

revocations: needs ## end 1,000 sessions at one replica and measure how long the others still take them
	scripts/revocations

bench: needs ## measure
	bench/run

# Written aside first: a failing build must not leave an empty document.
openapi: needs ## write the OpenAPI document again, the types of the dashboard's client, and that client for the site
	mkdir -p "$(TARGET_DIR)"
	cargo run -p bot-companion -- openapi > "$(TARGET_DIR)/openapi.json"
	cp "$(TARGET_DIR)/openapi.json" openapi.json
	cd sdk/web && npm ci --silent && npm run --silent schema
	$(MAKE) --no-print-directory site-client

# Committed, so that whoever compiles the service needs no Node.
site-client: needs ## build the dashboard's client for the site's own pages
	cd sdk/web && npm ci --silent && npm run --silent build
	cp sdk/web/dist/companion.min.js crates/service/src/site/assets/companion.js

dist: ## build the packages of the SDKs, of the dashboard's client and of the fake Discord into dist/, and check them
	scripts/make-dist

needs: # what a build needs besides Rust
	@scripts/install-needs

clean: ## remove everything that was built
	cargo clean
	rm -rf dist
