# Verbs of the project. `make demo` and `make test` need nothing but Python 3.11+.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
STAMP := $(VENV)/.installed
DOCS := $(VENV)/.installed-docs

.PHONY: demo test check prove proofs format bench docs clean

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[exact,plot,mpi,dev]'
	@touch $(STAMP)

demo: $(STAMP)
	$(BIN)/reconstruct demo -o demo-out --force

# One thread each, as many at once as there are processors; what one process compiles, the hundred
# others that tests start do not compile again, whatever the environment says about that.
test: $(STAMP)
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= \
	$(BIN)/python -m pytest -q -n auto --dist loadfile

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Every statement that the tool rests on, and what its check is worth.
prove: $(STAMP)
	$(BIN)/python -m proofs_check

# The theorems of proofs_check/coq, by the proof assistant Coq; says what to install where it is missing.
proofs: $(STAMP)
	$(BIN)/python -m proofs_check theorems

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)
	$(BIN)/python -m benchmarks

$(DOCS): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $(DOCS)

docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --config-file .mkdocs.yml
	@echo site/index.html

clean:
	rm -rf $(VENV) build dist *.egg-info site demo-out
