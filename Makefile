.PHONY: install fast test lint docs ci

install:
	python -m pip install -c constraints.txt -e '.[test]'

fast:
	python -m pytest -m "not slow"

test:
	python -m pytest

lint:
	ruff check .
	ruff format --check .
	mypy
	lint-imports

docs:
	python docs/generate.py

ci:
	.ci/run
