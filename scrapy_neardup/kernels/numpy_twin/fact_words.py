"""Words that state facts, case-folded: negations, numbers, days and months."""

from __future__ import annotations

# "Not" and its like: whole words, none of which is a common one of another language.
NEGATIONS = frozenset(
    (
        "not no never none without cannot neither nor nobody nothing nowhere "  # English
        "nicht kein keine keinem keinen keiner keines nie niemals niemand nichts ohne weder "
        "niet geen nooit zonder inte icke ej aldrig ingen inget inga utan "  # Dutch, Swedish
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
        "لا ليس ليست لم لن غير بدون دون بلا ولا ولم ولن وليس نه نیست نیستند هیچ نہیں نہ بغیر "
        "לא אין אינו אינה אינם אינן בלי ללא ולא שלא ואין שאין "
        "नहीं नही न मत बिना नाही नको छैन होइन না নয় নেই ਨਹੀਂ નથી નહીં இல்லை కాదు లేదు ಇಲ್ಲ ಅಲ್ಲ ഇല്ല അല്ല "
        "không chưa chẳng đừng tidak bukan jangan belum tanpa walang huwag hapana bila "
        "안 못 없는 없다 없음 없습니다 않는 않다 않습니다 아닌 아니다 아닙니다 아니오 불가 "
        "ない 不 没 沒 无 無 未 勿 ไม่ มิได้ อย่า ห้าม ไร้ ปราศจาก"
    )
    .casefold()
    .split()
)
# Numbers in words, but for one, which is an article in many languages; and words of several.
NUMBER_WORDS = frozenset(
    (
        "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
        "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety "
        "hundred hundreds thousand thousands million millions billion billions trillion zero dozen "
        "dozens half twice third fourth fifth sixth seventh eighth ninth tenth "
        "null zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn "
        "sechzehn siebzehn achtzehn neunzehn zwanzig dreißig vierzig fünfzig sechzig siebzig "
        "achtzig neunzig hundert tausend million millionen milliarde milliarden halb "
        "zéro deux trois quatre cinq sept huit neuf dix onze douze treize quatorze quinze seize "
        "vingt trente quarante cinquante soixante cent mille milliard milliards demi "
        "cero dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince "
        "dieciséis diecisiete dieciocho diecinueve veinte treinta cuarenta cincuenta sesenta "
        "setenta ochenta noventa cien ciento doscientos trescientos quinientos mil millón millones "
        "medio due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici "
        "quindici sedici diciassette diciotto diciannove venti trenta quaranta cinquanta sessanta "
        "settanta ottanta novanta cento mila milione milioni miliardo miliardi mezzo "
        "dois três quatro sete oito dez onze doze treze catorze quinze dezesseis dezessete dezoito "
        "dezenove vinte trinta quarenta cinquenta sessenta setenta oitenta noventa cem milhão "
        "milhões meio nul twee drie vijf zes zeven acht negen tien twaalf dertien veertien "
        "vijftien zestien zeventien achttien negentien twintig dertig veertig vijftig zestig "
        "zeventig tachtig negentig honderd duizend miljoen miljard"
    )
    .casefold()
    .split()
)
# Days, months and seasons, but for "may", which is more often a verb.
DATE_WORDS = frozenset(
    (
        "monday tuesday wednesday thursday friday saturday sunday january february march april "
        "june july august september october november december spring summer autumn winter "
        "montag dienstag mittwoch donnerstag freitag samstag sonnabend sonntag januar jänner "
        "februar märz mai juni juli oktober dezember frühling frühjahr sommer herbst "
        "lundi mardi mercredi jeudi vendredi samedi dimanche janvier février mars avril juin "
        "juillet août septembre octobre novembre décembre printemps été automne hiver "
        "lunes martes miércoles jueves viernes sábado domingo enero febrero marzo abril mayo junio "
        "julio agosto septiembre octubre noviembre diciembre primavera verano otoño invierno "
        "lunedì martedì mercoledì giovedì venerdì sabato domenica gennaio febbraio aprile maggio "
        "giugno luglio settembre ottobre dicembre estate autunno inverno "
        "segunda terça quarta quinta sexta janeiro fevereiro março maio junho julho setembro "
        "outubro novembro dezembro verão outono "
        "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag januari februari maart mei "
        "augustus zomer herfst lente"
    )
    .casefold()
    .split()
)
VALUE_WORDS = NUMBER_WORDS | DATE_WORDS
_TENS = ("", "x", "xx", "xxx", "xl", "l", "lx", "lxx", "lxxx", "xc")
_ONES = ("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix")
# Roman numerals up to 99, but those of one letter: they are words, too.
_ROMAN = frozenset(ten + one for ten in _TENS for one in _ONES if len(ten + one) > 1)
VALUES = VALUE_WORDS | _ROMAN
