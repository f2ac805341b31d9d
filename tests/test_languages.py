"""Edited pairs in many scripts are near, unrelated pages of the same words are not."""

import random

import pytest

from scrapy_neardup.detect.detector import Detector
from scrapy_neardup.engines import load_engine
from scrapy_neardup.index import load_index

# Everyday words; scripts that put no spaces between them are joined without.
SPACED = {
    "Arabic": (
        "في من على هذا كتاب مدرسة بيت مدينة طريق ماء شمس قمر يوم ليل صباح مساء رجل امرأة "
        "طفل صديق عمل سوق خبز قهوة شجرة بحر جبل نهر سماء أرض لغة كلمة سؤال جواب باب "
        "نافذة سيارة قطار سفر قلب"
    ),
    "Hebrew": (
        "של את על עם זה ספר בית עיר דרך מים שמש ירח יום לילה בוקר ערב איש אישה ילד חבר "
        "עבודה שוק לחם קפה עץ ים הר נהר שמים ארץ שפה מילה שאלה תשובה דלת חלון רכבת נסיעה "
        "לב שולחן"
    ),
    "Devanagari": (
        "में के लिए और यह किताब विद्यालय घर शहर रास्ता पानी सूरज चाँद दिन रात सुबह शाम "
        "आदमी औरत बच्चा दोस्त काम बाज़ार रोटी चाय पेड़ समुद्र पहाड़ नदी आकाश धरती भाषा "
        "शब्द प्रश्न उत्तर दरवाज़ा खिड़की यात्रा"
    ),
    "Cyrillic": (
        "в на и не что книга школа дом город дорога вода солнце луна день ночь утро "
        "вечер человек женщина ребёнок друг работа рынок хлеб кофе дерево море гора река "
        "небо земля язык слово вопрос"
    ),
    "Greek": (
        "και το να είναι με βιβλίο σχολείο σπίτι πόλη δρόμος νερό ήλιος φεγγάρι μέρα "
        "νύχτα πρωί βράδυ άνθρωπος γυναίκα παιδί φίλος δουλειά αγορά ψωμί καφές δέντρο "
        "θάλασσα βουνό ποτάμι ουρανός γη"
    ),
    "Hangul": (
        "이 그 저 그리고 책 학교 집 도시 길 물 해 달 낮 밤 아침 저녁 사람 여자 아이 친구 "
        "일 시장 빵 커피 나무 바다 산 강 하늘 땅 언어 단어 질문 대답 문 창문 기차 여행 "
        "마음 책상"
    ),
    "Tamil": (
        "இந்த அந்த மற்றும் புத்தகம் பள்ளி வீடு நகரம் சாலை தண்ணீர் சூரியன் நிலா பகல் இரவு "
        "காலை மாலை மனிதன் பெண் குழந்தை நண்பன் வேலை சந்தை ரொட்டி மரம் கடல் மலை ஆறு வானம் "
        "பூமி மொழி சொல் கேள்வி"
    ),
    "mixed": (
        "the of 本 書店 книга школа كتاب מילה पानी γάτα naïve café straße İstanbul Ω≈ "
        "2024 3.14 e-mail C++ 𝒎𝒂𝒕𝒉 ＦＵＬＬ ﬁne größe ñandú 東京 서울 москва αθήνα 42 "
        "it's o'clock"
    ),
    "emoji": (
        "sun 🌞 moon 🌙 tree 🌳 sea 🌊 hill ⛰️ family 👨‍👩‍👧 flag 🇫🇷 thumbs 👍🏽 "
        "heart ❤️ bread 🍞 coffee ☕ house 🏠 train 🚆 book 📖 friend 🤝 morning 🌅 "
        "night 🌃 road 🛣️ child 🧒 water 💧 sky door river"
    ),
}
UNSPACED = {
    "Chinese": (
        "我们 你们 他们 这个 那个 学校 城市 道路 太阳 月亮 早上 晚上 朋友 工作 市场 面包 "
        "咖啡 树木 大海 高山 河流 天空 土地 语言 文字 问题 回答 窗户 火车 旅行 心情 桌子 "
        "孩子 时间 世界 历史 音乐 电影 新闻 天气"
    ),
    "Japanese": (
        "これは それは 学校 都市 道路 太陽 お月さま 朝方 夜中 友だち 仕事 市場 パン "
        "コーヒー 木々 海辺 山道 川上 大空 土地 言葉 文字 質問 答えました 窓際 電車 "
        "旅行します 心から 机の上 子ども 時間 世界 歴史 おんがく"
    ),
    "Thai": (
        "และ ของ ที่ นี้ หนังสือ โรงเรียน บ้าน เมือง ถนน น้ำ พระอาทิตย์ พระจันทร์ "
        "กลางวัน กลางคืน เช้า เย็น ผู้ชาย ผู้หญิง เด็ก เพื่อน งาน ตลาด ขนมปัง กาแฟ "
        "ต้นไม้ ทะเล ภูเขา แม่น้ำ ท้องฟ้า แผ่นดิน ภาษา คำถาม คำตอบ"
    ),
    "Khmer": (
        "និង របស់ នេះ សៀវភៅ សាលារៀន ផ្ទះ ទីក្រុង ផ្លូវ ទឹក ព្រះអាទិត្យ ព្រះច័ន្ទ ថ្ងៃ "
        "យប់ ព្រឹក ល្ងាច បុរស ស្ត្រី ក្មេង មិត្ត ការងារ ផ្សារ នំប៉័ង កាហ្វេ ដើមឈើ សមុទ្រ "
        "ភ្នំ ទន្លេ មេឃ ដី ភាសា ពាក្យ សំណួរ ចម្លើយ"
    ),
    "Lao": (
        "ແລະ ຂອງ ນີ້ ປຶ້ມ ໂຮງຮຽນ ເຮືອນ ເມືອງ ຖະໜົນ ນ້ຳ ຕາເວັນ ເດືອນ ກາງເວັນ ກາງຄືນ ເຊົ້າ "
        "ແລງ ຜູ້ຊາຍ ຜູ້ຍິງ ເດັກ ໝູ່ ວຽກ ຕະຫຼາດ ເຂົ້າຈີ່ ກາເຟ ຕົ້ນໄມ້ ທະເລ ພູ ແມ່ນ້ຳ "
        "ທ້ອງຟ້າ ແຜ່ນດິນ ພາສາ ຄຳຖາມ ຄຳຕອບ"
    ),
    "Burmese": (
        "နှင့် ၏ ဤ စာအုပ် ကျောင်း အိမ် မြို့ လမ်း ရေ နေ လ နေ့ ည မနက် ညနေ ယောက်ျား မိန်းမ "
        "ကလေး သူငယ်ချင်း အလုပ် ဈေး ပေါင်မုန့် ကော်ဖီ သစ်ပင် ပင်လယ် တောင် မြစ် ကောင်းကင် "
        "မြေ ဘာသာစကား မေးခွန်း အဖြေ"
    ),
}
LANGUAGES = [(name, words, " ") for name, words in SPACED.items()]
LANGUAGES += [(name, words, "") for name, words in UNSPACED.items()]


def page(words: list[str], space: str, seed: int, edits: int = 0) -> str:
    """600 words in sentences; the last so many `edits` replaced words differ."""
    chance = random.Random(seed)
    chosen = chance.choices(words, k=600)
    for place in random.Random(seed + 1).sample(range(600), edits):
        chosen[place] = words[(words.index(chosen[place]) + 1) % len(words)]
    sentences = [space.join(chosen[i : i + 12]) for i in range(0, 600, 12)]
    return "\n".join(f"{sentence}." for sentence in sentences)


def detector() -> Detector:
    # Some of the made-up words are facts: they hold digits, or are symbols.
    engine, index = load_engine("auto"), load_index("scan")
    return Detector(engine, index, boilerplate="keep", facts="ignore")


@pytest.mark.parametrize(("name", "vocabulary", "space"), LANGUAGES, ids=[n for n, *_ in LANGUAGES])
class TestLanguage:
    """One script."""

    def test_edited_pairs_are_near(self, name: str, vocabulary: str, space: str) -> None:
        words, found = vocabulary.split(), 0
        for seed in range(0, 40, 2):
            known = detector()
            known.decide(known.read("http://a.example/1", page(words, space, seed)))
            copy = page(words, space, seed, edits=3)
            found += known.decide(known.read("http://a.example/2", copy)).kind == "near"
        assert found == 20

    def test_pages_of_the_same_words_in_another_order_are_new(
        self, name: str, vocabulary: str, space: str
    ) -> None:
        words, known = vocabulary.split(), detector()
        pages = [page(words, space, seed) for seed in range(0, 60, 2)]
        decisions = [
            known.decide(known.read(f"http://a.example/{i}", text)) for i, text in enumerate(pages)
        ]
        assert {decision.kind for decision in decisions} == {"new"}

    def test_other_spaces_are_exact_and_other_punctuation_near(
        self, name: str, vocabulary: str, space: str
    ) -> None:
        words, known = vocabulary.split(), detector()
        text = page(words, space, 1)
        known.decide(known.read("http://a.example/1", text))
        spaced = text.replace("\n", "\u200b\r\n\u00a0\t")
        assert known.decide(known.read("http://a.example/2", spaced)).kind == "exact"
        other = text.replace(".", "！?")
        assert known.decide(known.read("http://a.example/3", other)).kind == "near"
