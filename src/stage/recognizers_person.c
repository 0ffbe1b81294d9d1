/*
 * recognizers_person.c - what papers, banks, hospitals and places know somebody by.
 */
#include "stage/recognizers.h"

#define BORN \
	"=born|dob|d o b|date of birth|dateofbirth|birth date|birthdate|birthday|born on|birth|geboren|geb|geburtsdatum|geburtstag" \
	"|né le|née le|né|née|date de naissance|naissance|nacimiento|fecha de nacimiento|nacido|nacida|nacido el|nascimento|data de nascimento|nascido|nascida|nato|nata|nato il|nata il|data di nascita|nascita" \
	"|geboortedatum|fødselsdato|født|födelsedatum|född|syntymäaika|syntynyt|data urodzenia|urodzony|urodzona|ur|datum narození|narozen|doğum tarihi|doğum|ημερομηνία γέννησης" \
	"|дата рождения|Дата рождения|родился|родилась|дата народження|生年月日|出生日期|出生|生于|生於|生日|誕生日|생년월일|생일|تاريخ الميلاد|जन्म तिथि|วันเกิด|ngày sinh|tanggal lahir|תאריך לידה"

#define PASSPORT_WORDS \
	"=passport|passports|passport no|passport number|passportno|reisepass|reisepassnummer|pass nr|passnummer|passeport|pasaporte|passaporto|passaporte|paspoort|paspoortnummer|pas nr|passi|paszport|paszportu|útlevél|pașaport|pasaport" \
	"|паспорт|паспорта|Паспорт|护照|護照|旅券|パスポート|여권|جواز|पासपोर्ट|דרכון|διαβατήριο|hộ chiếu|paspor"

#define LICENCE_WORDS \
	"=driver license|drivers license|driver s license|driver licence|drivers licence|driver s licence|driving licence|driving license|driver lic|driverslicense|dl|dl no|dl number|dvla|dvla no|dvla number|license number|licence number|license no|licence no" \
	"|führerschein|führerscheinnummer|permis de conduire|permis|patente|patente di guida|permiso de conducir|carné de conducir|licencia de conducir|licencia de conducción|carta de condução|cnh|rijbewijs|rijbewijsnummer|prawo jazdy|körkort|førerkort|kørekort|ajokortti" \
	"|водительское удостоверение|водительского удостоверения|права|驾驶证|驾照|運転免許|免許証|운전면허|sürücü belgesi|ehliyet|bằng lái"

#define ACCOUNT_WORDS \
	"=bank account|bank account number|bank account no|bank acct|bankaccount|checking account|savings account|current account|account number|account no|account nr|accountnumber|acct|acct no|acct number|a c no|a c number|bank a c|kontonummer|konto nr|konto|numéro de compte|compte bancaire|número de cuenta|cuenta bancaria|numero conto|conto corrente|número da conta|conta corrente|rekeningnummer|numer konta|номер счета|расчетный счет|银行账号|银行卡号|账号|口座番号|계좌번호|clabe|nuban|bsb account"

/* words for what states and tax offices number people by, where no type of its own has them: what that finds has check digits */
#define STATE_WORDS \
	"=national id|national id number|national id no|national id card|national identity|national identity number|national identification|national identification number|nationalid|identity card|identity card number|id card|id card number|identity number|identity document|personal id|personal identity code|personal identification|personal identification number|personal number|personal code|citizen id|citizen number|resident id|civil id|identification code" \
	"|carte d identité|numéro d identité|documento de identidad|carné de identidad|número de identidad|carta d identità|documento de identidade|identiteitskaart|identiteitsbewijs|občanský průkaz|občiansky preukaz|személyi igazolvány|carte de identitate|лична карта|удостоверение личности|посвідчення особи|osobna iskaznica|osebna izkaznica" \
	"|신분증|বায়োমেট্রিক|بطاقة الهوية|الرقم الوطني|شناسنامه|kartu identitas|kitambulisho cha taifa|peid|umid"

#define TAX_WORDS \
	"=tax id|tax identification|tax identification number|tax identification no|tax number|tax no|tax code|taxid|taxpayer|taxpayer id|taxpayer identification|taxpayer identification number|taxpayer number|tin|tin number|tin no|atin|ptin" \
	"|steuernummer|steuer nr|numéro fiscal|identifiant fiscal|número fiscal|cod fiscal|ruc|rif|dič|voen|vöen|vkn|vergi no|vergi numarası|unp|унп|npwp|nomor pokok wajib pajak|mst|mã số thuế|เลขประจำตัวผู้เสียภาษี|kra pin|nuit|nifp|ninea|الرقم الضريبي"

/* numbers of firms, and of people who are one */
#define FIRM_WORDS \
	"=ein|fein|employer identification|employer identification number|vat|vat id|vat number|vat no|vat reg|vat reg no|vat registration|vat registration number|vat identification number|vatin|gst number|gst no|company number|company registration|company registration number" \
	"|ust id|ust idnr|ustid|ustidnr|ust id nr|umsatzsteuer id|umsatzsteuer identifikationsnummer|uid nummer|btw|btw nummer|btw nr|tva|numéro tva|numéro de tva|n tva|siren|siret|cif|rnc|partita iva|p iva|piva" \
	"|organisationsnummer|org nr|orgnr|orgnummer|organisasjonsnummer|momsnr|moms|mva|cvr|cvr nr|se nr|y tunnus|ytunnus|alv|kmkr|registrikood|pvm|pvn|regon|ičo|cui|bulstat|еик|кпп|огрн|бин|єдрпоу|edrpou|ddv|pib|пиб|edb|idno" \
	"|사업자등록번호|사업자번호|brn|法人番号|统一社会信用代码|纳税人识别号|uen|الرقم الموحد|ח פ|ע מ"

/* one run, or groups with one mark between them */
#define ID_NUMBER L "(?<![0-9][.,/-])(?:[A-Z0-9]{7,20}|[A-Za-z0-9]{7,14}|[A-Z0-9]{1,12}(?:[./-][A-Z0-9]{1,12}){1,5}|[A-Z0-9]{1,5}(?: [A-Z0-9]{1,6}){1,5})" R "(?![.,/-][0-9])(?:[(\\[][0-9A-Z][)\\]])?"
#define ID_BEFORE L "[A-Z]{1,4}[ .-][A-Z0-9]{1,12}(?:[ ./-][A-Z0-9]{1,9}){0,5}" R "(?![.,/-][0-9])"

#define MONTH "(?:[A-Za-z\\x{c0}-\\x{24f}\\x{370}-\\x{52f}]{3,12})"

static const MwRecognizer recs[] =
{
	REC("DOB", "number len=1-4 sep=-./ min=5 prev!=.-/",
		LN "(?:[0-9]{1,2}([./-])[0-9]{1,2}\\1(?:[0-9]{4}|[0-9]{2})|(?:1[89]|20)[0-9]{2}([./-])[0-9]{1,2}\\2[0-9]{1,2})" R "(?![./-][0-9])",
		"date", BORN, 68),
	REC("DOB", "number len=4,8 sep=_~",
		L "(?:1[89]|20)[0-9]{2}(?:[0-9]{4}|年 ?[0-9]{1,2}月 ?[0-9]{1,2}日|년 ?[0-9]{1,2}월 ?[0-9]{1,2}일)" R,
		"date", BORN, 68),
	REC("DOB", "run len=1-4 sep=~.-,_",
		LN "[0-9]{1,2}(?:st|nd|rd|th|er|º)?\\.?[ -]{1,2}(?:de |of )?" MONTH "\\.?,?[ -](?:de |del |of )?(?:1[89]|20)[0-9]{2}" R,
		"date", BORN, 68),
	REC("DOB", "run len=1-4 before",
		"(?<![A-Za-z])" MONTH "\\.?[ -][0-9]{1,2}(?:st|nd|rd|th)?,? {1,2}(?:1[89]|20)[0-9]{2}" R,
		"date", BORN, 68),
	REC_ON_DEMAND("DATE", "number len=1-4 sep=-./ min=5 prev!=.-/",
				  LN "(?:[0-9]{1,2}([./-])[0-9]{1,2}\\1(?:[0-9]{4}|[0-9]{2})|(?:1[89]|20)[0-9]{2}([./-])[0-9]{1,2}\\2[0-9]{1,2})" R "(?![./-][0-9])",
				  "date", NULL, 30),
	REC_ON_DEMAND("DATE", "run len=1-4 sep=~.-_",
				  LN "[0-9]{1,2}(?:st|nd|rd|th)?\\.?[ -]{1,2}(?:de |of )?" MONTH "\\.?,?[ -](?:de |del |of )?(?:1[89]|20)[0-9]{2}" R,
				  "date", NULL, 30),
	REC_ON_DEMAND("DATE", "run len=1-4 before",
				  "(?<![A-Za-z])" MONTH "\\.?[ -][0-9]{1,2}(?:st|nd|rd|th)?,? {1,2}(?:1[89]|20)[0-9]{2}" R,
				  "date", NULL, 30),

	REC("PASSPORT", "number len=6-9 before",
		L "[A-Z]{1,3}[ -][0-9]{6,9}" R,
		NULL, PASSPORT_WORDS, 46),
	REC("PASSPORT", "run len=6-10",
		L "(?:[A-Za-z]{1,3}[0-9]{5,8}|[0-9]{7,9}|[A-Z][0-9A-Z]{7,8}|[0-9]{2}[A-Z]{2}[0-9]{5})" R,
		"paper", PASSPORT_WORDS, 46),
	/* nine of Germany's: no vowels, so it may be nearly all letters */
	REC("PASSPORT", "word len=9 first=a",
		L "[CFGHJKLMNPRTVWXYZ][CFGHJKLMNPRTVWXYZ0-9]{8}" R,
		NULL, PASSPORT_WORDS, 46),
	REC("PASSPORT", "number len=2,4 sep=~ two=2,6",
		L "[0-9]{2} ?[0-9]{2} (?:№ ?)?[0-9]{6}" R,
		NULL, PASSPORT_WORDS, 46),

	REC("DRIVER_LICENSE", "run len=4-19",
		L "(?:[A-Z0-9]{1,8}(?:[ -][A-Z0-9]{1,8}){0,4}[A-Z0-9]{0,12}|[a-z][0-9]{5,14})" R,
		"paper", LICENCE_WORDS, 45),

	REC("BANK_ACCOUNT", "number len=2-26 min=6",
		LN "[0-9]{6,26}" RN,
		NULL, ACCOUNT_WORDS, 44),
	REC("BANK_ACCOUNT", "number len=2-10 sep=-~ min=8",
		LN "[0-9]{2,10}(?:[ -][0-9]{2,10}){1,5}" RN,
		NULL, ACCOUNT_WORDS, 44),
	/* with letters, as most of Europe and Britain have them */
	REC("BANK_ACCOUNT", "word len=10-30",
		L "[A-Z0-9]{10,30}" R,
		"idnumber", ACCOUNT_WORDS, 44),
	/* a British sort code, with the account behind it */
	REC("BANK_ACCOUNT", "number len=2,6 sep=-~_ min=6",
		LN "[0-9]{2}[ -]?[0-9]{2}[ -]?[0-9]{2}(?:[ ,;/]{1,3}(?:(?:a/c|acc(?:oun)?t|account)[^0-9\\n]{0,12})?[0-9]{8})?" R,
		NULL, "=sort code|sortcode|sort", 47),
	REC("US_ROUTING", "number len=9",
		L "[0-9]{9}" R,
		"aba", "=routing number|routing no|aba number|aba no|aba routing|routing transit|transit number|rtn|bank routing|routing code|routingnumber", 64),
	REC_ON_DEMAND("US_ROUTING", "number len=9 first=0-3",
				  L "[0-9]{9}" R, "aba", "=routing|aba|rtn", 63),
	REC("IN_IFSC", "word len=11 first=a",
		L "[A-Z]{4}0[A-Z0-9]{6}" R, NULL, "=ifsc|ifsc code", 60),
	REC_ON_DEMAND("CVV", "number len=3-4",
				  LN "[0-9]{3,4}" RN, NULL, "=cvv|cvc|cvv2|cvc2|cid|security code|card code|card verification|cvn", 43),
	REC_ON_DEMAND("CARD_EXPIRY", "number len=1-2 sep=/-",
				  LN "(?:0?[1-9]|1[0-2])[/-](?:20)?[2-4][0-9]" RN, NULL, "=exp|expiry|expires|expiration|valid|valid thru|valid until|exp date", 43),

	/* whatever a word says is the number of a person, or of whoever pays a tax */
	REC("NATIONAL_ID", "number len=1-12 min=5 before",
		ID_BEFORE, "idnumber", STATE_WORDS, 38),
	REC("NATIONAL_ID", "run len=1-20 min=5",
		ID_NUMBER, "idnumber", STATE_WORDS, 38),
	/* a social security number of another country than the United States, whose form is left to SSN */
	REC("NATIONAL_ID", "run len=1-20 min=5",
		"(?![0-9]{3}[ -]?[0-9]{2}[ -]?[0-9]{4}(?![0-9A-Z]))" ID_NUMBER, "idnumber", "=ssn|social security|social security number|social security no", 38),
	REC("TAX_ID", "number len=1-12 min=5 before",
		ID_BEFORE, "idnumber", TAX_WORDS, 37),
	REC("TAX_ID", "run len=1-20 min=5",
		ID_NUMBER, "idnumber", TAX_WORDS, 37),
	REC_ON_DEMAND("TAX_ID", "number len=1-12 min=5 before",
				  ID_BEFORE, "idnumber", FIRM_WORDS, 36),
	REC_ON_DEMAND("TAX_ID", "run len=1-20 min=5",
				  ID_NUMBER, "idnumber", FIRM_WORDS, 36),

	/* hospitals and insurers */
	REC("US_MBI", "word len=4,11 first=1-9",
		L "[1-9][AC-HJKMNP-RT-Y][0-9AC-HJKMNP-RT-Y][0-9](-?)[AC-HJKMNP-RT-Y][0-9AC-HJKMNP-RT-Y][0-9]\\1[AC-HJKMNP-RT-Y]{2}[0-9]{2}" R,
		NULL, NULL, 58),
	REC("US_NPI", "number len=10 first=12",
		L "[12][0-9]{9}" R, "us_npi", "=npi|national provider|national provider identifier|provider id", 64),
	REC("US_DEA", "word len=9 first=a",
		L "[ABCDEFGHJKLMPRSTUXabcdefghjklmprstux][A-Za-z9][0-9]{7}" R, "us_dea", "=dea|dea number|dea no|drug enforcement|prescriber|physician|provider", 64),
	REC("MRN", "run len=5-12",
		L "[A-Z]{0,3}[0-9]{5,12}" R, NULL, "=mrn|medical record|medical record number|medical record no|patient id|patient number|hospital number|chart number|patientennummer", 42),
	REC("HEALTH_INSURANCE", "run len=6-16",
		L "[A-Z]{0,4}[0-9]{6,14}[A-Z0-9]{0,3}" R, NULL,
		"=member id|subscriber id|health plan|health insurance|health insurance number|insurance id|policy holder id|medicaid|medicaid id|ehic|versichertennummer|krankenversichertennummer|numéro d assuré", 42),

	REC_ON_DEMAND("VIN", "word len=17",
				  L "[A-HJ-NPR-Z0-9]{17}" R, "vin", NULL, 61),
	REC_ON_DEMAND("VIN", "word len=17",
				  L "[A-HJ-NPR-Za-hj-npr-z0-9]{17}" R, NULL, "=vin|vehicle identification|chassis|fahrgestellnummer|fin|numéro de châssis", 48),
	REC_ON_DEMAND("IMEI", "number len=2,8,15 min=14",
				  L "[0-9]{2}[ -]?[0-9]{6}[ -]?[0-9]{6}[ -]?[0-9]" R, "luhn", NULL, 61),
	REC_ON_DEMAND("LICENSE_PLATE", "run len=1-8",
				  L "[A-Z0-9]{1,4}(?:[ -]?[A-Z0-9]{1,4}){1,2}" R, "plate", "=plate|license plate|licence plate|number plate|registration|plate number|kennzeichen|plaque|matrícula|targa|kenteken", 42),
};

const MwRecognizerList mw_recognizers_person = {recs, lengthof(recs)};
