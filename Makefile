# Every command a person or a machine needs. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help dev deps lint test charts bench chaos e2e

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
	cargo run --release -- dev --replicas 3

deps: ## install what the tests need and this machine lacks
	.ci/deps
	@.ci/charts >/dev/null

lint: deps ## formatting, clippy (warnings are errors), licences and banned crates
	cargo fmt --all --check
	cargo clippy --all-targets -- -D warnings
	cargo clippy --test kubernetes_e2e --test observability_e2e --test browser -- -D warnings
	.ci/deny

test: lint ## lint, then every test: units, simulation (2,000 seeds), real Redis, chaos, HTTP, clients, charts, house rules, docs
	cargo test --no-fail-fast

charts: ## write what is generated for the charts: tables, schema, golden files, copies of alerts and dashboards
	BATON_CHARTS_WRITE=1 cargo test --lib the_schema_is_what_the_types_say
	BATON_CHARTS_WRITE=1 cargo test --test charts the_schema_of_config
	BATON_CHARTS_WRITE=1 cargo test --test charts

bench: ## the figures and plots of docs/performance.md, on this machine, beside its peers; PART="handover crash" for some parts only
	cargo bench --bench baton -- $(PART)

chaos: deps ## 200,000 simulated seeds (BATON_SIM_SEEDS=N), ten minutes of locks (BATON_SOAK_SECONDS=N), 100,000 increments under them (BATON_OVERSELL_INCREMENTS=N), five minutes of jobs (BATON_JOBS_SECONDS=N), then ten minutes of faults on real servers (BATON_CHAOS_SECONDS=N): the table
	cargo test --profile chaos --test simulation -- --nocapture
	cargo test --profile chaos --test locks -- --ignored --nocapture --test-threads=1 ten_minutes hundred_thousand
	cargo test --test process -- --ignored --nocapture five_minutes_of_leaders
	@command -v go >/dev/null || echo "notice: leases in Kubernetes are not measured without Go"
	env BATON_CHAOS_WRITE=1 $$(if command -v go >/dev/null; then echo BATON_TEST_APISERVER=real; fi) \
		cargo test --test chaos measure_the_table -- --ignored --nocapture

e2e: deps ## the README in a fresh clone; alerts and dashboards on a real Prometheus and Alertmanager (BATON_LAPSE_ROUNDS=N, BATON_LAPSE_SEED=N); spans at a collector (feature otel); the status page in a browser (installs Chromium); Dapr's client (needs Node); the store on a Valkey; store, sidecars and charts on a real API server (needs Go, or KUBECONFIG; BATON_CHAOS_SECONDS=N, BATON_HANDOVERS=N)
	tests/e2e/readme.sh
	.ci/deps prometheus prometheus-alertmanager
	cargo test --test observability_e2e -- --nocapture --test-threads=1
	cargo clippy --features otel --lib --bins --test otel -- -D warnings
	cargo test --features otel --test otel
	@if .ci/deps chromedriver; then cargo test --test browser -- --test-threads=1; \
	else echo "notice: the status page was not tried without Chromium"; fi
	@if command -v npm >/dev/null; then cargo test --test locks daprs_published_node_client -- --ignored --nocapture; \
	else echo "notice: Dapr's client was not tried without Node and npm"; fi
	@if server=$$(.ci/valkey); then BATON_REDIS_SERVER=$$server cargo test --test store; \
	else echo "notice: the store's tests were not run on a Valkey"; fi
	BATON_TEST_APISERVER=real cargo test --test store -- --test-threads=1 lease_objects kubernetes_api leases_shared
	cargo test --test kubernetes_e2e -- --nocapture --test-threads=1
