# `make run` and `make test` are all a person has to know; the rest is for those who change the code.
# Everything is built once, in the dev profile; `make build` makes the optimised program.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
export PATH := $(CURDIR)/.tools/bin:$(PATH)

# Checks and suites see none of the settings and keys that the terminal has for a server.
SETTINGS := $(filter-out OPENVIBE_TEST_% OPENVIBE_CHROMIUM,$(filter OPENVIBE_%,$(.VARIABLES)))
CLEAN := env $(addprefix -u ,$(SETTINGS) ANTHROPIC_API_KEY OPENAI_API_KEY)

.PHONY: help
help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "make %-12s %s\n", $$1, $$2 }'

.PHONY: run
run: node ## Build client and server, start, print the address
	cargo run

.PHONY: demo
demo: node ## The same with a workspace filled to look at, in a directory of its own
	cargo run -- demo

.PHONY: dev
dev: node packages ## The same while you edit: a saved file is seen after seconds
	scripts/dev.sh

.PHONY: build
build: node ## Leave target/release/openvibe with the client inside
	cargo build --release

.PHONY: test
test: check test-rust test-web test-clients test-fuzz ## Every check and every suite; installs what they need

.PHONY: check
check: node packages ## Formats, lints, types, docs; no suite
	cargo fmt --check
	$(CLEAN) cargo clippy --all-targets -- -D warnings
	$(CLEAN) RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --document-private-items --quiet
	cd web && npm run --silent check
	scripts/audit.sh

.PHONY: audit
audit: node ## Licences, sources and known weaknesses of what is built in
	scripts/audit.sh

.PHONY: test-rust
test-rust: node test-tools ## The Rust suites, on SQLite and on PostgreSQL
	$(CLEAN) cargo test --no-run
	$(CLEAN) OPENVIBE_TEST_DATABASE=sqlite cargo test --quiet
	$(CLEAN) OPENVIBE_TEST_DATABASE=postgres scripts/with-postgres.sh cargo test --quiet --test api

# `cargo test` builds the program too, with the same features as the suites above, so that nothing
# is compiled twice.
.PHONY: test-web
test-web: node packages test-tools ## The client's units and the browser suite
	$(CLEAN) cargo test --no-run
	cd web && npm run --silent test
	cd web && $(CLEAN) npm run --silent e2e

.PHONY: test-clients
test-clients: node test-tools ## The official OpenAI libraries for Python and Node against the server
	$(CLEAN) cargo test --no-run
	$(CLEAN) scripts/test-clients.sh

# The same seed each time, so that a failure is one of the change; other seeds and more cases are for runs by hand.
.PHONY: test-fuzz
test-fuzz: node test-tools ## The API document against the server, with made-up requests; `make test-fuzz SEED=7 CASES=50`
	$(CLEAN) cargo test --no-run
	$(CLEAN) SEED=$(or $(SEED),1) CASES=$(or $(CASES),3) $(if $(ONLY),ONLY=$(ONLY)) scripts/test-fuzz.sh

# A short round of the same is part of `make test`. Without SEED every run is another one.
.PHONY: chaos
chaos: node test-tools ## Clients at work while the server is killed, stopped, out of disk; `make chaos SECONDS=600 CLIENTS=8 SEED=7`, `ENGINE=postgres`
	$(CLEAN) cargo test --no-run --test api
	$(CLEAN) OPENVIBE_TEST_CHAOS_SECONDS=$(or $(SECONDS),60) OPENVIBE_TEST_CHAOS_CLIENTS=$(or $(CLIENTS),4) OPENVIBE_TEST_CHAOS_SEED=$(or $(SEED),$$RANDOM) \
		OPENVIBE_TEST_DATABASE=$(or $(ENGINE),sqlite) $(if $(filter postgres,$(ENGINE)),scripts/with-postgres.sh) cargo test --quiet --test api -- chaos:: --nocapture

# Thousands of sockets are as many open files, so the limit is raised as far as it may be.
.PHONY: bench
bench: node ## How fast it is, beside something else in the same run; `ONLY=sends` for a part, `ENGINE=postgres` for the other engine
	ulimit -n "$$(ulimit -Hn)"; $(if $(filter postgres,$(ENGINE)),OPENVIBE_POSTGRES_DURABLE=1 scripts/with-postgres.sh) cargo bench --bench speed -- $(ONLY)

.PHONY: api
api: node packages ## Write openapi.json from the code, and the client's types from it
	cargo run --quiet -- openapi > target/openapi.json
	mv target/openapi.json openapi.json
	cd web && npm run --silent api

.PHONY: node
node:
	@scripts/ensure-node.sh

.PHONY: test-tools
test-tools:
	@scripts/ensure-test-tools.sh

# build.rs keeps the same stamp.
.PHONY: packages
packages: web/node_modules/.openvibe-lockfile
web/node_modules/.openvibe-lockfile: web/package-lock.json
	cd web && npm ci --include=dev --no-audit --no-fund --prefer-offline
	cp web/package-lock.json $@
