"""Replies about the conversation, not the image: refusals, "I see no image", and markup or control tokens alone.

Openings are known in several languages. A text that also describes something is a description, whatever it cannot see.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from titjudge.core.patterns import lazy_pattern
from titjudge.core.structured_output import without_chat_tokens
from titjudge.core.words import in_one_line, truncated

_LONGEST, _LONGEST_OTHERS = 1_500, 400  # characters: a longer text describes something
_MARKS = ('"', "“", "”", "'")
_LEAST_REPEATED = 20  # characters from which a text that is in the question repeats it
_MARKUP = lazy_pattern(r"```\w*|!?\[([^\]]*)\]\([^)]*\)|</?[a-zA-Z][\w-]*(?:\s[^<>]*)?/?>|&#?\w+;")
_NO_WORD = lazy_pattern(r"(?:https?|data):\S+|\S+\.(?:png|jpe?g|webp|gif|bmp)\b|[a-z0-9+/=_-]{50,}")
_QUOTED = lazy_pattern(r"[\"“”«»「『][^\"“”«»「」『』]{0,300}[\"“”«»」』]|(?<!\w)['‘][^'’\n]{1,200}['’](?!\w)")
_SENTENCE = lazy_pattern(r"(?<=[.!?…。！？।؟])\s*|\n+")

_IMAGE = r"(?:images?|pictures?|photos?|photographs?|pics?|attachments?|visuals?|visual (?:content|inputs?)|files?|screenshots?)"
_NOT = r"(?:can't|cannot|can not|couldn't|could not|won't|don't|do not|didn't|did not|haven't|(?:have|has) not|hasn't|unable to|(?:\w+n't|not) (?:\w+ )?able to|incapable of|lack)"
_HERE = (  # words that follow "image" if the whole image is missing, and not one in the image
    r"(?=\W*$|[,.;:!)]|,? (?:(?:was |were |has been |is |are )?(?:\w+ )?(?:attached|provided|uploaded|included|received|shared|sent|loaded|available|supplied)"
    r"|in (?:your|this|our|the (?:message|chat|conversation|prompt|request|input))|here|to (?:describe|view|analy)|for me|directly|you|that|at|right now|yet|currently|from|so|because|with (?:your|this)|came|come|arrived|got)\b)"
)
_ABSENT = lazy_pattern(  # there is no image for the model: the rest is made up
    rf"(?:^|\b(?:i|we|am|i'm|assistant|model)\b[^.!?]{{0,60}}?\b){_NOT} (?:\w+ ){{0,2}}?(?:see(?:ing)?|view(?:ing)?|find|received?|access(?:ing)?|open|detect|load|display|perceive|"
    rf"process(?:ing)?|interpret(?:ing)?|analy[sz](?:e|ing)|look at|inspect|have|the ability to (?:see|view)|get)(?: (?:or|and) \w+)? "
    rf"(?:(?:an?|any|the|this|your|actual|external|uploaded|attached|provided|visual|contents? of|access to|to|ability)\s)*{_IMAGE}(?: (?:or|and) \w+)?{_HERE}"
    rf"|\b(?:i|we)\b[^.!?]{{0,20}}?\b{_NOT} (?:\w+ ){{0,3}}?(?:vision|visual|image|multimodal) (?:\w+ ){{0,2}}?(?:capabilit|abilit|support|access|perception)"
    rf"|\bthere (?:doesn't|does not|didn't|did not) (?:appear|seem) to be (?:an?|any) {_IMAGE}{_HERE}"
    rf"|\b(?:issue|problem|error|trouble)s? (?:\w+ ){{0,2}}?(?:upload|load|process|access|open)\w* (?:\w+ ){{0,2}}?{_IMAGE}{_HERE}"
    rf"|\b(?:there (?:is|was|are|appears to be|seems to be)|there's|i see|i have|i received|contains?|had|with)(?: \w+)? no {_IMAGE}{_HERE}"
    rf"|(?:^|\b(?:that|note:|error:|appears|seems|like|but|and) )no {_IMAGE}{_HERE}"
    rf"|\byour? (?:\w+ ){{0,3}}?(?:\w*n't|not|forgot to|no)\b[^.!?]{{0,30}}?\b(?:upload|attach|provid|includ|shar|send|sent|contain)\w*[^.!?]{{0,30}}?\b{_IMAGE}"
    rf"|\b{_IMAGE}(?: you (?:\w+ )?\w+)?(?: to)? (?:\w+ ){{0,2}}?(?:\w*n't|not|cannot|failed to|unable to)(?: be)? (?:\w+ )?(?:visible to me|load(?!-)|attach|provided|upload|available|accessible|"
    rf"received|come through|came through|show up|opened|displayed|retrieved|processed)|\b(?:i|model|assistant|version|interface)\b[^.!?]{{0,20}}?\bdo(?:es)?(?:n't| not) support (?:\w+ )?(?:image|vision|visual)"
    rf"|\b(?:language|text-based|text-only) (?:ai )?model\b[^.!?]{{0,60}}?\b{_NOT}"
    r"|\b(?:image|picture|photo|file)(?: link| file| url)? (?:is|seems|appears)(?: to be)? (?:broken|corrupted)(?=[,.;]|$)"
    rf"|\bas an? (?:ai|artificial|text|large|language|llm)\b[^.!?]{{0,80}}?\b{_NOT}|\b(?:can|i|i'm|am) only (?:able to )?(?:\w+ )?(?:process|read|handle|work with|support|see|accept) (?:\w+ )?text\b"
)
_SEND = r"(?:upload|share|provide|attach|send|paste|supply|include)(?:ing)?"
_ASKS = lazy_pattern(
    rf"\b(?:please|could you|can you|would you|kindly|feel free to)\b[^.!?]{{0,40}}?\b(?:{_SEND}|describe)\b[^.!?]{{0,30}}?\b(?:{_IMAGE}|it|one)\b"
    rf"|\b(?:you(?:'ll| can| could| need)|you to|once you|if you|when you)\b[^.!?]{{0,40}}?\b{_SEND}\b[^.!?]{{0,30}}?\b{_IMAGE}\b"
)
_DECLINES = lazy_pattern(
    rf"(?:^|\b(?:i|we|i'm|am)\b[^.!?]{{0,40}}?\b)(?:{_NOT}|not allowed to|must|have to|will not) (?:\w+ ){{0,2}}?(?:assist|help|comply|fulfil|proceed|continue|engage|decline|do (?:that|this|so)\b"
    r"|(?:provide|give|offer|create|generate|produce|write) (?:\w+ ){0,3}?(?:description|information|details|analysis|assistance|content)"
    r"|(?:describe|discuss|analy[sz]e|process|comment on|respond to|answer|support|complete|identify) (?:this|that|the|your|such|these|those|it|explicit|sensitive|sexual|graphic)\b)"
    r"|\b(?:i|we)(?: must| have to)? (?:refuse|decline)\b(?= (?:to|this|that|your)\b)|\b(?:request|content|image|prompt|message)\b[^.!?]{0,60}?(?:\bviolat\w+ [^.!?]{0,40}?(?:polic|guideline|terms|rules)|\b(?:was|has been|is) (?:blocked|rejected|flagged|filtered)"
    r"|\bagainst (?:our|the|my|usage|content)\b[^.!?]{0,20}?(?:polic|guideline))|\bi(?:'m| am) not comfortable \w+|\bi(?:'d| would) rather not\b|\bi(?:'m| am) programmed (?:to avoid|not to)\b"
    r"|^(?:(?:the|this|your) )?(?:content|request|response|output|answer) (?:(?:was|has been) )?(?:blocked|filtered|rejected|refused|denied)"
)
_HINT = lazy_pattern(  # each match of `_ABSENT` and `_DECLINES` contains one of these, which are found in a tenth of the time
    r"n't|not|no\b|unable|incapable|lack|issue|problem|error|trouble|forgot|fail|broken|corrupted|only|must|have to|refuse|decline|"
    r"violat|polic|guideline|programmed|block|filter|reject|flag|denied"
)
_SORRY = lazy_pattern(
    r"(?:i am |i'm |we're )?(?:(?:so|very|really|truly) )?(?:sorry|afraid|unfortunately|apologies|my apologies|i apologi[sz]e|i regret)\b"
)
_UNWILLING = lazy_pattern(rf"\b(?:i|we|i'm|am)\b[^.!?]{{0,30}}?\b(?:{_NOT}|not allowed|not permitted)")
# Words about a conversation, an image as a whole, or a fault, in the Latin and Cyrillic alphabets: a text of these alone describes nothing.
_TALK_WORDS = frozenset(
    re.findall(
        r"\S+",
        """
        a able about access accessible accurate actual actually additional again ai alt always am an and another answer any anything apologies apologise apologize appears
        appropriate are as asked assist assistance assistant at attach attached attachment attachments available aware be because been before being below best but by can cannot
        cant capabilities capability capable carefully certainly chat com come comment complete comply contains content contents context continue contributed conversation
        corrupted could couldn course currently data decline declined denied describe described describing description detail detailed details determine did didn directly discuss
        display displayed displaying do does doesn don due either else empty encountered end engage error errors even exceeded explicit external failed fetch first follows for
        forgot format forward found from fulfil fulfill fully further general generate generated get give given glad go good got great guidelines had happy harmful has have haven
        having hello help helpful here hey hi hope how however i id idea identify if im image images img in include included info information input inputs instead interface
        internal into invalid is isn issue it its just kindly know lack language later let like limit limitations link links ll llm load loaded loading look looking m make many may me
        message might missing moment more my n nan need needed network nil no none not note now null of off offensive offer ok okay omitted on one only oops open or other our out
        output perceive permitted photo photograph photos picture pictures placeholder please pleased policies policy possible problem process processed processing prompt proper
        properly provide provided providing qualified question questions quite rate re read ready really receive received recognise recognize redacted refer referring refuse
        refused regarding reject rejected removed reply request requested requests required resource respond response retrieve retry review right s safety say see seeing seem
        seems send sensitive sent server service shall share shared sharing should show showing shown simply so some something sorry specific specify still submit submitted such
        suitable supply support supported supports sure system t talk tell terms thank thanks that the then there these they thing this those through timeout to today too topic
        trained transmitted trouble truly try unable unavailable uncertain undefined understand unfortunately unknown unsupported until up upload uploaded uploading url us usage use
        used valid ve very via view viewed viewing violate violates violating visible vision visual want was wasn we welcome well went were weren what whatever when where which
        who why will wish with within without won would wouldn wrong yes yet you your
        bild bilder bildes foto das dieses ein kein keine keinen nicht gefunden vorhanden verfügbar ich kann habe es ist mir leider möglich zu sehen anzeigen beschreiben erhalten
        fehler bitte sie hochladen geladen werden konnte aucune l la le les une des de cette ce d j je n ne pas ai peux accès à voir disponible fournie décrire est erreur
        chargement impossible reçu ninguna sin imagen imágenes puede puedo se tengo acceso al mostrar ver describir esta error cargar lo siento hay adjunta falta nenhuma sem
        imagem imagens não há consigo posso anexada disponível erro ao carregar descrever tenho nessuna immagine immagini non vedere c è disponibile errore questa descrivere
        caricare geen afbeelding beschikbaar kan ik niet zien deze beschrijven het laden изображение изображения картинка картинку фото отсутствует не загрузилось загрузилась
        найдено загружено доступно я могу это описать увидеть ошибка загрузки нет
        user model paragraph english using between
        """,
    )
)
_MARKS_OF_TALK = lazy_pattern(  # one of these makes a text of such words talk; `the picture` alone may be a description
    r"\b(?:i|me|we|us|our|you|your|not|no|cannot|unable|error|fail\w*|sorry|please|invalid|unavailable|missing|denied|refused|removed|redacted|omitted|wrong|thanks?|hello|hi|welcome"
    r"|question|exceeded|required|n/?a|none|null|nil|nan|undefined|unknown|kein\w*|nicht|fehler|ich|je|ne|aucune|erreur|impossible|ninguna|sin|puedo|se|erro|nenhuma|sem|não|nessuna|non|geen|niet|не|нет|я"
    r"|ошибка|отсутствует|assistant|user)\b|n't\b|[:：?？]$|^(?:image|img|photo|picture|model)?$|^[^a-z]*$|[無无]"
)
_TALK_SIGNS = lazy_pattern(  # the same in Chinese, Japanese and Korean
    "图片|图像|照片|圖片|圖像|[图圖]|您好|你好|链接|内容|违规|敏感|[我您你]|抱歉|对不起|不好意思|很遗憾|语言|模型|人工智能|助手|由于|因为|作为|请|问|"
    "无法|不能|不会|不适合|没有|没|未|不|办法|看到|看见|看|识别|描述|提供|上传|发送|加载|显示|读取|处理|访问|回答|协助|帮助?|想|了解|什么|有|可以|能|需要|先|才|再|重新|换|个|话题|吧|"
    "失败|成功|错误|这|张|那|是|的|了|一|到|进行|该|暂时|目前|直接|和|或|很|非常|此|"
    "画像|写真|が|を|は|も|に|の|見当たり|読み込め|読み込み|見え|見る|見|ありません|ません|できません|でした|確認|提供|添付|されて|い|この|説明|する|こと|失敗|しました|エラー|申し訳|すみません|"
    "이미지|사진|를|을|가|이|는|없습니다|없음|없|볼|수|제공|첨부|되지|않았습니다|않|로드|오류|설명|할|어"
)
_DESCRIBES = lazy_pattern(  # describes the content all the same
    r"\b(?:but|however|though|although|still|instead|only)\b,? (?!i\b|i'm|as an? |if you|you\b|please|no\b|there (?:is|are) no|[^.!?]{0,80}\b(?:might|may|would)\b)[^.!?]{0,60}?\b(?:shows?|depicts?|"
    r"there (?:is|are)|features?|contains?(?! content)|(?:can|do) see|portrays?|stands?|lies|sits|wears?)\b|[但][是]?,? ?(?:画面|图|可以看|能看|中央|其中)"
    r"|\b(?:mais|aber|pero|sino|mas|ma|но|maar|ale)\b[^.!?]{0,60}?\b(?:montre|zeigt|muestra|mostra|toont|показыва\w+|на (?:фото|изображении)|on (?:y )?voit|il y a|se ve|hay|há|c'è|(?:sieht|zu sehen)|видн\w+)"
    r"|が、[^。]{0,40}(?:写って|見え(?!ませ)|あります)|지만[^.]{0,60}(?:있습니다|보입니다)"
)
_TALK = lazy_pattern(
    r"\b(?:i|i'm|i'd|i'll|we|me|my|us|our|you|your|please|sorry|polic\w+|guidelines|request\w*|assist\w*|help\w*|upload\w*|content|let|might|may|would|typical\w*|sure|hello|hi|okay|certainly)\b"
)

_PERSON = lazy_pattern(
    r"\b(?:i|i'm|i'd|i'll|i've|we|me|my|us|our|you|your|please|sorry|ich|mir|sie|ihnen|bitte|je|j'ai|vous|votre|désolé|yo|puedo|usted|tu|por favor|eu|posso|consigo|"
    r"você|io|mi|ti|я|мне|вы|вас|вам|ik|u|mij|nie mogę|proszę|tôi|bạn|saya|anda|أنا|मैं|आप)\b|[我您你请請]|私|ください|申し訳|저는|제가|주세요|죄송|пожалуйста|jeg|jag|εγώ|minä|ฉัน|คุณ|אני|من|شما"
)

_CHAT = lazy_pattern(
    r"\b(?:message|upload\w*|provided?|chat|conversation|directly|request|you|your|language|text-(?:based|only)|share)\b"
)

# Of other languages: apologies; verbs of inability to do or see; their objects, or a request for an image.
_OTHERS = [
    ("(?:我)?(?:很|非常|实在|十分|真的|深感)?(?:抱歉|对不起|不好意思|遗憾|對不起|遺憾)|作[为為][^，。]{0,16}(?:模型|助手|人工智能|ai)|(?:由于|因为|鉴于|根据)[^，。]{0,20}(?:规定|政策|内容|安全|敏感|限制)",
     "无法|不能|没办法|没法|未能|不支持|無法|沒辦法|不便|看不到|看不见|看不見|没有(?:看到|收到|提供|上传|检测到|附|找到)|未(?:检测|能)|没有学会|沒有(?:看到|收到|提供|上傳)|未(?:上传|提供|收到)|没(?:看到|收到)",
     "[图圖](?![片像]?(?:[中里上下左右底背裡]|[内內](?!容)))|照片(?![中里上下])|请求|請求|协助|帮助?|幫助|描述|回答|身份"),
    ("(?:大変|誠に)?(?:申し訳|すみません|恐れ入り|ごめん|残念)", "できません|できない|ません|かねます", "(?:画像|写真)(?:の内容|を|については|[がは](?:アップ|添付|見え|表示|確認|あり|提供))|リクエスト|ご要望|手伝|お答え"),
    ("(?:정말 )?(?:죄송|미안|유감|안타깝)", "수 없|없습니다|않|못", "이미지(?!에|의)|사진(?!에|의)|요청|도움|도와"),
    ("(?:es )?tut mir (?:sehr )?leid|entschuldig|leider|ich bedaure", "ich .{0,50}?(?:nicht|kein)|(?:kann|sehe|habe|darf) ich .{0,50}?(?:nicht|kein)|kein \\w+ (?:ange|hoch|über)",
     "\\b(?:kein bild|keine? (?:bilder|fotos?)|anfrage|helfen|weiterhelfen|anhang|bilder|(?:das|dieses|ihr|dein) bild (?:nicht|leider|beschr|anz|kann ich))"),
    ("(?:je suis )?(?:vraiment |sincèrement )?(?:désol|navré)|excusez|pardon|malheureusement|je regrette", "je (?:ne|n').{0,50}?(?:pas|aucune?|rien|voir|aider|fournir)|aucune image",
     "\\b(?:(?:voir|visualiser|ouvrir) (?:l'|cette |votre )image|(?:d'|voir des |analyser des )images?|aucune (?:image|photo)|les images|l'image (?:jointe|fournie)|demande|aider|assister|cette image\\W*$|décrire (?:cette|l'|votre|les))"),
    ("lo (?:siento|lamento)|lamento|disculp|perdón|lamentablemente|desafortunadamente", "\\bno (?:puedo|veo|tengo|hay|he|recibí|se|es|encuentro|podemos|me)\\b",
     "\\b(?:ninguna (?:imagen|foto)|imágenes|solicitud|ayudar|petición|describir (?:esta|la|est|im|el contenido)|la imagen (?:adjunta|que)|ver la imagen\\W*$)"),
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
    ("ขออภัย|ขอโทษ|เสียใจ", "ไม่สามารถ|ไม่เห็น|ไม่พบ|ไม่ได้", "(?:ดู|เห็น|เปิด|พบ|อธิบาย)(?:รูป)?ภาพ|ช่วย|คำขอ"),
    ("متأسف|متاسف|ببخشید|با عرض پوزش", "نمی|نیست", "تصویر را|عکس را|درخواست|کمک"),
    ("(?:אני )?(?:מצטער|מתנצל)|סליחה|לצערי", "לא (?:יכול|רוא|ניתן|מסוגל)|אין", "את התמונה|תמונות|בקשה|לעזור"),
    ("λυπάμαι|συγγνώμη|δυστυχώς", "δεν (?:μπορώ|βλέπω|έχω|είναι)", "εικόνα\\W*$|εικόνες|αίτημα|βοηθήσω"),
    ("(?:jeg |jag )?(?:beklager|beklagar|ber om ursäkt|förlåt|undskyld|tyvärr|dessverre|desværre)", "(?:jeg|jag|kan|ser) .{0,20}?(?:ikke|inte|ingen)", "bilden?\\W*$|billedet\\W*$|bildet\\W*$|hjelp|hjälp|hjælp|förfrågan|forespørsel"),
    ("omlouv|promiňte|bohužel|ľutujem|ospravedl", "ne(?:mohu|můžu|vidím|môžem)", "obrázek\\W*$|obrázky|pomoci|žádost"),
    ("sajnál|sajnos|elnézést", "nem (?:látom|látok|tudok|tudom)", "a képet|képeket|kérés|segíteni"),
    ("anteeksi|pahoittelen|valitettavasti", "\\ben (?:näe|voi|pysty)", "kuvaa\\W*$|kuvia|pyyntö|auttaa"),
    ("îmi pare rău|scuze|din păcate", "\\bnu (?:pot|văd|am)", "imaginea\\W*$|imagini|cerere|ajut"),
]  # fmt: skip
_HINT_OTHERS = lazy_pattern(  # as `_HINT`, of the ASCII texts among the matches of these languages
    r"nicht|kein|je n|aucun|no |non |niet|geen|nie |yorum|emem|amam|tidak|ikke|inte\b|ingen|nemohu|nem tud|en voi|en pysty|nu pot|nu am|"
    r" sie|envoyez|partagez|pourriez|veuillez|sub[ae]|adjunt|compart|envi|proporcion|carregue|anexe|carica|allega|condividi|invia|nenhum|ningun|nessun"
)
_VERB_LAST = lazy_pattern("[\u3041-\u30ff\uac00-\ud7a3]")
_ASKS_OTHERS = lazy_pattern(
    "请(?:您|你)?(?:重新|先|再次)?(?:上传|提供|发送|分享|附上)[^。]{0,8}(?:图|照片)|[您你](?:似乎|好像|可能|还|還)*(?:没有|未|并未|尚未|忘记|沒有|没)(?:上传|提供|附|发送|上傳)"
    "|(?:画像|写真)を[^。]{0,12}(?:アップロード|添付|送信|提供|共有|送って)|(?:이미지|사진)[를을]? ?(?:다시 )?(?:업로드|첨부|공유|제공|보내)[^.]{0,12}(?:주세요|주시)"
    "|(?:laden|senden|schicken|teilen) sie[^.!?]{0,20}(?:bild|foto)|(?:téléchargez|envoyez|partagez|pourriez-vous|veuillez)[^.!?]{0,30}(?:image|photo)|(?:suba|sube|adjunt|compart|env[ií]|proporcion)\\w*[^.!?]{0,20}(?:imagen|foto)"
    "|(?:envie|carregue|anexe|compartilhe|forneça)[^.!?]{0,20}(?:imagem|foto)|(?:carica|invia|allega|condividi)[^.!?]{0,20}(?:immagine|foto)|(?:nenhuma imagem|aucune image|ninguna imagen|nessuna immagine|kein bild|изображение не)[^.!?]{0,12}(?:foi|fornec|enviad|anexad|fourni|joint|proporcion|adjunt|fornit|allegat|hochgeladen|vorhanden|загружен|прикрепл|предоставл)"
    "|(?:загрузите|пришлите|прикрепите|отправьте)[^.!?]{0,25}(?:изображ|картин|фото)"
)


@lru_cache(maxsize=256)  # several metrics read one description
def refusal(text: str, asked: str = "") -> str:
    """Return in one line why a text is not a description of an image (but for example the text of `asked`); empty if it is one."""
    if not text.strip():
        return ""
    if len(bare := _bare(text)) > _LEAST_REPEATED and bare in _bare(asked):
        return f"the answer repeats the question: {truncated(text.strip(), 60)!r}"
    if _without_content(bare):
        return f"the answer is markup or talk alone: {truncated(text.strip(), 60)!r}"
    return f"the model declined: {truncated(' '.join(text.split()), 80)!r}" if declines(text) else ""


@lru_cache(maxsize=8)  # the question is the same for many answers
def _bare(text: str) -> str:
    """Return a text in one case and width, without markup, control tokens, addresses of files, and base64."""
    text = unicodedata.normalize("NFKC", _MARKUP.sub(r" \1 ", without_chat_tokens(text))).casefold()
    return in_one_line(_NO_WORD.sub(" ", text))


def _without_content(bare: str) -> bool:
    """Whether a text that `_bare` returned is markup, numbers, or talk about a conversation or an image as a whole."""
    signs = not bare.isascii() and len(bare) <= _LONGEST_OTHERS
    talk = _TALK_SIGNS.sub(" ", bare) if signs else bare
    if any(word[0] not in _TALK_WORDS and not word[0].isdecimal() for word in re.finditer(r"\w+", talk)):
        return False
    return re.search(r"\w", talk) is None or _MARKS_OF_TALK.search(bare.replace("’", "'").strip(" .*_()[]")) is not None


def declines(text: str, *, answers: bool = False) -> bool:
    """Return True if a text refuses, or reports that there is no image, and describes nothing.

    Text in quotation marks does not count, as it may be written in the image. With `answers`, the text is the answer
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
    foreign = not text.isascii() or _HINT_OTHERS.search(text)
    if foreign and _ASKS_OTHERS.search(text):
        return len(text) <= _LONGEST_OTHERS
    hinted = _HINT.search(opening)
    absent = (hinted and _ABSENT.search(opening)) or (_TALK.search(sentences[0]) and _ASKS.search(text))
    found = absent if absent and (not answers or _CHAT.search(opening)) else hinted and _DECLINES.search(opening)
    if found or (_SORRY.match(text) and _UNWILLING.search(opening)):
        return not _described(sentences, opening[: found.start()] if found else "")
    for apology, unable, about in _OTHERS if foreign else ():  # patterns that `re` keeps compiled
        found = re.search(unable, opening[:120])
        # characters of an alphabet, of Japanese and Korean, whose verb comes last, and of Chinese
        near = 40 if opening[:1] < "\u2e80" or _VERB_LAST.search(opening) else 12
        if found and (re.match(apology, text) or (not answers and found.start() < near and re.search(about, opening))):
            talk = rf"{unable}|{about}|{apology}"
            rest = [
                sentence
                for sentence in sentences
                if sentence[-1] not in "?？"
                and len(sentence) > (8 if sentence[:1] >= "\u2e80" else 20)
                and not (_PERSON.search(own := re.sub(r"\bi\b", " ", sentence)) or re.search(talk, own))
            ]
            return not rest and len(text) <= _LONGEST_OTHERS and not _DESCRIBES.search(text)
    return False


def addresses_someone(text: str) -> bool:
    """Whether a text speaks of its speaker or to a reader, outside of quotation marks."""
    return _PERSON.search(_QUOTED.sub(" ", text.replace("’", "'").casefold())) is not None


def _described(sentences: Sequence[str], before: str) -> bool:
    """Whether a sentence describes something: one that is not about the conversation, or describes the content all the same.

    So does text after a colon or `While ...,`. Text `before` the refusal that ends in a colon quotes it.
    """
    head, _, quoted = before.rpartition(":")
    clauses = re.split(r"[:;] |^(?:while|although|though) [^,]*, ", sentences[0])[1:]
    rest = [*sentences[1:], *clauses, *([head] if not quoted.strip() else [])]
    described = any(len(each) > 20 and not _TALK.search(each) and not _ABSENT.search(each) for each in rest)
    return described or any(_DESCRIBES.search(sentence) for sentence in sentences)
