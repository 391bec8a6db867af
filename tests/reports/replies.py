"""Reports about how a model's reply is read."""

from kinds import Said

REPORTS = [
    Said(
        "OpenAgentHQ/openagent-eval#74", "a score out of 10 is rescaled by a guess at the scale",
        "lmm-score", ['{"reason": "good", "score": "8/10"}'], status="unparsed",
    ),
    Said(
        "TIGER-AI-Lab/ClawBench#295", 'the text "false" counts as true',
        "questions", ['{"answer": "false"}'], value=0, meta={"asked": {"questions": [{"question": "Is there a dog?"}]}},
    ),
    Said(
        "comet-ml/opik#7848", "of two objects that stand together with other scores one is chosen",
        "lmm-score", ['{"reason": "a", "score": 70}{"reason": "b", "score": 30}'], status="unparsed",
    ),
    Said(
        "comet-ml/opik#7848", "the same as a JSON array",
        "lmm-score", ['[{"reason": "a", "score": 70},\n {"reason": "b", "score": 30}]'], status="unparsed",
    ),
    Said(
        "Nayjest/Gito#244", "the object stands in an array, inside of a code fence",
        "lmm-score", ['```json\n[{"reason": "a", "score": 70}]\n```'], value=70,
    ),
    Said(
        "modelscope/evalscope#1578", "the last bare number of a sentence is taken for the score",
        "lmm-score", ["Of 100 points I would give some, perhaps 3 or 40."], status="unparsed",
    ),
    Said(
        "vllm-project/vllm#34684", "a draft in the thoughts is taken for the answer, if the tags are not <think>",
        "lmm-score", ['<thinking>{"reason": "draft", "score": 5}</thinking>My final score is 80.'], status="unparsed",
    ),
    Said(
        "vllm-project/vllm#26239", "thoughts of gpt-oss come inside of the content, with nothing behind them",
        "lmm-score", ['<|channel|>analysis<|message|>{"reason": "draft", "score": 5}'], status="truncated",
    ),
    Said(
        "garrytan/gbrain#4820", "normalising keeps Latin letters only: the wrong words count as the right ones",
        "text-reading", ["Закрыто 24"], value=0.5, meta={"text": {"texts": ["Открыто 24"], "rule": "words"}},
    ),
    Said(
        "found beside garrytan/gbrain#4820", "a phrase of several words that is read exactly scores near the worst",
        "text-rendering-vlm", ["Hello, World!"], value=0, meta={"text_words": ["Hello, World!"]},
    ),
    Said(
        "ollama/ollama#9664", "a model that got no picture says so in words, and the words are judged as a description",
        "tit-llm", ["I don't see any image in your message. Could you please share it?"], status="refused",
    ),
    Said(
        "stavsap/comfyui-ollama#57", "a refusal is judged as a description",
        "self-eval", ["I'm sorry, I can't assist with that request."], status="refused",
    ),
    Said(
        "found beside stavsap/comfyui-ollama#57", "a description that says what cannot be seen is a description all the same",
        "tit-llm", ["I cannot see the lower part of the dog, but the red cube beside it is whole.",
                    '{"missing": [], "contradicted": [], "reason": "", "score": 70}'], value=70,
    ),
    Said(
        "joshuaswarren/remnic#673", "a judge's negative sentence is read otherwise than its positive one",
        "questions", ["No dog is visible."], value=0, meta={"asked": {"questions": [{"question": "Is there a dog?"}]}},
    ),
    Said(
        "garrytan/gbrain#4820", "the wrong words in another script count as the right ones",
        "text-reading", ["さようなら世界"], value=2 / 7, meta={"text": {"texts": ["こんにちは世界"], "rule": "signs"}},
    ),
    *(
        Said(
            "modelscope/evalscope#1578", "a yes anywhere in the answer is a yes",
            "questions", [answer], value=value, status="unparsed", meta={"asked": {"questions": [{"question": "Is there a dog?"}]}},
        )
        for answer, value in (
            ("Yes and no.", None),
            ("If there were a tail I would say yes.", None),
            ("The answer is yes.", 1),
            ("Final answer: no", 0),
        )
    ),
    *(
        Said(
            "vllm-project/vllm#34684", f"a draft between {before} and {after} is taken for the answer",
            "lmm-score", [f'{before}{{"reason": "draft", "score": 5}}{after}{{"reason": "r", "score": 80}}'], value=80,
        )
        for before, after in (
            ("<think>", "</think>"), ("[THINK]", "[/THINK]"), ("<seed:think>", "</seed:think>"), ("◁think▷", "◁/think▷"),
        )
    ),
    Said(
        "ollama/ollama#9664", "the model says that it cannot look at images",
        "tit-llm", ["I can't view images directly, but if you describe the picture, I can help."], status="refused",
    ),
]
