# One-line doors to tools/ and the presets. On a bare machine begin with tools/run or tools/test.
SEEDS ?= 200
CHAOS_SECONDS ?= 180
CHAOS_SEED ?=
CHAOS_RATE ?= 300
CHAOS_PAGE ?=
ZOOKEEPERS ?= 3
OUT ?= text
QUICK ?=
PENDING ?=
LABELS ?= unit|contract|sim|thread|integration|interop

.PHONY: all build release run demo-cluster cluster test interop examples unit asan tsan sim sim-mutants chaos bench fuzz memcheck instructions lint analyze fmt check
.PHONY: check-long image newcomer clean

all build:
	tools/build dev

release:
	tools/build release

# The whole product in one process, and a few tasks that it fires; DEMO_SECONDS ends it.
run:
	tools/build release foliot
	DEMO_SECONDS=$(DEMO_SECONDS) tools/dev

# Two brokers, real servers, one kill; stops by itself. DEMO_SECONDS=0: left running until Ctrl-C.
demo-cluster: DEMO_SECONDS ?= 20
demo-cluster: release
	DEMO_SECONDS=$(DEMO_SECONDS) tools/demo

# The same servers and BROKERS=3 brokers, left running until Ctrl-C, to look around in.
cluster: BROKERS ?= 3
cluster: release
	DEMO_SECONDS=0 BROKERS=$(BROKERS) tools/demo

test: build
	tools/run-tests build/dev -L '$(LABELS)'

# Other people's clients, servers and tools against ours.
interop: build
	tools/npm tests/interop
	tools/run-tests build/dev -L interop

# Every program of docs/examples, as a reader would run it.
examples: build
	tools/npm tests/interop
	tools/run-tests build/dev -R 'test_examples|test_libfoliot'

unit: build
	tools/run-tests build/dev -L unit

# Leaks and sanitizer reports fail the run.
asan:
	tools/build asan
	tools/run-tests build/asan -L '$(LABELS)'

tsan:
	tools/build tsan
	tools/run-tests build/tsan -L thread

# SEEDS=n runs seeds, SEED=n TRACE=1 tells the story of one; the other variables: tools/sim.
sim:
	@SEEDS='$(SEEDS)' FIRST='$(FIRST)' SEED='$(SEED)' TRACE='$(TRACE)' TASK='$(TASK)' SHARD='$(SHARD)' \
	MINUTES='$(MINUTES)' FAULTS_S='$(FAULTS_S)' SHAPE='$(SHAPE)' SET='$(SET)' JOBS='$(JOBS)' tools/sim

# Break the program on purpose, in each way that the lists know, and see the simulator catch it.
sim-mutants:
	tools/mutants

# A cluster of real processes, hurt at random for so long, judged by journals; a table. The seed is
# printed; CHAOS_PAGE=FILE writes the table in Markdown, too.
chaos: release
	tests/chaos/nemesis.py --build release --seconds $(CHAOS_SECONDS) --zookeepers $(ZOOKEEPERS) \
	    --rate $(CHAOS_RATE) $(if $(CHAOS_SEED),--seed $(CHAOS_SEED)) \
	    $(if $(CHAOS_PAGE),--page $(CHAOS_PAGE))

# Every measure beside its target and the limit of the same run; QUICK=1: under five minutes when nothing else runs.
# OUT=markdown or json; PENDING=50000000: that many far tasks. tools/bench NAME runs one program of tests/bench.
bench: release
	QUICK=$(QUICK) tests/bench/report.py -o $(OUT) $(if $(PENDING),--pending $(PENDING))

# By hand, as root, with Debian's buildah and debootstrap: build deploy/Dockerfile as it is committed,
# and play two pods of the manifests with it.
image: release
	tests/deploy/image.py

fuzz:
	tools/fuzz 60

memcheck:
	tools/memcheck

# Instructions per task on the paths that every task takes, against tests/bench/instructions.txt.
instructions:
	tools/instructions

lint:
	tools/lint

# gcc's own static analysis, warnings are errors.
analyze:
	tools/build analyze

fmt:
	tools/fmt

check:
	tools/check

# By hand: hours are not needed, but many minutes are.
check-long: check lint analyze test asan tsan
	tools/run-tests build/dev -L long
	tools/memcheck 20
	tools/sim 2000
	tools/mutants
	tools/fuzz 600
	$(MAKE) chaos

# A new user's walk on a bare Debian 12 in a folder, by the README alone; as root, with debootstrap.
newcomer:
	tools/newcomer

clean:
	rm -rf build
