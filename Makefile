# Every target makes the virtual environment it needs; nothing else has to be installed by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready

# The tests start many interpreters, which would else compile every module again.
unexport PYTHONDONTWRITEBYTECODE

# Packages that stakes plugs into; what each is tested with is in tests/integrations/requirements.
PLUGINS := neuralforecast darts lightning anemoi

.PHONY: install demo test tests snapshots lint browser docs reproduce bench forecast-quality plugins release soak clean

install: $(INSTALLED)

demo: $(INSTALLED)
	$(BIN)/stakes demo

# The types are checked beside the tests: by itself that would leave all cores but one idle.
test: $(READY) browser
	@$(MAKE) --no-print-directory --jobs 2 lint tests

tests: $(READY)
	$(BIN)/python -m pytest -n auto --dist worksteal

# The files of sentences that tests compare with, written anew; a look at the difference says whether they read well.
snapshots: $(READY)
	RENEW=1 $(BIN)/python -m pytest --quiet -n 0 $$(grep -rl --include='test_*.py' 'from snapshots import' tests)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The pages are tested in Debian's chromium; where it cannot be installed, those tests are skipped and say so.
browser:
	@(command -v chromium && command -v chromedriver) >/dev/null || if command -v apt-get >/dev/null && test "$$(id -u)" = 0; then \
		(apt-get update -qq && apt-get install -y -qq chromium chromium-driver) >/dev/null 2>&1 || true; fi

# The site, in build/docs/index.html; needs no network, and a warning is an error.
docs: $(READY)
	$(BIN)/sphinx-build --fail-on-warning --keep-going --fresh-env --write-all --quiet docs build/docs
	$(BIN)/python -m pytest --quiet -m site tests/test_site.py

reproduce: $(INSTALLED)
	$(BIN)/python -m reproduction all --budget quick

bench: $(READY)
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m benchmarks.sampling --device cpu --json benchmarks/results/sampling_cpu.json
	$(BIN)/python -m reproduction.benchmarks.evaluation --json reproduction/benchmarks/results/evaluation_cpu.json
	$(BIN)/python -m benchmarks.decide --json benchmarks/results/decide_cpu.json
	$(BIN)/python -m benchmarks.given_forecasts --json benchmarks/results/given_forecasts_cpu.json
	$(BIN)/python -m reproduction.benchmarks.sweep_cpu --json reproduction/benchmarks/results/sweep_cpu.json

# An hour or more on 2 cores; what is there in build/forecast_quality is not run again.
forecast-quality: $(READY)
	$(INSTALL) --editable ".[bench]"
	$(BIN)/python -m benchmarks.forecast_quality --jobs 2

# Each package in an environment of its own beside our torch, since what one of them pins need not suit another.
plugins: $(PLUGINS:%=plugin-%)

plugin-%: build/plugins/%/.installed
	build/plugins/$*/bin/python -m pytest --noconftest -m plugins tests/integrations/test_$*.py

# What would be published, in dist/: built without a warning, installed alone in an empty environment, where it runs gallery and tutorial.
# Its size is told against the last tag, or `make release BASE=COMMIT`.
release: $(READY)
	$(INSTALL) build
	rm -rf dist build/release
	$(BIN)/python -W error -m build
	$(BIN)/python tests/safety/package_size.py $(BASE)
	du --apparent-size --block-size=1K dist/*.whl
	$(PYTHON) -m venv build/release
	build/release/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt dist/*.whl
	$(BIN)/python tests/soak/wheel_tutorial.py build/release

soak: $(READY) plugins release
	$(BIN)/python -m benchmarks.accuracy --sets 5000000
	$(BIN)/python reproduction/tests/training_kills.py
	$(BIN)/python tests/soak/service_load.py
	$(BIN)/python tests/soak/hostile_requests.py
	$(BIN)/python tests/soak/hostile_commands.py
	$(BIN)/python tests/soak/torchrun_example.py
	$(BIN)/python tests/soak/panel_on_ray.py
	$(BIN)/python -m pytest -m soak
	STAKES_TEST_ALL_EXAMPLES=1 $(BIN)/python -m pytest -m hypothesis
	$(BIN)/python tests/soak/nonconvex_costs.py
	$(BIN)/python tests/soak/hostile_programs.py

$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) torch
	$(INSTALL) --editable ".[serve]" # what the README's commands need
	touch $(INSTALLED)

$(READY): $(INSTALLED)
	$(INSTALL) --editable ".[test,docs]"
	touch $(READY)

.PRECIOUS: build/plugins/%/.installed
build/plugins/%/.installed: tests/integrations/requirements/%.txt pyproject.toml
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $< --editable .
	if test -e $(<:.txt=.alone.txt); then $(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
		--requirement $(<:.txt=.alone.txt); fi # a package that wants another torch
	touch $@

clean:
	rm -rf $(VENV) build docs/gallery .mypy_cache .pytest_cache .ruff_cache
