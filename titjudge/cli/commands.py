"""Name every command, where its code is, and what it does. Nothing is imported here: `--help` stays fast."""

from __future__ import annotations

GROUPS = {
    "Judge images": {
        "judge": (
            "titjudge.cli.judge:judge",
            "Judge the images of a data folder, and say how far the judges agree with people.",
        ),
        "score": ("titjudge.cli.score:score", "Score images against one prompt on the spot."),
        "sweep": (
            "titjudge.cli.sweep:sweep",
            "Run captioners x embedders x judges x templates, and compare them in one table.",
        ),
        "batch": (
            "titjudge.cli.batch:batch",
            "Take the questions of a run elsewhere as a file, and bring answers back.",
        ),
        "merge": ("titjudge.cli.merge:merge", "Join the run folders of shards into one run."),
        "verify": (
            "titjudge.cli.verify:verify",
            "Compute a run again from its stored answers, and name what does not hold.",
        ),
        "serve": ("titjudge.cli.serve:serve", "Serve rewards to training frameworks over HTTP."),
    },
    "Compare and report": {
        "compare": (
            "titjudge.cli.compare:compare",
            "Which generator is better, and how far judges agree with people: runs, votes, ranks, elements, cascades.",
        ),
        "report": (
            "titjudge.cli.report:report",
            "Write the report of one or several runs again, or export their tables.",
        ),
        "aggregate": ("titjudge.cli.aggregate:aggregate", "Tables from answers that exist already; no model is asked."),
        "reference": (
            "titjudge.cli.reference:reference",
            "List or show the leaderboards that papers have published.",
        ),
        "view": ("titjudge.cli.label:view", "Serve the runs folder: progress, spend, reports."),
        "export": ("titjudge.cli.export:export", "Write finished runs as training data; split data by prompt."),
    },
    "Trust a judge": {
        "probe": ("titjudge.cli.probe:probe", "Put a judge to known answers, errors and bribes; print its trust card."),
        "known-answer": (
            "titjudge.cli.known_answer:known_answer",
            "Make test images whose adherence is known by construction.",
        ),
        "label": ("titjudge.cli.label:label", "Serve a page where people vote; turn votes into pairs and ranks."),
    },
    "Prompts and images": {
        "prompts": (
            "titjudge.cli.catalog:prompts",
            "List or show the prompt templates; export the prompts of a suite.",
        ),
        "make-prompts": (
            "titjudge.cli.make_prompts:make_prompts",
            "Make a set of prompts after the recipe of a paper, each prompt checked.",
        ),
        "review-prompts": (
            "titjudge.cli.review_prompts:review_prompts",
            "Serve a page where people accept, edit or reject prompts; export those accepted.",
        ),
        "audit-prompts": (
            "titjudge.cli.audit_prompts:audit_prompts",
            "What a set of prompts is like: lengths, near-duplicates, leaks, balance, language.",
        ),
        "facets": (
            "titjudge.cli.facets:facets",
            "Have a judge name the checklist facets that each prompt puts to the test.",
        ),
        "fetch": ("titjudge.cli.fetch:fetch", "Download the published prompt files of a suite, pinned and checked."),
        "generate": (
            "titjudge.cli.generate:generate",
            "Make the images of exported prompts by a command or a pipeline.",
        ),
        "coverage": (
            "titjudge.cli.generate:coverage",
            "Say which images of which generators are missing; nothing is asked.",
        ),
    },
    "Look things up": {
        "metrics": ("titjudge.cli.catalog:metrics", "List the metrics, what each needs and where it comes from."),
        "suites": ("titjudge.cli.catalog:suites", "List the suites, their versions and deviations."),
        "providers": ("titjudge.cli.catalog:providers", "List the providers and embedders and the keys they read."),
        "cache": ("titjudge.cli.cache:cache", "Show or clear the cache of answers."),
        "doctor": ("titjudge.cli.doctor:doctor", "Say what works here: keys, models, cache, endpoints."),
    },
}
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}
