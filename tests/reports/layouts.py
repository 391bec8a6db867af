"""Reports about how names of files and folders meet prompts."""

from kinds import Files

THREE = {"0000.png": 1, "0001.png": 2, "0002.png": 3}

REPORTS = [
    Files(
        "AgMMU/AgMMU#5", "the names begin at 0, the list at 1",
        {**THREE, "prompts.txt": "a cat\na dog\na fox\n"},
        reads={"0000.png": "a cat", "0001.png": "a dog", "0002.png": "a fox"},
    ),
]
