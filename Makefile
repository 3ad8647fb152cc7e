# The front door. Everything is built under build/ and .venv/; nothing else is written.
# Each target first sets up what it needs (scripts/setup), which is quick when nothing has changed.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.NOTPARALLEL:

# Seconds that `make fuzz` gives to each fuzz target.
FUZZ_SECONDS ?= 60

.PHONY: help build demo test test-all bench format fuzz clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

build: ## Build libtfos and the command tfos (the default)
	@scripts/setup build
	@scripts/build release

demo: ## Show what tfos does, on real data
	@scripts/setup demo
	@scripts/build release
	@scripts/build-python
	@scripts/demo

test: ## Run every test once: C (also with sanitizers), Python, Java
	@scripts/setup test
	@scripts/test

test-all: ## Run the tests over the whole matrix, and fuzz for longer
	@scripts/setup test fuzz
	@scripts/test --all

bench: ## Measure tfos and its peers on the same work
	@scripts/setup demo
	@scripts/build release
	@scripts/build-python
	@.venv/bin/python bench/run.py

format: ## Format the C sources
	@scripts/setup format
	@scripts/format

fuzz: ## Fuzz each parser for FUZZ_SECONDS (60)
	@scripts/setup fuzz
	@scripts/fuzz $(FUZZ_SECONDS)

clean: ## Remove everything that was built (build/ and .venv/)
	rm -rf build .venv
