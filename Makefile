# `make run` and `make test` are all you need; the other targets are for development.
# All targets build in the dev profile; only `make build` creates an optimized binary.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
export PATH := $(CURDIR)/.tools/bin:$(PATH)

# Checks and tests ignore OpenVibe settings and API keys from the environment.
SETTINGS := $(filter-out OPENVIBE_TEST_% OPENVIBE_CHROMIUM,$(filter OPENVIBE_%,$(.VARIABLES)))
# Clippy lints while it compiles what the tests need, so that there is no second pass over the code.
LINT := RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__
CLEAN := env $(addprefix -u ,$(SETTINGS) ANTHROPIC_API_KEY OPENAI_API_KEY) $(LINT)

# Environment and wrapper of tests on SQLite, or on PostgreSQL with `ENGINE=postgres`.
ON_ENGINE = OPENVIBE_TEST_DATABASE=$(or $(ENGINE),sqlite) $(if $(filter postgres,$(ENGINE)),scripts/with-postgres.sh)

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "make %-12s %s\n", $$1, $$2 }'

.PHONY: run
run: node ## Build and start the server, and print its address
	cargo run

.PHONY: demo
demo: node ## Start a server with an example workspace, in a separate directory
	cargo run -- demo

.PHONY: dev
dev: node packages ## Start a server that reloads when you save a file
	scripts/dev.sh

.PHONY: build
build: node ## Build target/release/openvibe, including the web client
	cargo build --release

.PHONY: release
release: node ## Make target/release-VERSION: static programs, packages, an image, licenses, and their signature
	scripts/release.sh

# Each part with the minutes that it should take on two cores, if dependencies are already compiled.
.PHONY: test
test: ## Run all checks and tests; installs the tools that they need
	+@MAKE='$(MAKE)' scripts/parts.sh test-without-server:4 compile:6 test-sqlite:6 test-postgres-selected:3 test-browser:5 test-protocols:2

# With all tests on PostgreSQL; `make test` runs only as many as are needed to run every statement there.
.PHONY: test-all
test-all: ## Run all checks and tests, and every API test on PostgreSQL
	+@MAKE='$(MAKE)' scripts/parts.sh test-without-server:4 compile:6 test-sqlite:6 test-postgres:8 test-browser:5 test-protocols:2

.PHONY: check
check: node packages ## Check formatting, lints, types, docs, and dependencies
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target check-format check-lints check-docs check-web

.PHONY: check-lints
check-lints: node packages
	$(CLEAN) cargo clippy --all-targets -- -D warnings

# Everything that needs no server.
.PHONY: test-without-server
test-without-server: node packages test-tools
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target check-format check-web test-units test-deploy

.PHONY: check-format
check-format:
	cargo fmt --all --check
	for patch in tests/mutations/*.patch; do git apply --check $$patch; done

# Not part of `make test`: it would compile all dependencies a second time.
.PHONY: check-docs
check-docs: node packages ## Check the links in doc comments
	$(CLEAN) RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --document-private-items --quiet

.PHONY: check-web
check-web: node packages
	cd web && npm run --silent check
	scripts/audit.sh

.PHONY: audit
audit: node ## Check licenses, sources, and known vulnerabilities of dependencies
	scripts/audit.sh

# With the benchmarks, which are linted and not run.
.PHONY: compile
compile: node
	$(CLEAN) cargo test --no-run --all-targets

.PHONY: test-rust
test-rust: test-sqlite test-postgres ## Run the Rust tests, on SQLite and on PostgreSQL

# API tests wait more than they compute: with six at a time for each core, no core is idle. On PostgreSQL, its processes need cores too.
.PHONY: test-sqlite
test-sqlite: compile test-tools
	rm -rf target/statements && mkdir -p target/statements
	$(CLEAN) RUST_TEST_THREADS=$${RUST_TEST_THREADS:-$$(($$(nproc) * 6))} OPENVIBE_TEST_DATABASE=sqlite \
		OPENVIBE_TEST_STATEMENTS=$(CURDIR)/target/statements scripts/cargo-test.sh --quiet
	touch target/statements/complete

.PHONY: test-postgres
test-postgres: compile test-tools
	$(CLEAN) RUST_TEST_THREADS=$${RUST_TEST_THREADS:-$$(($$(nproc) + 4))} scripts/test-postgres.sh

.PHONY: test-postgres-selected
test-postgres-selected: compile test-tools
	$(CLEAN) RUST_TEST_THREADS=$${RUST_TEST_THREADS:-$$(($$(nproc) + 4))} scripts/test-postgres.sh selected

.PHONY: test-web
test-web: test-units test-browser ## Run the unit tests and browser tests of the web client

.PHONY: test-units
test-units: node packages
	cd web && npm run --silent test

# `cargo test` also builds the server, with the same features as in the tests above, so that nothing
# is compiled twice.
.PHONY: test-browser
test-browser: node packages test-tools
	$(CLEAN) cargo test --no-run
	cd web && $(CLEAN) npm run --silent e2e

# Two of these at a time, because each waits for its installation, or for the server, part of the time.
.PHONY: test-protocols
test-protocols: node test-tools
	$(CLEAN) cargo test --no-run
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target test-clients test-mcp test-fuzz

.PHONY: test-clients
test-clients: node test-tools ## Test the server with the OpenAI libraries for Python, Node, and Rust, and those for Slack and sign-in
	$(CLEAN) cargo test --no-run
	$(CLEAN) scripts/test-clients.sh

.PHONY: test-mcp
test-mcp: node test-tools ## Test server and client with the conformance suite of the Model Context Protocol
	$(CLEAN) cargo test --no-run
	$(CLEAN) scripts/test-mcp.sh

.PHONY: test-deploy
test-deploy: test-tools ## Test the files for Docker Compose, HAProxy, Kubernetes, and Prometheus, and the packages of a release
	scripts/test-deploy.sh

# Not part of `make test`: it installs four web servers, and a socket stays idle for more than a minute.
.PHONY: test-proxies
test-proxies: node test-tools ## Test the texts for nginx, Caddy, Apache, and HAProxy in docs/operations.md with these programs
	$(CLEAN) cargo build
	$(CLEAN) scripts/test-proxies.sh

# Not part of `make test`: it compiles the optimized program twice.
.PHONY: test-release
test-release: node ## Make a release twice, compare the bytes, and check that it is complete
	scripts/test-release.sh

# Not part of `make test`: compiling llama-cpp-python alone takes more than six minutes on two cores.
.PHONY: model-servers
model-servers: node test-tools ## Test the server against llama-cpp-python with a tiny model, and LiteLLM
	$(CLEAN) cargo test --no-run
	$(CLEAN) scripts/test-model-servers.sh

# The seed is fixed, so that a new failure is caused by the change; use other seeds and more cases in manual runs.
.PHONY: test-fuzz
test-fuzz: node test-tools ## Test the server with generated requests from its API document; `make test-fuzz SEED=7 CASES=50`
	$(CLEAN) cargo test --no-run
	$(CLEAN) SEED=$(or $(SEED),1) CASES=$(or $(CASES),3) $(if $(ONLY),ONLY=$(ONLY)) scripts/test-fuzz.sh

include nightly.mk

.PHONY: api
api: node packages ## Generate openapi.json from the code, and the types of the web client from it
	cargo run --quiet -- openapi > target/openapi.json
	mv target/openapi.json openapi.json
	cd web && npm run --silent api

.PHONY: node
node:
	@scripts/ensure-node.sh

.PHONY: test-tools
test-tools:
	@scripts/ensure-test-tools.sh

# build.rs uses the same stamp.
.PHONY: packages
packages: web/node_modules/.openvibe-lockfile
web/node_modules/.openvibe-lockfile: web/package-lock.json
	cd web && npm ci --include=dev --no-audit --no-fund --prefer-offline
	cp web/package-lock.json $@
