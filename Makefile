.PHONY: install fast test lint docs site ci

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
	python .ci/size.py

docs:
	python docs/generate.py

site:
	python docs/site.py --out site

ci:
	.ci/run
