# Every command a person or a machine needs. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help dev deps lint test charts image bench chaos clients jepsen e2e compat spec mutants

# How many seeds of mixed faults the simulation runs.
BATON_SIM_SEEDS ?= 2000
chaos: BATON_SIM_SEEDS := $(if $(filter command line environment,$(origin BATON_SIM_SEEDS)),$(BATON_SIM_SEEDS),200000)
export BATON_SIM_SEEDS

# Most tests wait for leases to end, not for a core: on two cores four at a time take little more than half the time.
RUST_TEST_THREADS ?= $(shell cores=$$(nproc 2>/dev/null || echo 2); echo $$((cores > 4 ? cores : 4)))
export RUST_TEST_THREADS

help: ## this list
	@grep -hE '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9]+):[^#]*## */\1\t/' | expand -t 10

dev: ## three replicas in one process, no Redis: ports 4040-4042
	cargo run -- dev --replicas 3

# What is done part by part (.ci/parts): one that fails keeps no other from running, and the end tells of all of them.
DEPS = 'what the tests need' '.ci/deps'
LINT = $(DEPS) \
	'formatting' 'cargo fmt --all --check' \
	'clippy' 'cargo clippy --workspace --all-targets -- -D warnings' \
	'clippy of what make e2e and make bench run' \
		'cargo clippy --features bench --bench baton --test kubernetes_e2e --test observability_e2e --test browser \
			-- -D warnings' \
	'licences and banned crates' '.ci/deny'

deps: ## install what the tests need and this machine lacks
	.ci/deps
	@.ci/python charts >/dev/null
	@.ci/python schedulers >/dev/null

lint: ## formatting, clippy (warnings are errors), licences and banned crates
	@.ci/parts $(LINT)

test: ## lint, then every test: units, simulation (2,000 seeds), real Redis, chaos, HTTP, clients, charts, house rules, docs
	@.ci/parts $(LINT) 'Helm for the charts' '.ci/python charts' 'schedulers for the recipes' '.ci/python schedulers' \
		'tests' 'cargo test --workspace --no-fail-fast'

charts: ## write what is generated for the charts: tables, schema, golden files, copies of alerts and dashboards
	BATON_CHARTS_WRITE=1 cargo test --test charts the_schema_of_config
	BATON_CHARTS_WRITE=1 cargo test --test charts

image: ## the image as an OCI archive, target/image/baton-VERSION.tar, without docker or a registry; and runs it, with runc
	cargo build --release --locked --bin baton
	.ci/deps runc || true
	.ci/image

bench: ## the figures and plots of docs/performance.md, on this machine, beside its peers; PART="handover crash" for some parts only
	.ci/deps
	cargo bench --features bench --bench baton -- $(PART)

chaos: ## 200,000 simulated seeds (BATON_SIM_SEEDS=N), every order of any two faults (tests/enumerate), 10,000 orders of what threads share, and as many more (BATON_SHUTTLE_SCHEDULES=N), ten minutes of locks (BATON_SOAK_SECONDS=N), three of outages of their Redis (BATON_OUTAGES_SECONDS=N), 100,000 increments under them (BATON_OVERSELL_INCREMENTS=N), five minutes of jobs (BATON_JOBS_SECONDS=N), 10,000 one-shots through 50 kills, members of a quorum (BATON_QUORUM_RUNS=N, BATON_QUORUM_SEED=N), ten minutes of tokens that end every 2 s (BATON_CREDENTIALS_SECONDS=N), then ten minutes of faults on real servers (BATON_CHAOS_SECONDS=N): the table
	@.ci/parts $(DEPS) \
		'simulation' 'cargo test --profile chaos --test simulation -- --nocapture' \
		'enumeration' 'cargo test --profile chaos --test enumerate -- --ignored --nocapture' \
		'clippy of what shuttle runs' 'cargo clippy --features shuttle --lib --profile test -- -D warnings' \
		'what threads share' 'cargo test --features shuttle --lib schedules::' \
		'locks' 'cargo test --profile chaos --test locks -- --ignored --nocapture --test-threads=1 minutes_of hundred_thousand' \
		'jobs' 'cargo test --test process -- --ignored --nocapture five_minutes_of_leaders ten_thousand_one_shots' \
		'members of a quorum' 'export BATON_QUORUM_RUNS=$${BATON_QUORUM_RUNS:-40} BATON_QUORUM_SEED=$${BATON_QUORUM_SEED:-$$RANDOM}; \
			cargo test --test process whatever_happens_to_two_of_five -- --nocapture' \
		'tokens that end' 'cargo test --test process -- --ignored --nocapture minutes_of_ending_credentials' \
		'faults on real servers' \
			'if command -v go >/dev/null; then export BATON_TEST_APISERVER=real; \
			else echo "notice: leases in Kubernetes are not measured without Go"; fi; \
			BATON_CHAOS_WRITE=1 cargo test --test chaos measure_the_table -- --ignored --nocapture'

clients: ## the packages of clients/: built, linted and tested with what their languages have, then every client in every cell: the table of docs/clients.md (needs Go, Java, Maven and Node.js; BATON_CLIENTS_ONLY=NAME,…)
	cargo build --bin baton
	@.ci/parts $(DEPS) \
		'Python' '.ci/clients python' 'Go' '.ci/clients go' 'Java' '.ci/clients java' 'Node.js' '.ci/clients node' \
		'Rust' '.ci/clients rust' \
		'every client in every cell' 'BATON_CLIENTS_WRITE=1 cargo test --test clients no_client -- --ignored --nocapture'

# Without root there is no network of one's own, without Go no judge; a peer whose language is missing is left out.
jepsen: ## peers and Baton under the same faults, judged by Porcupine: docs/peers-under-faults.md (needs root, Go and Java; BATON_JEPSEN_SECONDS=N, BATON_JEPSEN_SEED=N, BATON_JEPSEN_SYSTEM=NAME, BATON_JEPSEN_FAULT=NAME)
	@.ci/parts $(DEPS) \
		'the same fire' \
			'command -v go >/dev/null || { echo "notice: there is no Go, which the judge needs"; exit 77; }; \
			unshare --net true || { echo "notice: there are no network namespaces, which take root"; exit 77; }; \
			for needed in java javac mvn; do command -v $$needed >/dev/null || .ci/deps $$needed \
				|| echo "notice: there is no $$needed, which Curator, Redisson and ShedLock need"; done; \
			tests/apiserver/build.sh >/dev/null; \
			BATON_JEPSEN_WRITE=1 cargo test --test jepsen -- --include-ignored --nocapture --test-threads=1'

cluster: ## charts and image on a one-node Kubernetes of its own (needs root and Go; the first time it builds Kubernetes), with the table of docs/kubernetes.md (BATON_KUBERNETES=1.36 for another version; BATON_FLOOD_SECONDS=N)
	@.ci/parts $(DEPS) 'Debian packages' '.ci/deps containerd runc nft iptables conntrack ethtool busybox ip' \
		'the image' '$(MAKE) image' \
		'Kubernetes and Helm' 'tests/cluster/build.sh' \
		'the cluster' 'BATON_CLUSTER_WRITE=1 tests/cluster/up.sh cargo test --test cluster -- --nocapture --test-threads=2'

# What each server is given: the tests of the store, of locks and of jobs, beside them the row of
# docs/compatibility.md, which waits for leases most of the time, and two hundred faults, beside runs that must show two
# leaders.
ON_SERVER = server=$$(.ci/server $(1)) || { echo "notice: there is no $(1)"; exit 77; }; export BATON_REDIS_SERVER=$$server; \
	cargo test --test store; \
	cargo test --test compat this_server & cargo test --test locks; cargo test --test process jobs::; wait $$!; \
	cargo test --test chaos -- --include-ignored --nocapture caught:: cluster:: sentinels:: two_hundred_faults_on

# They wait for leases, even more than the others.
compat: RUST_TEST_THREADS := 8
compat: export BATON_COMPAT_WRITE := 1
compat: ## store, locks, jobs and 200 faults (BATON_CHAOS_SEED=N) on Redis 6.2, 7.0, 8.2 and Valkey 8.0, 9.1, and behind what services refuse, with docs/compatibility.md
	@.ci/parts $(DEPS) 'a Python for the servers' '.ci/python charts >/dev/null' \
		$(foreach server,redis-6.2 redis-7.0 redis-8.2 valkey-8.0 valkey-9.1,'$(server)' '$(call ON_SERVER,$(server))') \
		'services' 'cargo test --test compat services & cargo test --test store -- --ignored behind_what_services; wait $$!' \
		'faults behind services' 'cargo test --test chaos two_hundred_faults_behind -- --ignored --nocapture'

e2e: ## the README in a fresh clone; docs/tutorials, as a new user would follow them; alerts and dashboards on a real Prometheus and Alertmanager (BATON_LAPSE_ROUNDS=N, BATON_LAPSE_SEED=N); spans at a collector (feature otel); the status page in a browser (installs Chromium); Dapr's client (needs Node); the store on a Valkey; store, sidecars and charts on a real API server (needs Go, or KUBECONFIG; BATON_CHAOS_SECONDS=N or BATON_CHAOS_FAULTS=N, BATON_OUTAGE_SECONDS=N, BATON_HANDOVERS=N, BATON_JOBS_KILLS=N)
	@.ci/parts $(DEPS) 'Helm for the charts' '.ci/python charts' \
		'the README in a fresh clone' 'tests/e2e/readme.sh' \
		'tutorials' 'cargo build --bin baton; tests/e2e/tutorials.py' \
		'alerts and dashboards' '.ci/deps prometheus prometheus-alertmanager; \
			cargo test --test observability_e2e -- --nocapture --test-threads=1' \
		'clippy of spans' 'cargo clippy --features otel --lib --bins --test otel -- -D warnings' \
		'spans' 'cargo test --features otel --test otel' \
		'the status page' '.ci/deps chromedriver || { echo "notice: there is no Chromium"; exit 77; }; \
			cargo test --test browser -- --test-threads=1' \
		"Dapr's client" 'command -v npm >/dev/null || { echo "notice: there is no Node with npm"; exit 77; }; \
			cargo test --test locks daprs_published_node_client -- --ignored --nocapture && \
			cargo test --test process daprs_published_node_client -- --ignored --nocapture' \
		'the store on a Valkey' 'server=$$(.ci/server valkey-8.0) || { echo "notice: there is no Valkey"; exit 77; }; \
			BATON_REDIS_SERVER=$$server cargo test --test store' \
		'the store on a real API server' \
			'BATON_TEST_APISERVER=real cargo test --test store -- --test-threads=1 lease_objects kubernetes_api leases_shared' \
		'sidecars and charts on a real API server' \
			'cargo test --test kubernetes_e2e -- --nocapture --test-threads=1'

spec: ## the specification in spec/, checked by TLC (needs Java and Maven, installed if they can be): every promise within bounds, what breaks without each rule, and 500 simulated and 50 real runs held against it
	@.ci/parts $(DEPS) 'runs to be held against it' '.ci/tlc >/dev/null; \
			cargo run --example simulate -- traces 500 target/spec/traces/simulated; \
			cargo test --test chaos fifty_runs_are_recorded -- --ignored --nocapture' \
		'specification' '.ci/tlc >/dev/null; \
			BATON_SPEC_WRITE=1 cargo test --test spec -- --ignored --nocapture --test-threads=1'

mutants: ## small faults, one at a time, in the protocol and in the scripts of the Redis store, which the tests must notice: at least 95 %, and tests/mutants/survivors.txt has the others with the reason (BATON_MUTANTS_ONLY=PART of a path,…; BATON_MUTANTS_LISTED=1: none but those in the list)
	@.ci/parts $(DEPS) 'cargo-mutants' '.ci/mutants' \
		'the list of survivors, and what makes mutants' 'cargo test --test mutants -- --skip the_protocol --skip the_scripts' \
		'mutants of the protocol' 'cargo test --test mutants the_protocol -- --exact --nocapture' \
		'mutants of the scripts' 'cargo test --test mutants the_scripts -- --exact --nocapture'
