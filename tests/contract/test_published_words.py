"""The words of rubrics that are quoted from papers and code stay as they were published."""

import hashlib

import pytest

from titjudge.core.prompts import PromptLibrary

_VALUES = {
    "prompt": "<prompt>",
    "explanation": "<explanation>",
    "reference": "<reference>",
    "labels": [],
    "question": "<question>",
    "fields": {},
}


def words_digest(name: str) -> str:
    """The first 16 digits of the SHA-256 of what a template of one message says, with a fixed text for each variable."""
    prompt = PromptLibrary().get(name)
    (message,) = prompt.messages({key: value for key, value in _VALUES.items() if key in prompt.variables})
    return hashlib.sha256(message.text.encode()).hexdigest()[:16]


SHA = {
    "imgedit/action": "7e1010ca7c3d3217",
    "imgedit/add": "9a13204eb66117bf",
    "imgedit/adjust": "27f06d170d90a3c0",
    "imgedit/background": "3a2677eec73be77f",
    "imgedit/compose": "d24839eb1e16a1f3",
    "imgedit/extract": "eccec726cfe36000",
    "imgedit/remove": "c13a7000436b4670",
    "imgedit/replace": "c4c91931c2dc5c11",
    "imgedit/style": "1c7fbee23ca76690",
    "imgedit/uge": "d40462d52568b05e",
    "kris/anomaly": "5d31fb2c9e681117",
    "kris/consistency": "931d27391a986e6a",
    "kris/instruction": "3ededfc7f363f49c",
    "kris/instruction_and_knowledge": "2925b2fe6fe60de3",
    "kris/multi_consistency": "1641340a70f77826",
    "kris/multi_instruction": "ffdd9d7c3c954ad4",
    "kris/quality": "e4dd2bffe1e0db44",
    "kris/temporal_consistency": "548424593873ef94",
    "kris/temporal_instruction": "9f2a429335ba7131",
    "kris/viewpoint": "184da9e8ca920b1a",
    "rise/consistency": "2aa8a2af4bcd8606",
    "rise/logical_consistency": "6ffdb030dfd84078",
    "rise/logical_consistency_with_answer": "e9a570319c7d09f6",
    "rise/logical_reasoning": "ed866810ed050e54",
    "rise/logical_reasoning_by_image": "a631bb23817d153c",
    "rise/logical_reasoning_without_instruction": "8cd49d5335cd303c",
    "rise/plausibility": "2d607960deffa2e1",
    "rise/reasoning": "3778b693bcce9af7",
    "rise/reasoning_with_source": "21eb6aac15a406ed",
    "rise/spatial_consistency": "0672dc6560dd8d25",
    "rise/spatial_plausibility": "3bead46a4b0bcf29",
    "rise/spatial_reasoning": "8d90a75b5d1ef07a",
    "rise/spatial_reasoning_by_image": "86422cebbfd4a47c",
    "rise/spatial_reasoning_with_source": "79ff7fa83c512830",
    "wegenbench/english": "0420b49c21e8de07",
    "wegenbench/chinese": "6fe7bcac7c20e8fc",
    "viescore/semantics": "17cc0818cedb3bf2",
    "viescore/quality": "2473ff2c7406e065",
    "unifiedreward/point": "70cc3962c1e298d8",
    "unifiedreward/point_2": "7af14f8853c2ff50",
    "viescore/edit_semantics": "f9b17ce4d58e2182",
    "viescore/edit_quality": "2473ff2c7406e065",
}


@pytest.mark.parametrize("name", list(SHA))
def test_the_words_stay_as_published(name: str) -> None:
    assert words_digest(name) == SHA[name]
