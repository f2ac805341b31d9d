"""Words that state facts, case-folded: negations, numbers, days and months."""

from __future__ import annotations

from itertools import product


def _folded(words: str) -> frozenset[str]:
    """Words as they are folded: as a whole (dreissig), and character by character (dreißig)."""
    return frozenset(f"{words.casefold()} {words.lower()}".split())


# "Not" and its like: whole words, none of which is a common one of another language.
NEGATIONS = _folded(
    "not no never none without cannot neither nor nobody nothing nowhere "  # English
    "nicht kein keine keinem keinen keiner keines nie niemals niemand nichts ohne weder niet "
    "geen nooit zonder inte icke ej aldrig ingen inget inga utan "  # Dutch, Swedish
    "ikke intet aldri uden uten ekki aldrei engin enginn án "  # Danish, Norwegian, Icelandic
    "pas non jamais sans ne ni aucun aucune sin nunca jamás ningún ninguno ninguna tampoco "
    "não nao nem nenhum nenhuma senza mai né nessun nessuno nessuna "
    "nu fără nici niciun nicio niciodată "  # Romanian
    "nigdy bez żaden żadna żadne żadnego żadnej żadnych ani není nejsou nikdy žádný žádná "
    "žádné žiadny žiadna žiadne nije nisu nema nikad nikada nemoj brez nikoli "
    "не нет без ни нельзя никогда ні немає нема ніколи няма никога није никад "
    "nekad nėra niekada ei eivät älä ilman mitte ilma "  # Baltic, Finnish, Estonian
    "nem sem nincs nincsenek soha nélkül nuk ez níl gan ddim "  # Hungarian to Welsh
    "δεν δε μην μη όχι χωρίς ποτέ ούτε κανένας καμία არ არა ვერ ոչ չէ "
    "değil yok hayır hiç asla deyil yox emas емес жоқ биш үгүй "  # Turkic, Mongolian
    "لا ليس ليست لم لن غير بدون دون بلا ولا ولم ولن وليس نه نیست نیستند هیچ نہیں نہ بغیر לא "
    "אין אינו אינה אינם אינן בלי ללא ולא שלא ואין שאין "
    "नहीं नही न मत बिना नाही नको छैन होइन না নয় নেই ਨਹੀਂ નથી નહીં இல்லை కాదు లేదు ಇಲ್ಲ ಅಲ್ಲ "
    "ഇല്ല അല്ല không chưa chẳng đừng tidak bukan jangan belum tanpa walang huwag hapana bila "
    "안 못 없는 없다 없음 없습니다 않는 않다 않습니다 아닌 아니다 아닙니다 아니오 불가 "
    "ない 不 没 沒 无 無 未 勿 ไม่ มิได้ อย่า ห้าม ไร้ ปราศจาก"
)
# Numbers in words, but for one, which is an article in many languages; and words of several.
NUMBER_WORDS = _folded(
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty "
    "ninety hundred hundreds thousand thousands million millions billion billions trillion "
    "zero dozen dozens half twice third fourth fifth sixth seventh eighth ninth tenth "
    "null zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn "
    "fünfzehn sechzehn siebzehn achtzehn neunzehn zwanzig dreißig vierzig fünfzig sechzig "
    "siebzig achtzig neunzig hundert tausend million millionen milliarde milliarden halb "
    "zéro deux trois quatre cinq sept huit neuf dix onze douze treize quatorze quinze seize "
    "vingt trente quarante cinquante soixante cent mille milliard milliards demi "
    "cero dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince "
    "dieciséis diecisiete dieciocho diecinueve veinte treinta cuarenta cincuenta sesenta "
    "setenta ochenta noventa cien ciento doscientos trescientos quinientos mil millón "
    "millones medio due tre quattro cinque sei sette otto nove dieci undici dodici tredici "
    "quattordici quindici sedici diciassette diciotto diciannove venti trenta quaranta "
    "cinquanta sessanta settanta ottanta novanta cento mila milione milioni miliardo miliardi "
    "mezzo "
    "dois três quatro sete oito dez onze doze treze catorze quinze dezesseis dezessete "
    "dezoito dezenove vinte trinta quarenta cinquenta sessenta setenta oitenta noventa cem "
    "milhão milhões meio nul twee drie vijf zes zeven acht negen tien twaalf dertien veertien "
    "vijftien zestien zeventien achttien negentien twintig dertig veertig vijftig zestig "
    "zeventig tachtig negentig honderd duizend miljoen miljard "
    "noll två fyra fem sju åtta nio tio elva tolv tretton fjorton femton sexton sjutton arton "
    "nitton tjugo trettio fyrtio femtio sextio sjuttio åttio nittio hundra tusen miljon "
    "miljoner miljarder nul seks syv otte åtte elleve tretten fjorten femten seksten sytten "
    "atten nitten tyve tjue tredive tretti førti femti seksti sytti åtti nitti halvtreds "
    "halvfjerds halvfems hundrede hundre tusind millioner milliarder halv halvt "
    "dwa dwie trzy cztery pięć sześć siedem osiem dziewięć dziesięć jedenaście dwanaście "
    "trzynaście czternaście piętnaście szesnaście siedemnaście osiemnaście dziewiętnaście "
    "dwadzieścia trzydzieści czterdzieści pięćdziesiąt sześćdziesiąt siedemdziesiąt "
    "osiemdziesiąt dziewięćdziesiąt sto dwieście trzysta pięćset tysiąc tysiące tysięcy "
    "milion miliony milionów pół dwóch trzech czterech pięciu sześciu siedmiu ośmiu "
    "dziesięciu "
    "nula dva dvě tři čtyři pět šest sedm osm devět deset jedenáct dvanáct třináct čtrnáct "
    "patnáct šestnáct sedmnáct osmnáct devatenáct dvacet třicet čtyřicet padesát šedesát "
    "sedmdesát osmdesát devadesát tisíc milionu půl dvou tří čtyř pěti šesti deseti "
    "ноль два две три четыре пять шесть семь восемь девять десять одиннадцать двенадцать "
    "тринадцать четырнадцать пятнадцать шестнадцать семнадцать восемнадцать девятнадцать "
    "двадцать тридцать сорок пятьдесят шестьдесят семьдесят восемьдесят девяносто сто двести "
    "триста пятьсот тысяча тысячи тысяч миллион миллиона миллионов миллиард миллиарда двух "
    "трёх трех четырёх четырех пяти шести семи восьми девяти десяти половина половины "
    "нуль дві чотири шість сім вісім одинадцять дванадцять тринадцять чотирнадцять "
    "шістнадцять сімнадцять вісімнадцять двадцять шістдесят сімдесят вісімдесят тисяча тисячі "
    "мільйон мільйонів двох трьох чотирьох "  # Ukrainian
    "sıfır iki üç dört beş altı yedi sekiz dokuz yirmi otuz kırk elli altmış yetmiş seksen "
    "doksan yüz milyon milyar yarım "
    "μηδέν δύο τρεις τρία τέσσερις τέσσερα πέντε έξι επτά εφτά οκτώ οχτώ εννέα εννιά δέκα "
    "έντεκα δώδεκα είκοσι τριάντα σαράντα πενήντα εξήντα εβδομήντα ογδόντα ενενήντα εκατό "
    "χίλια χιλιάδες εκατομμύριο εκατομμύρια μισό "
    "kaksi kolme neljä viisi kuusi seitsemän kahdeksan yhdeksän kymmenen sata tuhat miljoona "
    "kettő két három négy öt hét nyolc kilenc tíz húsz harminc negyven ötven hatvan hetven "
    "nyolcvan kilencven száz ezer millió doi două trei patru cinci șase șapte nouă zece "
    "douăzeci treizeci sută sute milioane "  # Finnish, Hungarian, Romanian
    "dua tiga empat enam tujuh delapan sembilan sepuluh puluh ratus ribu juta "  # Indonesian
    "اثنان ثلاثة ثلاث أربعة أربع خمسة خمس ستة ست سبعة سبع ثمانية ثماني تسعة تسع عشرة عشر "
    "عشرون ثلاثون أربعون خمسون مئة مائة ألف مليون نصف "
    "שניים שתיים שני שתי שלושה שלוש ארבעה ארבע חמישה חמש שישה שש שבעה שבע שמונה תשעה תשע עשרה "
    "עשר עשרים שלושים ארבעים חמישים מאה אלף מיליון חצי "
    "दो तीन चार पांच पाँच छह सात आठ नौ दस बीस पचास सौ हजार हज़ार लाख करोड़ "
    "두 세 네 다섯 여섯 일곱 여덟 아홉 열 백 천 만"
)
# Days, months and seasons, but for "may", which is more often a verb.
DATE_WORDS = _folded(
    "monday tuesday wednesday thursday friday saturday sunday january february march april "
    "june july august september october november december spring summer autumn winter montag "
    "dienstag mittwoch donnerstag freitag samstag sonnabend sonntag januar jänner februar "
    "märz mai juni juli oktober dezember frühling frühjahr sommer herbst "
    "lundi mardi mercredi jeudi vendredi samedi dimanche janvier février mars avril juin "
    "juillet août septembre octobre novembre décembre printemps été automne hiver "
    "lunes martes miércoles jueves viernes sábado domingo enero febrero marzo abril mayo "
    "junio julio agosto septiembre octubre noviembre diciembre primavera verano otoño "
    "invierno lunedì martedì mercoledì giovedì venerdì sabato domenica gennaio febbraio "
    "aprile maggio giugno luglio settembre ottobre dicembre estate autunno inverno "
    "segunda terça quarta quinta sexta janeiro fevereiro março maio junho julho setembro "
    "outubro novembro dezembro verão outono "
    "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag januari februari maart mei "
    "augustus zomer herfst lente "
    "måndag tisdag onsdag torsdag fredag lördag söndag maj augusti sommar höst vinter mandag "
    "tirsdag lørdag søndag marts efterår høst forår "  # Swedish, Danish, Norwegian
    "poniedziałek wtorek środa środę czwartek piątek sobota sobotę niedziela niedzielę "
    "styczeń stycznia luty lutego marzec marca kwiecień kwietnia maja czerwiec czerwca lipiec "
    "lipca sierpień sierpnia wrzesień września październik października listopad listopada "
    "grudzień grudnia wiosna jesień zima "
    "pondělí úterý středa středu čtvrtek pátek sobotu neděle neděli leden ledna únor února "
    "březen března duben dubna květen května červen června červenec července srpen srpna září "
    "říjen října listopadu prosinec prosince jaro léto podzim "
    "понедельник вторник среда среду четверг пятница пятницу суббота субботу воскресенье "
    "январь января февраль февраля март марта апрель апреля май мая июнь июня июль июля "
    "август августа сентябрь сентября октябрь октября ноябрь ноября декабрь декабря весна "
    "лето осень зима понеділок вівторок середа середу четвер субота суботу неділя неділю "
    "січень січня лютий лютого березень березня квітень квітня травень травня червень червня "
    "липень липня серпень серпня вересень вересня жовтень жовтня листопад листопада грудень "
    "грудня "
    "pazartesi salı çarşamba perşembe cuma cumartesi pazar ocak şubat mart nisan mayıs "
    "haziran temmuz ağustos eylül ekim kasım aralık "
    "δευτέρα τρίτη τετάρτη πέμπτη παρασκευή σάββατο κυριακή ιανουάριος ιανουαρίου φεβρουάριος "
    "φεβρουαρίου μάρτιος μαρτίου απρίλιος απριλίου μάιος μαΐου ιούνιος ιουνίου ιούλιος "
    "ιουλίου αύγουστος αυγούστου σεπτέμβριος σεπτεμβρίου οκτώβριος οκτωβρίου νοέμβριος "
    "νοεμβρίου δεκέμβριος δεκεμβρίου "
    "maanantai maanantaina tiistai tiistaina keskiviikko keskiviikkona torstai torstaina "
    "perjantai perjantaina lauantai lauantaina sunnuntai sunnuntaina tammikuu tammikuuta "
    "helmikuu helmikuuta maaliskuu maaliskuuta huhtikuu huhtikuuta toukokuu toukokuuta "
    "kesäkuu kesäkuuta heinäkuu heinäkuuta elokuu elokuuta syyskuu syyskuuta lokakuu "
    "lokakuuta marraskuu marraskuuta joulukuu joulukuuta "  # Finnish
    "hétfő hétfőn kedd kedden szerda szerdán csütörtök csütörtökön péntek pénteken szombat "
    "szombaton vasárnap január február március április május június július augusztus "
    "szeptember október marți miercuri joi vineri sâmbătă duminică ianuarie februarie martie "
    "aprilie iunie iulie septembrie octombrie noiembrie decembrie "  # Hungarian, Romanian
    "senin selasa rabu kamis jumat sabtu minggu maret agustus desember "  # Indonesian
    "الأحد الاثنين الإثنين الثلاثاء الأربعاء الخميس الجمعة السبت يناير فبراير مارس أبريل "
    "إبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر "
    "ינואר פברואר מרץ אפריל מאי יוני יולי אוגוסט ספטמבר אוקטובר נובמבר דצמבר "
    "सोमवार मंगलवार बुधवार गुरुवार शुक्रवार शनिवार रविवार जनवरी फरवरी मार्च अप्रैल मई जून "
    "जुलाई अगस्त सितंबर अक्टूबर नवंबर दिसंबर 월요일 화요일 수요일 목요일 금요일 토요일 일요일 "
)
VALUE_WORDS = NUMBER_WORDS | DATE_WORDS
_HUNDREDS = ("", "c", "cc", "ccc")
_TENS = ("", "x", "xx", "xxx", "xl", "l", "lx", "lxx", "lxxx", "xc")
_ONES = ("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix")
_ROMAN = ["".join(digits) for digits in product(_HUNDREDS, _TENS, _ONES)]  # by what they are
# But those of one letter: they are words, too, as some are that have a "c".
ROMAN_NUMERALS = frozenset(numeral for numeral in _ROMAN if len(numeral) > 1)
VALUES = VALUE_WORDS | ROMAN_NUMERALS.intersection(_ROMAN[:100])
