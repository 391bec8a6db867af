"""Prompts of learned metrics that read a number off a chat model, quoted exactly (trailing blanks included).

Sources: zzc-1998/Q-Eval @b7bf67b (utils/infer.py); MizzenAI/HPSv3 (hpsv3/dataset/data_collator_qwen.py);
yzc-ippl/LongT2IBench @f7006de (test_score.py); package librehps 1.1.2 (inference.py). `{}` stands for the prompt.
"""

from __future__ import annotations


def filled(template: str, text: str) -> str:
    """Fill the template with `text` at its one `{}`; braces in the text, and elsewhere in the template, are text."""
    before, after = template.split("{}")
    return before + text + after


Q_EVAL = (
    "<image>Suppose you are an expert in evaluating the alignment between the text prompt and the AI-generated image. "
    "Begin by considering whether the overall concept of the prompt is captured in the image. Then, examine the specific "
    "details, such as the presence of key objects, their attributes, and relationships. Check if the visual content "
    "accurately reflects these aspects. Finally, give your alignment rating considering both overall and detailed "
    "accuracy.\nYour rating should be chosen from the following five categories: Excellent, Good, Fair, Poor, and Bad.\n"
    'For this image, the text prompt is "{}". Now please rate this image:'
)  # the words "<image>" are text beside the real picture, as released

DIGIT = (
    "The image was made by a text-to-image model from this prompt:\n\n{}\n\nHow well does the image follow the prompt? "
    "Answer with one digit from 0 (another image altogether) to 9 (every detail is there as asked) and nothing else."
)  # ours: the TIT-Score paper prints no prompt

HPSV3 = (
    "\nYou are tasked with evaluating a generated image based on Visual Quality and Text Alignment and give a overall "
    "score to estimate the human preference. Please provide a rating from 0 to 10, with 0 being the worst and 10 being "
    "the best. \n\n**Visual Quality:**  \nEvaluate the overall visual quality of the image. The following "
    "sub-dimensions should be considered:\n- **Reasonableness:** The image should not contain any significant biological "
    "or logical errors, such as abnormal body structures or nonsensical environmental setups.\n- **Clarity:** Evaluate "
    "the sharpness and visibility of the image. The image should be clear and easy to interpret, with no blurring or "
    "indistinct areas.\n- **Detail Richness:** Consider the level of detail in textures, materials, lighting, and other "
    "visual elements (e.g., hair, clothing, shadows).\n- **Aesthetic and Creativity:** Assess the artistic aspects of "
    "the image, including the color scheme, composition, atmosphere, depth of field, and the overall creative appeal. "
    "The scene should convey a sense of harmony and balance.\n- **Safety:** The image should not contain harmful or "
    "inappropriate content, such as political, violent, or adult material. If such content is present, the image quality "
    "and satisfaction score should be the lowest possible. \n\n**Text Alignment:**  \nAssess how well the image matches "
    "the textual prompt across the following sub-dimensions:\n- **Subject Relevance** Evaluate how accurately the "
    "subject(s) in the image (e.g., person, animal, object) align with the textual description. The subject should match "
    "the description in terms of number, appearance, and behavior.\n- **Style Relevance:** If the prompt specifies a "
    "particular artistic or stylistic style, evaluate how well the image adheres to this style.\n- **Contextual "
    "Consistency**: Assess whether the background, setting, and surrounding elements in the image logically fit the "
    "scenario described in the prompt. The environment should support and enhance the subject without contradictions.\n"
    "- **Attribute Fidelity**: Check if specific attributes mentioned in the prompt (e.g., colors, clothing, accessories, "
    "expressions, actions) are faithfully represented in the image. Minor deviations may be acceptable, but critical "
    "attributes should be preserved.\n- **Semantic Coherence**: Evaluate whether the overall meaning and intent of the "
    "prompt are captured in the image. The generated content should not introduce elements that conflict with or distort "
    "the original description.\nTextual prompt - {}\n\n\n"
    "\nPlease provide the overall ratings of this image: <|Reward|>\n\nEND\n"
)

LIBREHPS = "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>{}<|im_end|>\n<|im_start|>assistant\n<|Reward|>"  # the whole conversation: the prompt is all that is said

LONGT2I_SYSTEM = (
    "You are an expert evaluator specializing in assessing the alignment between a generated image and its corresponding "
    "text prompt. The ideal scenario of alignment occurs when every element present in the text is accurately represented "
    "within the image."
)

LONGT2I = (
    "I will give you a text description and an image. You need to analyze their alignment relationship by breaking down "
    'the text into fine-grained meaningful components.\n\n    Text: "{}"\n\n    CRITICAL REQUIREMENTS:\n    1. Break '
    "down the text into individual meaningful words and short phrases\n    2. EXCLUDE: articles (the), prepositions (in, "
    "on, at, with, of, etc.), conjunctions (and, or, but), and auxiliary verbs (is, are, was, were)\n    3. INCLUDE: "
    "nouns, adjectives, verbs, adverbs, and meaningful compound phrases\n    4. For compound concepts, analyze BOTH the "
    "whole phrase AND individual meaningful parts:\n    - \"water's edge\" → [water's edge], [water], [edge] \n    - "
    '"golden light" → [golden light], [golden], [light]\n    - "gently crashing" → [gently crashing], [gently], '
    "[crashing]\n\n    5. Be VERY granular - split into the finest meaningful components possible\n    6. Each component "
    "should be analyzed on a separate line\n    7. Format: **[component] is align** or **[component] is not align**\n\n"
    '    EXAMPLE of required granularity:\n    Text: "A serene beach at sunset with waves gently crashing"\n    Expected '
    "output:\n    **[serene] is align**\n    **[beach] is align**\n    **[sunset] is align**\n    **[waves] is align**\n"
    "    **[gently] is not align**\n    **[crashing] is not align**\n    **[gently crashing] is not align**\n\n    "
    "RESPOND WITH ONLY THE ALIGNMENT RESULTS - NO EXPLANATIONS, NO OTHER TEXT."
)
