"""Replies about the conversation, not the image: refusals, "I see no image", and markup or control tokens alone.

Openings are known in several languages. A text that also describes something is a description, whatever it cannot see.
"""

from __future__ import annotations

import re
import unicodedata

from titjudge.core.structured_output import without_chat_tokens
from titjudge.core.words import truncated

_LONGEST, _LONGEST_OTHERS = 1_500, 400  # characters: a longer text describes something
_MARKS = ('"', "“", "”", "'")
_QUOTED = re.compile(r"[\"“”«»「『][^\"“”«»「」『』]{0,300}[\"“”«»」』]|(?<!\w)['‘][^'’\n]{1,200}['’](?!\w)")
_SENTENCE = re.compile(r"(?<=[.!?…。！？।؟])\s*|\n+")

_IMAGE = r"(?:images?|pictures?|photos?|photographs?|pics?|attachments?|visuals?|visual (?:content|inputs?)|files?|screenshots?)"
_NOT = r"(?:can't|cannot|can not|couldn't|could not|won't|don't|do not|didn't|did not|haven't|(?:have|has) not|hasn't|unable to|(?:\w+n't|not) (?:\w+ )?able to|incapable of|lack)"
_HERE = (  # what follows the word image if it is the whole image that is missing, and not one in the image
    r"(?=\W*$|[,.;:!)]|,? (?:(?:was |were |has been |is |are )?(?:\w+ )?(?:attached|provided|uploaded|included|received|shared|sent|loaded|available|supplied)"
    r"|in (?:your|this|our|the (?:message|chat|conversation|prompt|request|input))|here|to (?:describe|view|analy)|for me|directly|you|that|at|right now|yet|currently|from|so|because|with (?:your|this))\b)"
)
_ABSENT = re.compile(  # there is no image for the model: what follows is made up
    rf"\b(?:i|we|am|i'm|assistant|model)\b[^.!?]{{0,60}}?\b{_NOT} (?:\w+ ){{0,2}}?(?:see(?:ing)?|view(?:ing)?|find|received?|access(?:ing)?|open|detect|load|display|perceive|"
    rf"process(?:ing)?|interpret(?:ing)?|analy[sz](?:e|ing)|look at|inspect|have|the ability to (?:see|view)|get)(?: (?:or|and) \w+)? "
    rf"(?:(?:an?|any|the|this|your|actual|external|uploaded|attached|provided|visual|contents? of|access to|to|ability)\s)*{_IMAGE}(?: (?:or|and) \w+)?{_HERE}"
    rf"|\b(?:i|we)\b[^.!?]{{0,20}}?\b{_NOT} (?:\w+ ){{0,3}}?(?:vision|visual|image|multimodal) (?:\w+ ){{0,2}}?(?:capabilit|abilit|support|access|perception)"
    rf"|\b(?:there (?:is|was|are|appears to be|seems to be)|there's|i see|i have|i received|contains?|had|with)(?: \w+)? no {_IMAGE}{_HERE}"
    rf"|(?:^|\b(?:that|note:|error:|appears|seems|like|but|and) )no {_IMAGE}{_HERE}|\b(?:without (?:the|an|any|seeing the) )(?:actual )?{_IMAGE}, i\b"
    rf"|\byour? (?:\w+ ){{0,3}}?(?:\w*n't|not|forgot to|no)\b[^.!?]{{0,30}}?\b(?:upload|attach|provid|includ|shar|send|sent|contain)\w*[^.!?]{{0,30}}?\b{_IMAGE}"
    rf"|\b{_IMAGE}(?: you (?:\w+ )?\w+)?(?: to)? (?:\w+ ){{0,2}}?(?:\w*n't|not|cannot|failed to|unable to)(?: be)? (?:\w+ )?(?:visible to me|load(?!-)|attach|provided|upload|available|accessible|"
    rf"received|come through|came through|show up|opened|displayed|retrieved|processed)|^(?:the )?{_IMAGE}(?: is)? (?:missing|unavailable|not found)(?=[.,!]|$)|\b(?:i|model|assistant|version|interface)\b[^.!?]{{0,20}}?\bdo(?:es)?(?:n't| not) support (?:\w+ )?(?:image|vision|visual)"
    rf"|\b(?:language|text-based|text-only) (?:ai )?model\b[^.!?]{{0,60}}?\b{_NOT}"
    r"|\b(?:image|picture|photo|file)(?: link| file| url)? (?:is|seems|appears)(?: to be)? (?:broken|corrupted)(?=[,.;]|$)"
    rf"|\bas an? (?:ai|artificial|text|large|language|llm)\b[^.!?]{{0,80}}?\b{_NOT}|\b(?:can|i|i'm|am) only (?:able to )?(?:\w+ )?(?:process|read|handle|work with|support|see|accept) (?:\w+ )?text\b"
)
_SEND = r"(?:upload|share|provide|attach|send|paste|supply|include)(?:ing)?"
_ASKS = re.compile(
    rf"\b(?:please|could you|can you|would you|kindly|feel free to)\b[^.!?]{{0,40}}?\b(?:{_SEND}|describe)\b[^.!?]{{0,30}}?\b(?:{_IMAGE}|it|one)\b"
    rf"|\b(?:you(?:'ll| can| could| need)|you to|once you|if you|when you)\b[^.!?]{{0,40}}?\b{_SEND}\b[^.!?]{{0,30}}?\b{_IMAGE}\b"
)
_DECLINES = re.compile(
    rf"\b(?:i|we|i'm|am)\b[^.!?]{{0,40}}?\b(?:{_NOT}|not allowed to|must|have to|will not) (?:\w+ ){{0,2}}?(?:assist|help|comply|fulfil|proceed|continue|engage|decline|do (?:that|this|so)\b"
    r"|(?:provide|give|offer|create|generate|produce|write) (?:\w+ ){0,3}?(?:description|information|details|analysis|assistance|content)"
    r"|(?:describe|discuss|analy[sz]e|process|comment on|respond to|answer|support|complete|identify) (?:this|that|the|your|such|these|those|it|explicit|sensitive|sexual|graphic)\b)"
    r"|\b(?:request|content|image|prompt|message)\b[^.!?]{0,60}?(?:\bviolat\w+ [^.!?]{0,40}?(?:polic|guideline|terms|rules)|\b(?:was|has been|is) (?:blocked|rejected|flagged|filtered)"
    r"|\bagainst (?:our|the|my|usage|content)\b[^.!?]{0,20}?(?:polic|guideline))|\bi(?:'m| am) not comfortable \w+|\bi(?:'d| would) rather not\b|\bi(?:'m| am) programmed (?:to avoid|not to)\b|\bviolate (?:my|our|the) \w*\s?(?:polic|guideline)"
    r"|^(?:content|request|response) (?:blocked|filtered|rejected)"
)
_SORRY = re.compile(
    r"(?:i am |i'm |we're )?(?:(?:so|very|really|truly) )?(?:sorry|afraid|unfortunately|apologies|my apologies|i apologi[sz]e|i regret)\b"
)
_UNWILLING = re.compile(rf"\b(?:i|we|i'm|am)\b[^.!?]{{0,30}}?\b(?:{_NOT}|not allowed|not permitted)")
_NOTHING = re.compile(
    r"\W*(?:n/?a|none|null|nil|undefined|nan|unknown|error|refused|redacted|blocked|no (?:description|content|response|answer|output))\W*"
)
_DESCRIBES = re.compile(  # says what is there all the same
    r"\b(?:but|however|though|although|still|instead|only)\b,? (?!i\b|i'm|as an? |if you|you\b|please|no\b|there (?:is|are) no|[^.!?]{0,80}\b(?:might|may|would)\b)[^.!?]{0,60}?\b(?:shows?|depicts?|"
    r"there (?:is|are)|features?|contains?(?! content)|(?:can|do) see|portrays?|stands?|lies|sits|wears?)\b|[但][是]?,? ?(?:画面|图|可以看|能看|中央|其中)"
)
_TALK = re.compile(
    r"\b(?:i|i'm|i'd|i'll|we|me|my|us|our|you|your|please|sorry|polic\w+|guidelines|request\w*|assist\w*|help\w*|upload\w*|content|let|might|may|would|typical\w*|sure|hello|hi|okay|certainly)\b"
)

_PERSON = re.compile(
    r"\b(?:i|i'm|i'd|i'll|i've|we|me|my|us|our|you|your|please|sorry|ich|mir|sie|ihnen|bitte|je|j'ai|vous|votre|désolé|yo|puedo|usted|tu|por favor|eu|posso|consigo|"
    r"você|io|mi|ti|я|мне|вы|вас|вам|ik|u|mij|nie mogę|proszę|tôi|bạn|saya|anda|أنا|मैं|आप)\b|[我您你请請]|私|ください|申し訳|저는|제가|주세요|죄송"
)

_CHAT = re.compile(
    r"\b(?:message|upload\w*|provided?|chat|conversation|directly|request|you|your|language|text-(?:based|only)|share)\b"
)

# Of other languages: apologies; what a speaker cannot do or see; what that is about, or a request for an image.
_OTHERS = [
    ("(?:我)?(?:很|非常|实在|十分|真的|深感)?(?:抱歉|对不起|不好意思|遗憾|對不起|遺憾)|作[为為][^，。]{0,16}(?:模型|助手|人工智能|ai)",
     "无法|不能|没办法|没法|未能|不支持|無法|沒辦法|不便|看不到|看不见|看不見|没有(?:看到|收到|提供|上传|检测到|附|找到)|未(?:检测|能)|沒有(?:看到|收到|提供|上傳)|未(?:上传|提供|收到)|没(?:看到|收到)",
     "[图圖](?![片像]?[中里上下左右内底背裡內])|照片(?![中里上下])|请求|請求|协助|帮助|幫助|描述|回答"),
    ("(?:大変|誠に)?(?:申し訳|すみません|恐れ入り|ごめん|残念)", "できません|できない|ません|かねます", "(?:画像|写真)(?:を|については|[がは](?:添付|見え|表示|確認|あり|提供))|リクエスト|ご要望|手伝|お答え"),
    ("(?:정말 )?(?:죄송|미안|유감|안타깝)", "수 없|없습니다|않|못", "이미지(?!에|의)|사진(?!에|의)|요청|도움|도와"),
    ("(?:es )?tut mir (?:sehr )?leid|entschuldig|leider|ich bedaure", "ich .{0,50}?(?:nicht|kein)|(?:kann|sehe|habe|darf) ich .{0,50}?(?:nicht|kein)|kein \\w+ (?:ange|hoch|über)",
     "\\b(?:kein bild|keine? (?:bilder|fotos?)|anfrage|helfen|weiterhelfen|anhang|bilder|(?:das|dieses|ihr|dein) bild (?:nicht|leider|beschr|anz))"),
    ("(?:je suis )?(?:vraiment |sincèrement )?(?:désol|navré)|excusez|pardon|malheureusement|je regrette", "je (?:ne|n').{0,50}?(?:pas|aucune?|rien|voir|aider|fournir)|aucune image",
     "\\b(?:(?:voir|visualiser|ouvrir) (?:l'|cette |votre )image|d'images?|aucune (?:image|photo)|les images|l'image (?:jointe|fournie)|demande|aider|assister|cette image\\W*$|décrire (?:cette|l'|votre|les))"),
    ("lo (?:siento|lamento)|lamento|disculp|perdón|lamentablemente|desafortunadamente", "\\bno (?:puedo|veo|tengo|hay|he|recibí|se|es|encuentro|podemos|me)\\b",
     "\\b(?:ninguna (?:imagen|foto)|imágenes|solicitud|ayudar|petición|describir (?:esta|la|est|im)|la imagen (?:adjunta|que)|ver la imagen\\W*$)"),
    ("sinto muito|lamento|desculp|peço desculp|infelizmente|perdão", "\\bnão (?:posso|consigo|vejo|tenho|há|recebi|é|podemos|encontrei)\\b",
     "\\b(?:nenhuma (?:imagem|foto)|imagens|solicitação|pedido|ajud|descrever (?:esta|a|est|im)|ver a imagem\\W*$)"),
    ("mi (?:dispiace|spiace)|scus|purtroppo|chiedo scusa|sono spiacente", "\\bnon (?:posso|riesco|vedo|sono|ho|è|c'è|possiamo)", "\\b(?:(?:nessuna|alcuna) (?:immagine|foto)|immagini|richiesta|aiutar|descrivere (?:quest|l'|im)|vedere l'immagine\\W*$)"),
    ("извин|прошу прощения|простите|к сожалению|мне (?:очень )?жаль|вибачте|на жаль", "не (?:могу|вижу|в состоянии|имею|можу|бачу|получил|смогу)|невозможно",
     "(?:изображени[еяй]|картинк[уи]|фото|зображення)(?! на)(?=\\W*$|[,.!]| (?:в вашем|напрямую|или))|запрос|помочь|допомогти"),
    ("عذر|آسف|أعتذر|نأسف|للأسف|معذرة", "لا (?:يمكن|أستطيع|أرى|أملك|توجد|يوجد)|لم (?:أتمكن|أستطع|يتم)|غير قادر", "صور|طلب|مساعد"),
    ("het spijt me|excuses|helaas|mijn excuses", "ik .{0,50}?(?:niet|geen)", "\\b(?:geen (?:afbeelding|foto)|afbeeldingen|verzoek|helpen)"),
    ("przepraszam|przykro mi|niestety", "\\bnie (?:mogę|widzę|jestem|mam|potrafię)\\b", "(?:żadnego|obrazów|obrazu\\W*$|zdjęcia\\W*$|prośb|pomóc|obrazu?[,.])"),
    ("üzgünüm|özür dilerim|maalesef", "(?:emi|amı|mi|mı)yorum|emem|amam|mümkün değil", "görsel|görüntü|resim|resm|fotoğraf|yardım|isteğ|istek"),
    ("(?:tôi )?(?:rất )?(?:xin lỗi|rất tiếc)|(?:mohon )?maaf|sayangnya", "không (?:thể|thấy|có)|tidak (?:dapat|bisa|melihat|mampu)", "hình ảnh|bức ảnh|yêu cầu|giúp|gambar|permintaan|membantu"),
    ("(?:मुझे )?(?:क्षमा|खेद|माफ)", "नहीं|असमर्थ", "छवि|चित्र|तस्वीर|इमेज|अनुरोध|मदद|सहायता"),
]  # fmt: skip
_ASKS_OTHERS = re.compile(
    "请(?:您|你)?重新上传|^图[片像](?:加载|上传|显示|读取)失败|请(?:您|你)?(?:重新|先|再次)?(?:上传|提供|发送|分享|附上)[^。]{0,8}(?:图|照片)|請[^。]{0,4}(?:上傳|提供|發送)[^。]{0,8}(?:圖|照片)|[您你](?:似乎|好像|可能|还|還)*(?:没有|未|并未|尚未|忘记|沒有|没)(?:上传|提供|附|发送|上傳)"
    "|(?:画像|写真)を[^。]{0,12}(?:アップロード|添付|送信|提供|共有|送って)|(?:이미지|사진)[를을]? ?(?:다시 )?(?:업로드|첨부|공유|제공|보내)[^.]{0,12}(?:주세요|주시)"
    "|(?:laden|senden|schicken|teilen) sie[^.!?]{0,20}(?:bild|foto)|(?:téléchargez|envoyez|partagez|pourriez-vous|veuillez)[^.!?]{0,30}(?:image|photo)|(?:suba|sube|adjunt|compart|env[ií]|proporcion)\\w*[^.!?]{0,20}(?:imagen|foto)"
    "|(?:envie|carregue|anexe|compartilhe|forneça)[^.!?]{0,20}(?:imagem|foto)|(?:carica|invia|allega|condividi)[^.!?]{0,20}(?:immagine|foto)|(?:nenhuma imagem|aucune image|ninguna imagen|nessuna immagine|kein bild|изображение не)[^.!?]{0,12}(?:foi|fornec|enviad|anexad|fourni|joint|proporcion|adjunt|fornit|allegat|hochgeladen|vorhanden|загружен|прикрепл|предоставл)"
    "|(?:загрузите|пришлите|прикрепите|отправьте)[^.!?]{0,25}(?:изображ|картин|фото)"
)
_OTHER = [tuple(re.compile(each) for each in language) for language in _OTHERS]


def refusal(text: str) -> str:
    """Return in one line why a text is no description of an image; empty if it is one."""
    if not text.strip():
        return ""
    if _without_content(text):
        return f"the answer is markup alone: {truncated(text.strip(), 60)!r}"
    return f"the model declined: {truncated(' '.join(text.split()), 80)!r}" if declines(text) else ""


def _without_content(text: str) -> bool:
    """Whether a text is markup, control tokens or a word such as `N/A` alone."""
    bare = re.sub(r"```\w*|</?[a-zA-Z][\w-]*(?:\s[^<>]*)?/?>", " ", without_chat_tokens(text))
    return not any(sign.isalnum() for sign in bare) or _NOTHING.fullmatch(bare.strip().lower()) is not None


def declines(text: str, *, answers: bool = False) -> bool:
    """Whether a text refuses, or says that there is no image, and describes nothing.

    What stands in quotation marks does not count, as it may be written in the image. With `answers`, the text is the answer
    to a question, which may be about a picture in the image: only what is about the conversation counts.
    """
    text = unicodedata.normalize("NFKC", without_chat_tokens(text)).replace("’", "'").casefold().strip("*_ \n")
    if text[:1] in _MARKS and text[-1:] in _MARKS and not set(text[1:-1]) & set('"“”'):
        text = text[1:-1]
    text = re.sub(r"[ \t*_#>`~|\[\]]+", " ", _QUOTED.sub(" ", text)).strip(" '\"-:")
    if len(text) > _LONGEST:
        return False
    sentences = [sentence.strip() for sentence in _SENTENCE.split(text) if sentence.strip()]
    if not sentences:
        return False
    opening = " ".join(sentences[:2])
    if _ASKS_OTHERS.search(text):
        return len(text) <= _LONGEST_OTHERS
    absent = _ABSENT.search(opening) or (_TALK.search(sentences[0]) and _ASKS.search(text))
    if absent and (not answers or _CHAT.search(opening)):
        return not _described(sentences)
    sorry = _SORRY.match(text) is not None
    if _DECLINES.search(opening) or (sorry and _UNWILLING.search(opening)):
        return not _described(sentences)
    for apology, unable, about in _OTHER:
        found = unable.search(opening[:120])
        near = 40 if opening[:1] < "\u2e80" else 12  # characters of an alphabet, or Chinese, Japanese and Korean ones
        if found and (apology.match(text) or (not answers and found.start() < near and about.search(opening))):
            return len(text) <= _LONGEST_OTHERS and not _DESCRIBES.search(text)
    return False


def addresses_someone(text: str) -> bool:
    """Whether a text speaks of its speaker or to a reader, outside of quotation marks."""
    return _PERSON.search(_QUOTED.sub(" ", text.replace("’", "'").casefold())) is not None


def _described(sentences: list[str]) -> bool:
    """Whether a sentence describes something: one that is not about the conversation, or says what is there all the same."""
    rest = [sentence for sentence in sentences[1:] if len(sentence) > 20 and not _TALK.search(sentence)]
    return bool(rest) or any(_DESCRIBES.search(sentence) for sentence in sentences)
