"""The commands: where the code of each is, and what it does. Nothing is imported here, so that `--help` stays fast."""

from __future__ import annotations

GROUPS = {
    "Judge images": {
        "judge": ("judge", "Judge the images of a data folder, and measure how far the judges agree with people."),
        "score": ("score", "Score a few images against one prompt."),
        "sweep": ("sweep", "Run captioners x embedders x judges x templates, and compare them in one table."),
        "batch": ("batch", "Export the questions of a run to a file; import or record answers from a file."),
        "merge": ("merge", "Join the run folders of shards into one run."),
        "verify": ("verify", "Recompute a run from its stored answers, and name what differs."),
        "serve": ("titjudge.apps.rewards.command:serve", "Serve rewards to training frameworks over HTTP."),
    },
    "Compare and report": {
        "compare": ("compare", "Compare generators, or judges with people: runs, votes, ranks, elements, cascades."),
        "report": ("report", "Write the report of one or several runs again, or export their tables."),
        "aggregate": ("aggregate", "Compute official tables from answers that exist already; no model is asked."),
        "reference": ("reference", "List or show leaderboards published in papers."),
        "view": ("view", "Serve the runs folder: progress, cost, reports."),
        "export": (
            "titjudge.apps.training.command:export",
            "Write finished runs as training data; split data by prompt.",
        ),
    },
    "Trust a judge": {
        "probe": ("probe", "Test a judge on known errors, planted errors and bribes; print its trust card."),
        "known-answer": ("titjudge.apps.scenes.command:known_answer", "Make test images whose errors are known."),
        "label": (
            "titjudge.apps.label.command:label",
            "Serve a page where people vote; turn votes into pairs and ranks.",
        ),
    },
    "Prompts and images": {
        "prompts": ("catalog:prompts", "List or show the prompt templates; export the prompts of a suite."),
        "make-prompts": (
            "titjudge.apps.prompt_sets.make_command:make_prompts",
            "Make a set of prompts by the recipe of a paper, and check each.",
        ),
        "review-prompts": (
            "titjudge.apps.prompt_sets.review_command:review_prompts",
            "Serve a page where people accept, edit or reject prompts; export them.",
        ),
        "audit-prompts": (
            "titjudge.apps.prompt_sets.audit_command:audit_prompts",
            "Audit a set of prompts: lengths, near-duplicates, leaks, balance, language.",
        ),
        "facets": (
            "titjudge.apps.prompt_sets.facets_command:facets",
            "Let a judge name the checklist facets that each prompt tests.",
        ),
        "fetch": ("fetch", "Download the published prompt files of a suite, pinned and verified."),
        "generate": (
            "titjudge.apps.generate.command:generate",
            "Make the images of exported prompts with a command or a pipeline.",
        ),
        "coverage": ("coverage", "List the missing images of each generator; no model is asked."),
    },
    "Look things up": {
        "metrics": ("catalog:metrics", "List the metrics, what each needs and where it comes from."),
        "suites": ("catalog:suites", "List the suites, their versions and deviations."),
        "providers": ("catalog:providers", "List the providers and embedders and the keys they read."),
        "cache": ("cache", "Show or clear the cache of answers."),
        "doctor": ("doctor", "Check what works here: keys, models, cache, endpoints."),
    },
}
"""Title of a group -> command -> (module of `titjudge.cli`, with `:FUNCTION` if named otherwise; what it does)."""

RESUMED = frozenset({
    "batch", "facets", "fetch", "generate", "judge", "known-answer", "label", "make-prompts", "probe", "review-prompts", "score",
    "serve", "sweep",
})  # fmt: skip
"""Commands that, stopped and given again, go on where they stopped; the others start anew."""

COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}
