# Checks that take too long for each change, and benchmarks. `.ci/run` keeps its cache when this file changes.

# Takes hours, because `make mutations` compiles the server many times.
.PHONY: nightly
nightly: ## Run everything from nothing, then the slow tests with new seeds; the last lines are the commands that failed
	scripts/nightly.sh

# `make test` includes a short run of this. Without SEED, every run is different. Several nodes share PostgreSQL, and are tested over
# NOTIFY and over NATS at the same time.
.PHONY: chaos
chaos: ENGINE := $(if $(NODES),postgres,$(ENGINE))
chaos: node test-tools ## Run clients while the server is killed, stopped, or out of disk space; `make chaos SECONDS=600 CLIENTS=8 SEED=7`, `ENGINE=postgres`, or several servers with `NODES=3`
	$(CLEAN) cargo test --no-run --test api
	$(CLEAN) OPENVIBE_TEST_CHAOS_SECONDS=$(or $(SECONDS),60) OPENVIBE_TEST_CHAOS_CLIENTS=$(or $(CLIENTS),4) OPENVIBE_TEST_CHAOS_SEED=$(or $(SEED),$$RANDOM) \
		$(if $(NODES),OPENVIBE_TEST_CHAOS_NODES=$(NODES)) $(ON_ENGINE) cargo test --quiet --test api -- $(if $(NODES),chaos::nodes::,chaos:: --skip chaos::nodes::) --nocapture

# Not part of `make test`: it compiles the server once for each mutation.
.PHONY: mutations
mutations: test-tools ## Break the server in known ways, and check that tests fail; `ONLY=no_poll` for one of them
	$(CLEAN) scripts/with-postgres.sh scripts/test-mutations.sh $(ONLY)

# `make test` includes a few kills. Without SEED, every run is different; each test prints its seed and the points.
.PHONY: kills
kills: node test-tools ## Kill the server between any two statements while agents work together, and a runner; `make kills KILLS=1000 SEED=7`, `ENGINE=postgres`
	$(CLEAN) cargo test --no-run
	$(CLEAN) OPENVIBE_TEST_RUNNER_KILLS=$(or $(KILLS),100) cargo test --quiet --test turns -- a_killed_runner
	$(CLEAN) OPENVIBE_TEST_KILLS=$(or $(KILLS),100) OPENVIBE_TEST_KILLS_SEED=$(or $(SEED),$$RANDOM) \
		$(ON_ENGINE) cargo test --quiet --test api -- kills:: --nocapture

# `make test` includes a few trees. Without SEED, every run is different; a failure names its seed.
.PHONY: trees
trees: node test-tools ## Generate trees of agents and look for texts that people must not see; `make trees TREES=5000 SEED=7`, `ENGINE=postgres`
	$(CLEAN) cargo test --no-run --test api
	$(CLEAN) OPENVIBE_TEST_GUARDED_TREES=100 OPENVIBE_TEST_TREES=$(or $(TREES),500) OPENVIBE_TEST_TREES_SEED=$(or $(SEED),$$RANDOM) \
		$(ON_ENGINE) cargo test --quiet --test api -- generated_trees:: guard_runs::

# `make test` includes a few steps. Without SEED, every run is different; a failure names its seed.
.PHONY: inbox
inbox: ## Generate causes, levels, and departures, and look for inbox items that people cannot read; `make inbox STEPS=5000 SEED=7`, `ENGINE=postgres`
	$(CLEAN) cargo test --no-run --test api
	$(CLEAN) OPENVIBE_TEST_INBOX_STEPS=$(or $(STEPS),5000) OPENVIBE_TEST_INBOX_SEED=$(or $(SEED),$$RANDOM) \
		$(ON_ENGINE) cargo test --quiet --test api -- inbox::generated::

# `make test` includes a few steps. Without SEED, every run is different; a failure names its seed.
.PHONY: pushes
pushes: node ## Generate settings, levels, departures, and items, and look for notifications that show more than these permit; `make pushes STEPS=5000 SEED=7`, `ENGINE=postgres`
	$(CLEAN) cargo test --no-run --test api
	$(CLEAN) OPENVIBE_TEST_PUSHES_STEPS=$(or $(STEPS),5000) OPENVIBE_TEST_PUSHES_SEED=$(or $(SEED),$$RANDOM) \
		$(ON_ENGINE) cargo test --quiet --test api -- --ignored push_cases::

# `make test` includes a few bytes.
.PHONY: flips
flips: node test-tools ## Damage a backup at many bytes, and check that its test finds each; `make flips FLIPS=1000`
	$(CLEAN) cargo test --no-run --test api
	$(CLEAN) OPENVIBE_TEST_FLIPS=$(or $(FLIPS),200) cargo test --quiet --test api -- server_backups::a_test_finds_a_flipped

# `make test` includes a few steps. Without SEED, every run is different; a failure names its seed.
.PHONY: guests
guests: ## Generate posts and channels of a guest, and look for texts of other channels; `make guests STEPS=5000 SEED=7`, `ENGINE=postgres`
	$(CLEAN) cargo test --no-run --test api
	$(CLEAN) OPENVIBE_TEST_GUESTS_STEPS=$(or $(STEPS),2000) OPENVIBE_TEST_GUESTS_SEED=$(or $(SEED),$$RANDOM) \
		$(ON_ENGINE) cargo test --quiet --test api -- guest_cases::

# `make test` includes a few steps. Without SEED, every run is different; a failure names its seed.
.PHONY: repositories
repositories: node test-tools ## Generate channels, members, guests, and starters, and check who sees, starts, and pushes the work of agents; `make repositories STEPS=5000 SEED=7`, `ENGINE=postgres`
	$(CLEAN) cargo test --no-run --test api
	$(CLEAN) OPENVIBE_TEST_CODE_STEPS=$(or $(STEPS),5000) OPENVIBE_TEST_CODE_SEED=$(or $(SEED),$$RANDOM) \
		$(ON_ENGINE) cargo test --quiet --test api -- code_access::

# `make test` includes a few changes. Without SEED, every run is different; a failure names its seed. Needs bubblewrap.
.PHONY: patches
patches: node ## Generate changes of agents, and compare their copy, the patch that people see, and the pushed commit; `make patches PATCHES=5000 SEED=7`
	$(CLEAN) cargo test --no-run
	$(CLEAN) OPENVIBE_TEST_PATCHES=$(or $(PATCHES),2000) OPENVIBE_TEST_PATCHES_SEED=$(or $(SEED),$$RANDOM) cargo test --quiet --test patches

# It installs agents of about 1 GB. Needs bubblewrap.
.PHONY: engines
engines: node test-tools ## Run the built-in agent, OpenCode, Claude Code, Codex, and Gemini CLI on runners, with a scripted model; `make engines ONLY=codex`
	$(CLEAN) cargo test --no-run
	$(CLEAN) scripts/test-engines.sh $(ONLY)

# Thousands of sockets need as many open files, so this raises the limit to its maximum.
.PHONY: bench
bench: node ## Run the benchmarks; `ONLY=sends` for some of them, `ENGINE=postgres` for PostgreSQL
	ulimit -n "$$(ulimit -Hn)"; $(if $(filter postgres,$(ENGINE)),OPENVIBE_POSTGRES_DURABLE=1 scripts/with-postgres.sh) cargo bench --bench speed -- $(ONLY)
