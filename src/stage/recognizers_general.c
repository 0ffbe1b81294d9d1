/*
 * recognizers_general.c - mail, telephone, cards, accounts, network: what every
 * country has.
 */
#include "stage/recognizers.h"

/* between two digits of a telephone number; what was read once is not read otherwise, since a digit must follow */
#define TEL_SEP		"(?>[ ./\\x{a0}\\x{2010}\\x{2011}\\x{2013}-](?!\\()|\\)[ ./-]?|[ /-]?\\()?+"
/* words before a number that say it is one */
#define TEL_WORD \
	"(?:" \
	"\\b(?:(?:tele)?(?:ph|f)one?(?:s|n[oa]| ?number| ?num)?\\b|tel(?:efon|\\b|ef\\w*)|tlf\\b|mobil[ei]?\\w*|cell?(?:ular\\w*)?\\b" \
	"|portable\\b|handy\\b|num[eé]r[oa]? (?:de |di )?t[eé]l|fax\\b|sms\\b|whatsapp\\b|hotline\\b|(?:nomor|no\\.?) ?(?:hp|wa|telp?(?:on|epon)?)\\b|\\bhp(?= ?:)|s[đd]t\\b|puhelin\\w*|gsm\\b|rufnummer\\b" \
	"|(?:my|his|her|our|your|their|contact|emergency|home|work|office) (?:number|no\\.?|line)\\b" \
	"|(?:call(?:ed|ing)?|ring|dial|text|reach(?:ed)?|contact)\\b(?: (?:me|us|him|her|them))?(?: (?:at|on|back)){0,2}|\\banswer(?:ing|s)? at\\b|t[eé]l|m[oó]vil|celular)" \
	"|(?=[^\\x00-\\x7f])(?:điện thoại|телефон|тел\\b|тел\\.|моб|факс|звоните|電話|携帯|ファックス|手机|手機|电话|號碼|传真|联系方式|전화|휴대폰|연락처|هاتف|جوال|फ़?ोन|मोबाइल|โทร|טלפון|נייד|τηλ)" \
	")[^0-9\\n]{0,16}$"
#define SSN_WORD \
	"(?:\\bssn?\\b|\\bsoc(?:ial)?\\.? ?sec(?:urity)?\\b|\\bseguro social\\b|\\bsocial insurance\\b)[^0-9\\n]{0,24}$"

/* a number ends, or its extension begins: 555-0132x17 */
#define TEL_R "(?:(?![A-Za-z0-9])|(?=[ ,]?(?:[xX]|(?i:ext))\\.? ?[0-9]))"
#define MAIL_END "(?![A-Za-z0-9])(?!:[A-Za-z~][A-Za-z0-9_.~-]{0,63}/)"

/* a dot in brackets, and any way to write one; the ends of names that a spelled dot may stand before */
#define BRACKET_DOT	" {0,2}[(\\[] ?(?:(?i:dot|punkt|punto|point|ponto)|\\.) ?[)\\]] {0,2}"
#define SPELLED_DOT	"(?:\\.| (?i:dot) |" BRACKET_DOT ")"
#define SPELLED_TOP	"(?i:com|org|net|edu|gov|mil|int|info|biz|io|ai|co|dev|app|me|eu|uk|us|ca|au|nz|ie|de|at|ch|fr|be|nl|lu|es|pt|it|gr|pl|cz|sk|hu|ro|bg|hr|si|rs|se|no|dk|fi|ee|lv|lt|ru|ua|tr|il|ae|za|in|jp|cn|kr|tw|hk|sg|br|mx|ar|cl)"
#define SPELLED_LABEL	"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define SPELLED_NAME	"(?<![A-Za-z0-9_%+.-])[A-Za-z0-9_%+-]{1,64}(?:(?:\\.| (?:dot|DOT) |" BRACKET_DOT ")[A-Za-z0-9_%+-]{1,64}){0,4}"

#define CARD_WORDS "=credit card|creditcard|debit card|debitcard|card number|card no|card nr|cardnumber|card|visa|mastercard|master card|amex|american express|maestro|discover|diners|jcb|unionpay|kreditkarte|kreditkartennummer|kartennummer|carte bancaire|carte de crédit|numéro de carte|tarjeta|tarjeta de crédito|número de tarjeta|carta di credito|numero carta|cartão|cartão de crédito|número do cartão|creditcardnummer|karta|numer karty|номер карты|карта|карты|信用卡|卡号|クレジットカード|カード番号|신용카드|카드번호|بطاقة|kredi kartı|kart numarası"
#define COIN_WORDS "=bitcoin|bitcoins|btc|wallet|wallets|crypto|cryptocurrency|address|litecoin|ltc|dogecoin|doge|tron|trx|usdt|xrp|ripple|dash|zcash|coin|coins|donate|donation|donations|pay|payment|send|sent|deposit|withdraw|withdrawal|transfer|blockchain|satoshi|кошелек|биткоин|钱包|比特币|ビットコイン|지갑"

static const MwRecognizer recs[] =
{
	REC("EMAIL", "at",
		"(?:(?<![A-Za-z0-9_%+-])(?<![A-Za-z0-9_%+-]\\.)[A-Za-z0-9_%+-](?:['.!#$&*^~]?[A-Za-z0-9_%+'-]){0,63}|\"(?:[^\"\\\\\\n]|\\\\[^\\n]){1,62}\")"
		"@(?:(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\\.){1,8}"
		"(?:xn--[A-Za-z0-9-]{2,58}|[A-Za-z]{2,24})|\\[(?:IPv6:)?[0-9A-Fa-f:.]{3,45}\\])" MAIL_END,
		"email", NULL, 100),
	/* the same with letters of other alphabets, for mail in Cyrillic or with umlauts */
	REC("EMAIL", "at high",
		"(?<![\\p{Latin}\\p{Cyrillic}\\p{Greek}0-9_%+-])[\\p{Latin}\\p{Cyrillic}\\p{Greek}0-9_%+-](?:\\.?[\\p{Latin}\\p{Cyrillic}\\p{Greek}0-9_%+-]){0,63}"
		"@(?:[\\p{Latin}\\p{Cyrillic}\\p{Greek}0-9](?:[\\p{Latin}\\p{Cyrillic}\\p{Greek}0-9-]{0,61}[\\p{Latin}\\p{Cyrillic}\\p{Greek}0-9])?\\.){1,8}"
		"[\\p{Latin}\\p{Cyrillic}\\p{Greek}]{2,24}" MAIL_END,
		"email", NULL, 90),
	/* a Latin name at a domain of any alphabet, a label of which begins in it: behind example.cn the sentence may go on */
	REC("EMAIL", "at high",
		"(?<![A-Za-z0-9_%+-])(?<![A-Za-z0-9_%+-]\\.)[A-Za-z0-9_%+-](?:['.!#$&*^~]?[A-Za-z0-9_%+'-]){0,63}"
		"@(?=(?:[A-Za-z0-9-]{1,63}\\.){0,7}[^\\x00-\\x7f])(?:[\\p{L}\\p{N}](?:[\\p{L}\\p{M}\\p{N}-]{0,61}[\\p{L}\\p{M}\\p{N}])?\\.){1,8}"
		"(?:xn--[A-Za-z0-9-]{2,58}|[A-Za-z]{2,24}(?![A-Za-z0-9])|[\\p{L}\\p{M}]{2,24}(?=[\\s<>\"'),;:/?&!；，。.\\]}]|$))",
		"email", NULL, 89),
	/* and of alphabets whose words have no blanks between them: only between marks, and without Latin letters before the @, which are an address by themselves */
	REC("EMAIL", "at high",
		"(?<![^\\s<>\"'(:：,;；，])(?:(?:\\.(?!@))?(?![A-Za-z])[\\p{L}\\p{M}\\p{N}_%+-]){1,64}"
		"@(?:[\\p{L}\\p{N}](?:[\\p{L}\\p{M}\\p{N}-]{0,61}[\\p{L}\\p{M}\\p{N}])?[.。]){1,8}"
		"(?:[\\p{L}\\p{M}]{2,24}|xn--[A-Za-z0-9-]{2,58})(?=[\\s<>\"'),;；，。.]|$)",
		"email", NULL, 89),

	/* spelled out, where at or dot stand in brackets, or both in capitals: sam (at) example (dot) com, sam[@]example[.]com, sam AT example DOT com */
	REC("EMAIL", "spelled",
		SPELLED_NAME " {0,2}[(\\[] ?(?:(?i:at|arroba)|ät|@) ?[)\\]] {0,2}(?:" SPELLED_LABEL SPELLED_DOT "){0,6}"
		SPELLED_LABEL "(?:" SPELLED_DOT "(?:" SPELLED_TOP ")|" BRACKET_DOT "[A-Za-z]{2,12})(?![A-Za-z0-9-])",
		"email", NULL, 90),
	REC("EMAIL", "spelled",
		SPELLED_NAME " ?@ ?(?:" SPELLED_LABEL SPELLED_DOT "){0,6}" SPELLED_LABEL BRACKET_DOT "[A-Za-z]{2,12}(?![A-Za-z0-9-])",
		"email", NULL, 90),
	REC("EMAIL", "spelled",
		SPELLED_NAME " AT (?:" SPELLED_LABEL " DOT ){0,6}" SPELLED_LABEL " DOT (?:" SPELLED_TOP ")(?![A-Za-z0-9-])",
		"email", NULL, 90),

	REC("IBAN", "word len=15-34 first=a",
		L "[A-Za-z]{2}[0-9]{2}[A-Za-z0-9]{11,30}", "iban", NULL, 95),
	REC("IBAN", "word len=4 first=a sep=~- prev!=-",
		L "[A-Za-z]{2}[0-9]{2}([ \\x{a0}-])[A-Za-z0-9]{4}(?:\\1[A-Za-z0-9]{1,4}){2,7}", "iban", NULL, 95),

	REC("CC", "number len=2-19 first=2-6 min=13",
		L "(?<![0-9]\\.)(?![0-9]{4}[ -][0-9]{6}[ -][0-9]{3}(?![0-9]))[2-6](?:[0-9]{12,18}|[0-9]{0,7}([ \\x{a0}\\x{2011}\\x{2013}-])[0-9]{2,10}(?:(?:\\1|\\n)[0-9]{2,10}){0,6})" R "(?!\\.[0-9])",
		"cc", NULL, 85),

	/* what the issuers' ranges do not know, next to a word that says it is a card's */
	REC("CC", "number len=12-19",
		L "(?!89)[0-9]{12,19}" R "(?!\\.[0-9])", "cardword", CARD_WORDS, 84),
	REC("CC", "number len=4 sep=-~ two=4-6 min=12 first=0-1,7-9",
		L "(?!89)[0-9]{4}([ -])[0-9]{4,6}(?:\\1[0-9]{2,5}){1,3}" R "(?!\\.[0-9])", "cardword", CARD_WORDS, 84),

	REC("SSN", "number len=3 sep=-~ two=2 first=0-8",
		L "(?:(?<![0-9][.-])[0-8][0-9]{2}([\\x{2010}\\x{2011}\\x{2013}-])[0-9]{2}\\1[0-9]{4}|(?<![0-9] )[0-8][0-9]{2}([ \\x{a0}])[0-9]{2}\\2[0-9]{4})" R "(?![.-][0-9])",
		"ssn", NULL, 80),
	REC("SSN", "number len=9 first=0-8",
		L "[0-8][0-9]{8}" R "(?!\\.[0-9])",
		"ssn", SSN_WORD, 80),

	REC("MAC", "colon",
		"(?<![A-Za-z0-9])(?<!(?<![A-Za-z0-9])[0-9A-Fa-f]{2}:)(?<!::)[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}(?:(?::[0-9A-Fa-f]{2}){2})?" R "(?!:[A-Za-z0-9])",
		"mac", NULL, 75),
	REC("MAC", "dash",
		"(?<![A-Za-z0-9])(?<![A-Za-z0-9]-)[0-9A-Fa-f]{2}(?:-[0-9A-Fa-f]{2}){5}(?:(?:-[0-9A-Fa-f]{2}){2})?" R "(?!-[A-Za-z0-9])",
		"mac", NULL, 75),
	REC("MAC", "run len=4 sep=. prev!=.",
		"(?<![A-Za-z0-9.])[0-9A-Fa-f]{4}\\.[0-9A-Fa-f]{4}\\.[0-9A-Fa-f]{4}" R "(?!\\.[A-Za-z0-9])",
		"mac", NULL, 75),
	REC("MAC", "run len=2,12,16",
		L "(?:[0-9A-Fa-f]{12}(?:[0-9A-Fa-f]{4})?|[0-9A-Fa-f]{2}(?: [0-9A-Fa-f]{2}){5}(?: [0-9A-Fa-f]{2}){0,2})" R,
		"mac", "=mac|mac address|mac addr|macaddress|hwaddr|hardware address|physical address|bssid|ether|eui|mac adresse|adresse mac|dirección mac", 75),
	REC("IP", "number len=1-3 sep=. two=1-3 min=4 prev!=.",
		"(?<![A-Za-z0-9.])(?<!version )(?<!Version )[0-9]{1,3}(?:\\.[0-9]{1,3}){3}" R "(?!\\.[0-9])",
		"ipv4", NULL, 70),
	REC("IP", "colon",
		"(?<![A-Za-z0-9.])(?<![0-9A-Fa-f:]:)(?:[0-9A-Fa-f]{0,4}:){2,8}(?:[0-9]{1,3}(?:\\.[0-9]{1,3}){3}|[0-9A-Fa-f]{1,4}|:)?(?![A-Za-z0-9])(?!:[A-Za-z0-9:])(?!\\()",
		"ipv6", NULL, 70),

	/* international: + or 00 and a country */
	REC("PHONE", "number plus",
		"(?<![A-Za-z0-9+])(?:\\((?=\\+[0-9 ]{1,5}\\)))?\\+(?:\\([1-9]|[1-9])(?:" TEL_SEP "[0-9]){5,13}[0-9]" TEL_R,
		"phone", NULL, 50),
	REC("PHONE", "number first=0 len=2-17 min=8",
		"(?<![A-Za-z0-9+])(?<![0-9]\\.)(?<!\\b0,)(?<![0-9]{6} )(?![0-9]{4} 00)(?:00 ?|0011[ -]|011[ -])[1-9](?:" TEL_SEP "[0-9]){5,13}[0-9]" TEL_R,
		"phone", NULL, 50),
	/* North America: three, three and four with separators */
	REC("PHONE", "number len=3 two=3,0 first=2-9 sep=-.~) lead min=10",
		L "(?<![0-9][.-])(?:\\([2-9][0-9]{2}\\)[ .\\x{a0}-]?|[2-9][0-9]{2}[ .\\x{a0}\\x{2011}\\x{2013}-])[2-9][0-9]{2}[ .\\x{a0}\\x{2011}\\x{2013}-][0-9]{4}" TEL_R "(?![.-][0-9])",
		"phone", NULL, 50),
	REC("PHONE", "number len=1 two=3,0 first=1 sep=-.~ lead min=11",
		L "(?<![0-9][.-])1[ .\\x{a0}-](?:\\([2-9][0-9]{2}\\)[ .\\x{a0}-]?|[2-9][0-9]{2}[ .\\x{a0}\\x{2011}\\x{2013}-])[2-9][0-9]{2}[ .\\x{a0}\\x{2011}\\x{2013}-][0-9]{4}" TEL_R "(?![.-][0-9])",
		"phone", NULL, 50),
	/* with letters: 1-800-555-MOVE */
	REC("PHONE", "number len=1 two=3 first=1 sep=-",
		L "(?<![0-9][.-])1-8(?:00|33|44|55|66|77|88)-[2-9][0-9]{2}-[A-Z]{4}" R,
		"phone", NULL, 50),
	/* anything else only next to a word that names it; a date never */
	REC("PHONE", "number len=1-15 min=7 lead",
		"(?<![A-Za-z0-9+])(?<![0-9][./-])(?![0-9]{4}-[0-9]{2}-[0-9]{2}(?![0-9]))(?![0-9]{1,2}[./][0-9]{1,2}[./][0-9]{2,4}(?![0-9]|\\.[0-9]))"
		"\\(?[0-9](?:" TEL_SEP "[0-9]){5,13}[0-9]" TEL_R "(?![.:-][0-9A-Za-z])",
		"phone", TEL_WORD, 40),

	REC_ON_DEMAND("URL", "scheme",
				  L "(?:https?|ftps?|wss?|sftp|ssh|ldaps?)://[^\\s<>\"'`{}|\\\\^\\x{3000}-\\x{303f}\\x{ff01}-\\x{ff5e}]{1,2048}(?<![.,;:!?)\\]])",
				  NULL, NULL, 60),

	/* checked by their checksum; the old form only near a word, since it looks like any token */
	REC("CRYPTO", "key start=bc1,tb1,bcrt1,ltc1,addr1,cosmos1,BC1",
		L "(?:bc1|tb1|bcrt1|ltc1|addr1|cosmos1|BC1)[02-9A-HJ-NP-Zac-hj-np-z]{11,110}" R,
		"bech32", NULL, 72),
	REC("CRYPTO", "word len=42 first=0",
		L "0x[0-9A-Fa-f]{40}" R,
		"ethereum", NULL, 72),
	REC("CRYPTO", "word len=25-36",
		L "(?:[13LMDTXAmn29]|t[13])[1-9A-HJ-NP-Za-km-z]{24,34}" R,
		"base58check", COIN_WORDS, 72),
	REC("CRYPTO", "word len=25-36 first=a",
		L "r[1-9A-HJ-NP-Za-km-z]{24,34}" R,
		"base58ripple", NULL, 72),
	REC("CRYPTO", "word len=63 first=4,8",
		L "[48][1-9A-HJ-NP-Za-km-z]{94}" R,
		"monero", NULL, 72),
	REC_ON_DEMAND("CRYPTO", "word len=25-36",
				  L "(?:[13LMDTXAmn29]|t[13])[1-9A-HJ-NP-Za-km-z]{24,34}" R,
				  "base58check", NULL, 71),

	REC("BIC", "caps",
		L "[A-Z]{6}[A-Z0-9]{2}(?:[A-Z0-9]{3})?" R,
		"bic", "=bic|swift|bic code|swift code|bic swift|swift bic", 65),
	REC("BIC", "word len=8,11 first=a",
		L "[A-Z]{6}[A-Z0-9]{2}(?:[A-Z0-9]{3})?" R,
		"bic", "=bic|swift|bic code|swift code|bic swift|swift bic", 65),

	REC("GPS", "number len=1-3 sep=. two=3-15 min=8 prev!=.",
		L "(?<![0-9][.,])[+-]?[0-9]{1,2}\\.[0-9]{3,15}(?: ?°)?(?: ?[NSns]\\b)?[,;/ ]{1,3}[+-]?[0-9]{1,3}\\.[0-9]{3,15}(?: ?°)?(?: ?[EWOewo]\\b)?" R "(?!\\.[0-9])",
		"gps", "=gps|geo|coordinates|coordinate|coords|location|position|latitude|longitude|lat|lon|lng|lat long|latlong|latlng|koordinaten|standort|coordenadas|coordonnées|координаты|坐标|座標|位置|위치", 62),
	REC("GPS", "number len=1-3 sep=. two=3-15 prev!=.",
		L "(?<![0-9][.,])[0-9]{1,2}\\.[0-9]{3,15} ?° ?[NSns][,;/ ]{1,3}[0-9]{1,3}\\.[0-9]{3,15} ?° ?[EWOewo]" R,
		"gps", NULL, 62),
	REC("GPS", "number len=1-2 sep=_ high",
		L "(?<![0-9][.,])[0-9]{1,2} ?° ?[0-9]{1,2} ?['′’] ?(?:[0-9]{1,2}(?:\\.[0-9]{1,6})? ?[\"″”] ?)?[NSns][,;/ ]{1,3}[0-9]{1,3} ?° ?[0-9]{1,2} ?['′’] ?(?:[0-9]{1,2}(?:\\.[0-9]{1,6})? ?[\"″”] ?)?[EWOewo]" R,
		NULL, NULL, 62),
};

const MwRecognizerList mw_recognizers_general = {recs, lengthof(recs)};
