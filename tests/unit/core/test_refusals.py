"""What is a description of an image, and what is a refusal: tables in both directions."""

import contextlib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies._internal.regex import IncompatibleWithAlphabet

from titjudge.core import refusals
from titjudge.core.patterns import lazy_pattern
from titjudge.core.refusals import declines, refusal

REFUSALS = [
    "I'm unable to see or describe images.",
    "I can't actually see the image you're referring to.",
    'I’m sorry, but I wasn’t able to load the image.',
    "I'm not able to open attachments.",
    'I cannot view the content of the image.',
    "I'm sorry, but I cannot see any image attached to your request.",
    "It looks like the image wasn't uploaded properly.",
    "You haven't attached any image.",
    'Image missing.',
    'I did not receive an image.',
    'I have not received any picture.',
    'No picture was attached, so I cannot describe it.',
    'There seems to be no image in the conversation.',
    "I'm sorry, but I can't comply with this request.",
    "I can't describe this image as it contains explicit content.",
    "I'm sorry, I can't identify who this is.",
    'Sorry, I am only able to process text input.',
    'This model does not support image input.',
    'I do not support images.',
    "My apologies, I can't provide that.",
    "I'm sorry, but I'm not able to provide a description of the image you've shared.",
    "I'm just a language model, so I can't help you with that.",
    'I am a large language model and I cannot see.',
    'As a large language model, I am not able to see images.',
    "As an AI assistant, I don't have the ability to see images.",
    'Request blocked by content policy.',
    'The content was flagged as inappropriate and cannot be described.',
    'I cannot create content of that kind.',
    'Describing this image would violate my guidelines.',
    "I'm not comfortable describing this image.",
    "I'd rather not describe this image.",
    'I am programmed to avoid describing such content.',
    '我不能查看图像。',
    '对不起，我不能提供这种帮助。',
    '我是一个语言模型，无法看到图片。',
    '该图片涉及敏感内容，无法描述。',
    '你好，我无法直接看到图片，请描述一下图片内容。',
    '图像加载失败。',
    '抱歉，没有找到图片。',
    '我看不到您上传的图片。',
    'この画像については説明できません。',
    '画像が見えません。',
    '申し訳ございません。画像を表示できません。',
    '이미지가 첨부되지 않았습니다.',
    '저는 이미지를 볼 수 없습니다.',
    'Ich kann das Bild leider nicht sehen.',
    'Ich kann Ihnen dabei leider nicht helfen.',
    'Es wurde kein Bild hochgeladen.',
    "Je ne peux pas voir l'image.",
    'Je suis désolée, je ne peux pas décrire cette image.',
    "Aucune image n'a été fournie.",
    'Lo siento, no puedo describir esta imagen.',
    'No se ha proporcionado ninguna imagen.',
    'No puedo ver la imagen.',
    'Não consigo ver a imagem.',
    'Nenhuma imagem foi fornecida.',
    "Non riesco a vedere l'immagine.",
    'Я не могу видеть изображения.',
    'Изображение не загружено.',
    'Извините, я не вижу изображения.',
    'لا أستطيع رؤية الصورة.',
    "I don't see any image in your message. Could you please share the image you would like me to describe?",
    "I'm sorry, I can't assist with that request.",
    "I'm sorry, but I can't view images directly. Please describe the image and I will help.",
    "I'm unable to view images.",
    'I cannot see the image.',
    "Sorry, I can't help with that.",
    "I'm sorry, but I cannot provide a description of this image.",
    'I can’t help with identifying people in images, but if you share another one I can help.',
    'There is no image attached to your message.',
    'No image was provided.',
    'No image provided. Please upload an image.',
    'It seems that the image did not load. Could you upload it again?',
    "It looks like you haven't uploaded an image. Please upload it so that I can describe it.",
    'It appears no image was attached.',
    'As an AI language model, I cannot see images.',
    "As a text-based AI, I don't have the ability to view images. However, I can help you with text.",
    "I'm a text-only model and cannot process images.",
    'Unfortunately, I am not able to access the image you provided.',
    'Please provide the image you would like me to describe.',
    "Sure! Please upload the image and I'd be happy to describe it in detail.",
    "I'd be happy to help! However, I don't see an image attached. Could you please share it?",
    "I apologize, but I'm unable to describe this image as it may violate our content policy.",
    'I must decline to describe this image.',
    "I won't describe this image.",
    'This request violates our content policy.',
    'Your request was rejected because the image was flagged by our safety system.',
    'The image you provided could not be loaded.',
    'The image failed to load.',
    'I am not able to see the picture. Can you send it again?',
    "I currently can't view or analyze images.",
    'I can only process text.',
    'My apologies, but I am unable to fulfill this request.',
    '我无法查看图片。',
    '抱歉，我无法看到您提供的图片。请您重新上传图片，我会尽力为您描述。',
    '很抱歉，我不能协助处理这个请求。',
    '对不起，我看不到图片。',
    '您似乎没有上传图片，请上传后我再为您描述。',
    '作为一个AI语言模型，我无法直接查看图片。',
    '我没有看到任何图片。',
    '抱歉，我無法查看圖片。',
    '申し訳ありませんが、画像を見ることができません。',
    '画像が添付されていないようです。画像をアップロードしてください。',
    '申し訳ございませんが、そのリクエストにはお応えできません。',
    '죄송합니다. 이미지를 볼 수 없습니다.',
    '이미지를 업로드해 주세요.',
    '죄송하지만 도와드릴 수 없습니다.',
    'Es tut mir leid, aber ich kann das Bild nicht sehen.',
    'Ich sehe kein Bild in Ihrer Nachricht. Bitte laden Sie das Bild hoch.',
    'Leider kann ich keine Bilder anzeigen.',
    "Je suis désolé, mais je ne peux pas voir l'image.",
    'Je ne vois aucune image dans votre message.',
    'Je ne peux pas vous aider avec cette demande.',
    'Lo siento, pero no puedo ayudar con eso.',
    'No veo ninguna imagen en tu mensaje.',
    'No puedo ver imágenes.',
    'Desculpe, não consigo ver a imagem.',
    'Não posso ajudar com essa solicitação.',
    "Mi dispiace, ma non posso vedere l'immagine.",
    'Извините, но я не могу помочь с этим запросом.',
    'Я не вижу изображения в вашем сообщении.',
    'К сожалению, я не могу просматривать изображения.',
    'عذرًا، لا يمكنني رؤية الصورة.',
    'Het spijt me, maar ik kan de afbeelding niet zien.',
    'Przepraszam, ale nie mogę zobaczyć obrazu.',
    'Üzgünüm, görseli göremiyorum.',
    'Xin lỗi, tôi không thể xem hình ảnh.',
    'Maaf, saya tidak dapat melihat gambar.',
    'मुझे खेद है, मैं छवि नहीं देख सकता।',
    "I'm sorry, but I can't do that.",
    "I'm sorry, but I can't identify or describe the people in this image.",
    "I don't have access to the image.",
    'I do not have the ability to view images.',
    'Apologies, but no image was included in your request.',
    "Hello! I don't see an image here. Could you share it again?",
    "There's no picture for me to describe.",
    "I'm not able to help with that, as it goes against my guidelines.",
    'It seems there is no image attached.',
    'I see no image.',
    'I have no image to describe.',
    'You did not provide an image.',
    "I'm sorry, but as a language model I'm not able to view pictures.",
    'I need the image in order to describe it. Please attach it.',
    "**I'm sorry, but I can't assist with that.**",
    '"I\'m sorry, I can\'t help with that."',
    "I'm afraid I can't see the photo you mentioned.",
    'No image',
    '[No image]',
    'Image not available.',
    "<|im_start|>I'm sorry, I can't assist with that request.<|im_end|>",
    "Without the image, I can't describe it.",
    "I'm really sorry, but I can't assist with this.",
    "I'm unable to assist with this.",
    'I cannot comply.',
    'The image cannot be displayed.',
    "I'm sorry, but I can't help with that. Let me know if there's anything else.",
    "I'm sorry, I'm not able to analyze the image directly. If you could describe its contents, I'd be glad to help!",
    "I'm not able to view or interpret images at the moment.",
    "Unfortunately I can't see any attachments.",
    "I can't see any image here. Would you mind uploading it?",
    "Hi there! It seems like your image didn't come through. Please try again.",
    "Your message doesn't contain an image.",
    "The image link is broken; I couldn't open it.",
    "I am unable to see any images. I'm a text-based model.",
    "I don't have vision capabilities.",
    "I do not have eyes, so I can't see the picture.",
    "I can't assist.",
    "Sorry, but I won't be able to help with this image.",
    "I'm sorry, but this image appears to contain content I can't describe.",
    'I cannot generate a description for this image because it contains sensitive content.',
    "As an AI developed by X, I don't have the capability to directly view images.",
    'Please note that I cannot view images.',
    "I'm unable to process visual content. Can you tell me what is in the picture?",
    'Note: no image was included with the prompt.',
    'ERROR: image could not be loaded',
    'Could you please describe the image? I cannot see it.',
    'I cannot directly view or process images. However, based on typical scenes, an image like this might contain a dog in a park, with trees and people.',
    'Content blocked by safety filter.',
    "I'm designed to be a helpful and harmless assistant, and I can't describe explicit content.",
    'I am sorry, I cannot fulfill this request. I am programmed to be a helpful and harmless AI assistant. My safety guidelines prohibit me from describing images of this kind.',
    '抱歉，我不能描述这张图片的内容。',
    '很抱歉，我目前无法处理图像。如果您能用文字描述图片内容，我很乐意帮助您。',
    '由于我是文本模型，无法直接看到图片。',
    '未检测到图片，请重新上传。',
    '请提供图片。',
    '您没有提供图片。',
    '非常抱歉，根据相关规定，我无法回答这个问题。',
    '图片无法显示。',
    'すみません、画像が見えません。',
    '申し訳ありませんが、この画像についてはお答えできません。',
    '画像を確認できません。',
    'Ich kann keine Bilder sehen oder analysieren.',
    'Tut mir leid, dabei kann ich nicht helfen.',
    'Désolé, je ne peux pas répondre à cette demande.',
    'Je ne suis pas en mesure de voir les images.',
    'Lo siento, no puedo ver la imagen. Por favor, sube la imagen de nuevo.',
    'Lamento, mas não posso descrever esta imagem.',
    'Non vedo alcuna immagine. Puoi caricarla di nuovo?',
    'Не могу увидеть изображение. Пожалуйста, загрузите его ещё раз.',
    '죄송합니다, 이미지가 보이지 않습니다.',
    'आपने कोई छवि अपलोड नहीं की है।',
    'لا أرى أي صورة في رسالتك.',
    # by the words of the vendors' models, again
    "I notice that no image came through with your message.", "There doesn't appear to be an image in your message.", "Unable to process the image.",
    "It looks like there may have been an issue uploading the image.", "I'd be happy to describe the image, but I don't see one attached.",
    "Cannot describe this image.", "I decline to answer.", "I must refuse this request.", "The response was filtered due to the prompt triggering content management policy.",
    "The image isn't showing up on my end.", "I haven't been given an image.", "I'm sorry, this image is not appropriate for me to describe.",
    "Failed to load image.", "Please try again later.", "Something went wrong.", "Internal server error", "I don't know.", "Thank you for sharing the image!",
    "Where is the image?", "Hello! How can I help you today?", "Here's a detailed description of the image:", "Okay, I will describe the image.",
    "由于图片内容不符合规定，我无法进行描述。", "暂时无法查看图片内容。", "你好，请问有什么可以帮您？", "这张图片不适合描述。", "我需要先看到图片才能描述。",
    "画像がアップロードされていません。", "この画像の内容を説明することはできません。", "画像が読み込めませんでした。", "이미지가 제공되지 않았습니다.",
    "Dieses Bild kann ich nicht beschreiben.", "Bild nicht gefunden.", "Je ne suis pas capable de voir des images.", "Je n'ai pas accès à l'image.",
    "No puedo describir el contenido de esta imagen.", "No se puede mostrar la imagen.", "Não há imagem anexada.", "Изображение отсутствует.",
    "Beklager, jeg kan ikke hjelpe med det.", "ขออภัย ฉันไม่สามารถดูภาพได้", "متأسفم، من نمی‌توانم تصویر را ببینم.", "מצטער, אני לא יכול לראות את התמונה.",
    "Λυπάμαι, δεν μπορώ να δω την εικόνα.", "Omlouvám se, ale obrázek nevidím.", "Sajnálom, nem látom a képet.", "Anteeksi, en näe kuvaa.",
    "Îmi pare rău, nu pot vedea imaginea.",
]  # fmt: skip
DESCRIPTIONS = [
    'The image contains a picture that is not framed.',
    'The man is not comfortable in his chair.',
    'A robot, programmed to avoid walls, stands in a corner.',
    'Only a small part of the image is sharp: the eye of the cat.',
    'The picture found its place above the sofa.',
    'There is no photo in the frame. The frame is made of gold.',
    'Images of saints are not visible on the ceiling; it is blue.',
    'The document file lies open on the desk.',
    'No picture hangs on the wall behind the man.',
    '图片加载了三只猫。',
    '画像の中央に赤い車があります。説明文はありません。',
    "Aucune personne n'est visible. Un chat dort.",
    'Nenhuma pessoa está visível. Há uma árvore.',
    'Изображение не цветное: чёрно-белая улица.',
    "I'm sorry sign on a shop window with a red door and a potted plant beside it.",
    'The image shows no text. A dog lies on a blue carpet.',
    'The image shows no text.',
    'I cannot see the lower part of the statue, but the upper part shows a man with a sword. He stands in front of a grey wall.',
    'I can see a red cube on a blue sphere.',
    'A sign on the wall says "Sorry, we can\'t help you". Below it a cat sleeps.',
    'There is no image on the television; a man sits in front of it.',
    'There is no picture on the wall. The room has a bed and a lamp.',
    'A poster that says "Please upload your photo" hangs above a desk.',
    "I don't see any people in the image. There is a large field with sunflowers and a barn in the distance.",
    'The picture is missing its left half, which is black.',
    "I can't read the small text on the bottle, but the label is green and shows a lemon.",
    'Sorry-looking dog with wet fur sits in the rain.',
    'No image of a person is visible. The wall shows three paintings of horses.',
    'No people are visible. A wide street with shops runs to the horizon.',
    'The image shows a laptop whose screen displays an error message: "Image not found".',
    "The image depicts a robot saying 'I can't assist with that request.' in a speech bubble.",
    "I'm looking at a photograph of a beach at sunset.",
    'Unfortunately blurred, the photo shows a bicycle against a wall.',
    'The image is not sharp. It shows a street at night.',
    'The image is entirely black.',
    'A plain white image without any object.',
    'The image was not taken in daylight: street lamps are lit.',
    'In the image, you can see a cat. You can also see the food that someone shares with it.',
    'The image is a screenshot of a chat. One person writes that they cannot see the image.',
    '图中没有文字。一只狗躺在蓝色地毯上。',
    '这张图片展示了一只红色的狐狸，背景是森林，图片中无法看清远处的文字。',
    '画面中没有人物，只有一张桌子和一把椅子。',
    '无法看清图片下方的文字，但画面中央是一只红色的狗，它站在草地上。',
    '墙上没有图片，房间里有一张床。',
    '画像には犬が写っています。文字は見えません。',
    '写真には人は写っていません。赤い車が一台あります。',
    'Das Bild zeigt einen Hund. Es ist kein Text zu sehen.',
    'Auf dem Bild ist leider kein Mensch zu sehen, nur ein Baum.',
    "L'image montre un chat. On ne voit pas de texte.",
    'La imagen muestra un perro. No hay texto.',
    'No hay personas en la imagen, solo un árbol.',
    'На изображении собака. Текста нет.',
    '이미지에는 개가 있습니다. 글자는 없습니다.',
    'A customer service desk with a sign reading "I\'m sorry, we are closed".',
    "I see a dog. I don't see a cat.",
    'I do not see the picture of the horse that the text mentions; instead there is a cow in a field.',
    'A boy says sorry to a girl who cannot find her picture.',
    'There are no pictures on the shelves, only books.',
    'The photo is of a man who cannot open a jar.',
    'Não há texto na imagem. Um cachorro está deitado.',
    'The image contains no picture frame.',
    'A file cabinet that is not open stands in the corner.',
    'The attached garage is not visible. A white house with a red roof stands on a hill.',
    'A red square on a white background.',
    'None of the cups is red. Four cups are blue.',
    'Null Island on a map with a blue sea.',
    'The word "error" on a red sign.',
    'Sorry, the sign reads, the shop is closed. The photo shows a wooden door with a paper note.',
    "I see a woman holding a sign. I can't make out her face because of the shadow.",
    'I cannot see the face of the man, since he looks away. He wears a brown coat.',
    "I can't tell whether the animal is a dog or a wolf. It is grey and stands in snow.",
    "I can't identify the person, but the image shows a man in a suit at a desk with a lamp.",
    "I'm unable to read the text on the banner. The banner is red and hangs between two poles.",
    'I cannot identify people, but I can describe the image: A woman in a red dress stands next to a horse.',
    "I'm sorry, but I can't identify the people in this image. The image shows two men in dark suits shaking hands in front of flags.",
    'A white page. It has the words please send your image to us in black.',
    'There is no image visible inside the frame; the frame is golden and empty.',
    'There are no pictures or posters in the room.',
    "I don't see an image of a dragon; I see a lizard on a stone.",
    'The photo album is not open. It lies on a table next to a cup of tea.',
    "A screenshot of an upload form with the text 'Please upload your photo here' and a blue button.",
    'A poster about privacy: you can share photos with friends. It has blue letters and three icons.',
    'The file is not open: a folder icon on a desktop.',
    'In this image I can see two dogs. I cannot see any cats.',
    'I see a black screen. There is no visible content.',
    'Das Foto zeigt leider nur eine Wand. Ich kann keine Menschen erkennen.',
    'Je vois un chien sur une plage. Je ne vois pas de chat.',
    'Veo un perro en la playa. No veo ningún gato.',
    '我看到一只狗在沙滩上。我没有看到猫。',
    '我看到图片中有一只狗，没有看到猫。',
    '图片展示了一个人正在请求帮助的海报，背景是蓝色的。',
    '私は犬を見ます。猫は見えません。',
    'Vejo um cachorro na praia. Não vejo nenhum gato.',
    'The screen of the phone shows no picture; the phone is black.',
    'A help desk where I see two people and a sign with the word request on it.',
    'An apology card with the words I am sorry in gold on a green background.',
    # apologies and denials before a description
    "I'm sorry for the blur, but the image shows a red car in front of a house.", "I won't identify the people: two men sit at a table.",
    "While I can't identify the person, she has long brown hair and wears a green dress.", "A computer screen with the message: I'm sorry, I can't do that, Dave.",
    "Unable to see over the fence, the boy stands on a box.", "The man asks: where is my hat?", "Image of a dog.", "A cat.", "猫", "Nothing is visible.", "The image is blank.",
    "Leider ist das Bild unscharf und ich kann nicht alles erkennen. Ein Mann mit Hut steht links neben einem Baum.",
    "Es tut mir leid, den Text kann ich nicht lesen. Das Bild zeigt zwei Katzen auf einem Sofa.",
    "Tyvärr är bilden suddig, och jag kan inte läsa texten. En man i hatt står till vänster.", "Jag kan inte se någon hund. Bilden visar en katt.",
    "Désolé, je ne peux pas identifier la personne, mais l'image montre une femme en robe rouge.", "Lo siento, no puedo leer el texto, pero la imagen muestra un perro.",
    "申し訳ありませんが、人物は特定できません。画像には赤い服の女性が馬の隣に立っています。", "申し訳ありませんが、文字は読めませんが、画像には犬が写っています。",
    "抱歉，我无法识别人物身份。图片中一位女士站在红色的马旁边。", "죄송하지만 글자는 읽을 수 없습니다. 사진에는 빨간 자동차가 있습니다.",
    "Извините, я не могу прочитать текст. На изображении собака лежит на диване.", "Il n'y a personne.", "没有人。", "画像には人がいません。",
]  # fmt: skip
LONG = (
    "A wide street in the evening. On the left there is a bakery with a yellow awning, in front of which two women in blue coats "
    "stand and talk. A cyclist passes them. In the middle of the street a tram with the number 12 waits, and behind it is a church. "
)


@pytest.mark.parametrize("text", REFUSALS)
def test_refusals_in_many_words_and_languages(text: str) -> None:
    assert refusal(text)
    assert refusal(f"**{text}**\n")
    assert refusal(f"<|im_start|>{text}<|im_end|>")
    assert refusal(text.replace("'", "\u2019"))


@pytest.mark.parametrize("text", DESCRIPTIONS)
def test_a_description_of_what_is_or_is_not_there_is_none(text: str) -> None:
    assert refusal(text) == ""
    assert refusal(f"{text} {LONG}") == ""
    assert refusal(f"{LONG} {text}") == ""


@pytest.mark.parametrize(
    "text",
    ["```\n```", "```json\n```", "<|im_end|>", "<|im_start|><|im_end|>", "**", "...", "<div></div>", "</s>", "<img src='x'/>", "N/A", "None.",
     "[image]", "![image](image.png)", "[IMG]", "(image)", "Image:", "[image omitted]", "&nbsp;", "<|endoftext|><|endoftext|>", "<|vision_start|><|image_pad|><|vision_end|>", "{}"],
)  # fmt: skip
def test_markup_alone_is_no_description(text: str) -> None:
    assert "markup" in refusal(text)


@pytest.mark.parametrize(
    "text", ["There is no picture.", "I don't see any pictures.", "No image.", "I see no photo on the wall."]
)
def test_an_answer_about_a_picture_in_the_image_is_an_answer(text: str) -> None:
    assert not declines(text, answers=True)
    assert declines("I'm sorry, I can't assist with that request.", answers=True)
    assert declines("I don't see any image in your message.", answers=True)


@pytest.mark.parametrize(
    "text",
    ["iVBORw0KGgo" * 20, "data:image/png;base64," + "iVBORw0KGgo" * 3, "https://example.com/a/1.png", "image_0001.png", "0 0 0 0", "\ufffd\ufffd", "Assistant:"],
)  # fmt: skip
def test_noise_is_no_description(text: str) -> None:
    assert refusal(text)


def test_the_question_again_is_no_description() -> None:
    asked = "Describe what can be seen in it and nothing else: things and beings with their number."
    assert refusal(f"<image>\n{asked}<|im_end|>", asked)
    assert refusal("A dog.", f"{asked} A dog.") == ""
    assert refusal(f"{asked} A brown dog sleeps.", asked) == ""


@given(st.text(max_size=200))
def test_no_text_crashes(text: str) -> None:
    assert refusal(text) == "" or "\n" not in refusal(text)


ALPHABET = st.characters(codec="ascii")
ENGLISH = [refusals._ABSENT, refusals._DECLINES]
OTHERS = [refusals._ASKS_OTHERS, *(lazy_pattern(unable) for _, unable, _ in refusals._OTHERS)]


@pytest.mark.parametrize(
    ("pattern", "hint"), [*((p, refusals._HINT) for p in ENGLISH), *((p, refusals._HINT_OTHERS) for p in OTHERS)]
)
def test_every_match_of_a_slow_pattern_holds_a_hint(pattern: re.Pattern[str], hint: re.Pattern[str]) -> None:
    source: str = pattern._source[0]  # type: ignore[attr-defined]

    @settings(max_examples=60, deadline=None)
    @given(st.from_regex(re.compile(source), alphabet=ALPHABET))
    def check(text: str) -> None:
        if match := pattern.search(text):
            assert hint.search(match[0]), match[0]

    with contextlib.suppress(IncompatibleWithAlphabet):  # a language whose refusals are never ASCII
        check()


@given(st.sampled_from(REFUSALS), st.sampled_from(["i can't ", "no image ", "please ", "you ", "我", "не "]))
def test_long_texts_end_soon(text: str, part: str) -> None:
    assert not declines(part * 2_000)
    declines(text + part * 200)
