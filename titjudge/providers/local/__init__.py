"""Models in this process: vision-language models, embedders and detectors from a folder or the hub.

`huggingface.Local` and `vllm.VLLM` answer requests, `sentence_transformers.SentenceTransformers` embeds texts, and
`zero_shot_detection.ZeroShotDetection` finds objects. They cost nothing, load at the first request and run in a thread. Without
their packages they raise `MissingExtra`; a model that cannot be loaded is a `UserError`.
"""
