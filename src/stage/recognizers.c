/*
 * recognizers.c - the built-in rows: what personal data looks like.
 *
 * One source: CREATE EXTENSION copies these rows into mw.recognizer, and the
 * postmaster compiles the same patterns.  The rules behind them:
 *
 * - A match never begins or ends inside a longer run of ASCII letters or digits;
 *   letters of other scripts are no part of such a run (text in Chinese or Thai
 *   has no blanks).
 * - What has check digits is told by them; what has none (telephone numbers in
 *   national form, nine bare digits) only next to a word that names it.
 * - No pattern repeats without a bound, so the work at one place of a text is
 *   bounded and a text of any length costs its length.
 *
 * Decided once, where the rules leave a choice: full-width digits, "at" and
 * "dot" spelled out, host names of scp (git@host:path/) and addresses inside
 * longer dotted numbers are no matches; IBANs are also found in lower case, with
 * hyphens, and of countries outside SWIFT's registry; addresses of private
 * networks count like any other; numbers with blanks in the North American form
 * are telephone numbers.
 */
#include "postgres.h"

#include "stage/redact.h"

/* between two digits of a telephone number; what was read once is not read otherwise, since a digit must follow */
#define TEL_SEP		"(?>[ ./\\x{a0}\\x{2010}\\x{2011}\\x{2013}-](?!\\()|\\)[ ./-]?|[ /-]?\\()?+"
/* words before a number that say it is one */
#define TEL_WORD \
	"(?:" \
	"\\b(?:(?:tele)?(?:ph|f)one?(?:s|n[oa])?\\b|tel(?:efon|\\b|ef\\w*)|tlf\\b|mobil[ei]?\\w*|cell?(?:ular\\w*)?\\b" \
	"|portable\\b|handy\\b|num[eé]r[oa]? (?:de |di )?t[eé]l|fax\\b|sms\\b|whatsapp\\b|hotline\\b" \
	"|(?:call|ring|dial|text)\\b(?: (?:me|us|him|her|them))?(?: (?:at|on|back)){0,2}|t[eé]l|m[oó]vil)" \
	"|(?=[^\\x00-\\x7f])(?:телефон|тел\\b|тел\\.|моб|факс|звоните|電話|携帯|ファックス|手机|手機|电话|號碼|传真|联系方式|전화|휴대폰|연락처|هاتف|جوال|फ़?ोन|โทร)" \
	")[^0-9\\n]{0,16}$"
#define SSN_WORD \
	"(?:\\bssn\\b|\\bsoc(?:ial)?\\.? ?sec(?:urity)?\\b|\\bseguro social\\b|\\bsocial insurance\\b)[^0-9\\n]{0,24}$"

const MwRecognizer mw_builtin_recognizers[] =
{
	{
		.type = "EMAIL",
		.pattern = "(?:(?<![A-Za-z0-9_%+-])(?<![A-Za-z0-9_%+-]\\.)[A-Za-z0-9_%+-](?:['.]?[A-Za-z0-9_%+'-]){0,63}|\"[^\"\\n]{1,62}\")"
		"@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\\.){1,8}"
		"(?:xn--[A-Za-z0-9-]{2,58}|[A-Za-z]{2,24})(?![A-Za-z0-9])(?!:[A-Za-z~][A-Za-z0-9_.~-]{0,63}/)",
		.validator = "email",
		.priority = 100,
		.strategy = MW_STRATEGY_PLACEHOLDER,
		.prefilter = "@",
	},
	{
		/* the same with letters of other alphabets, for mail in Cyrillic or with umlauts */
		.type = "EMAIL",
		.pattern = "(?<![\\p{Latin}\\p{Cyrillic}\\p{Greek}0-9_%+-])[\\p{Latin}\\p{Cyrillic}\\p{Greek}0-9_%+-](?:\\.?[\\p{Latin}\\p{Cyrillic}\\p{Greek}0-9_%+-]){0,63}"
		"@(?:[\\p{Latin}\\p{Cyrillic}\\p{Greek}0-9](?:[\\p{Latin}\\p{Cyrillic}\\p{Greek}0-9-]{0,61}[\\p{Latin}\\p{Cyrillic}\\p{Greek}0-9])?\\.){1,8}"
		"[\\p{Latin}\\p{Cyrillic}\\p{Greek}]{2,24}(?![A-Za-z0-9])(?!:[A-Za-z~][A-Za-z0-9_.~-]{0,63}/)",
		.validator = "email",
		.priority = 90,
		.strategy = MW_STRATEGY_PLACEHOLDER,
		.prefilter = "@&high",
	},
	{
		.type = "IBAN",
		.pattern = "(?<![A-Za-z0-9])[A-Za-z]{2}[0-9]{2}(?:[A-Za-z0-9]{11,30}|(?:([ \\x{a0}-])[A-Za-z0-9]{4})(?:\\1[A-Za-z0-9]{1,4}){2,7})",
		.validator = "iban",
		.priority = 95,
		.strategy = MW_STRATEGY_PLACEHOLDER,
		.prefilter = "0-9{7,9}",
	},
	{
		.type = "CC",
		.pattern = "(?<![A-Za-z0-9])(?<![0-9]\\.)[2-6](?:[0-9]{12,18}|[0-9]{0,7}([ \\x{a0}\\x{2011}\\x{2013}-])[0-9]{2,10}(?:\\1[0-9]{2,10}){0,6})(?![A-Za-z0-9])(?!\\.[0-9])",
		.validator = "cc",
		.priority = 85,
		.strategy = MW_STRATEGY_PLACEHOLDER,
		.prefilter = "0-9{13,4}",
	},
	{
		.type = "SSN",
		.pattern = "(?<![A-Za-z0-9])(?:(?<![0-9][.-])[0-8][0-9]{2}([\\x{2010}\\x{2011}\\x{2013}-])[0-9]{2}\\1[0-9]{4}|(?<![0-9] )[0-8][0-9]{2}([ \\x{a0}])[0-9]{2}\\2[0-9]{4})(?![A-Za-z0-9])(?![.-][0-9])",
		.validator = "ssn",
		.priority = 80,
		.strategy = MW_STRATEGY_PLACEHOLDER,
		.prefilter = "0-9{9,4}",
	},
	{
		.type = "SSN",
		.pattern = "(?<![A-Za-z0-9])[0-8][0-9]{8}(?![A-Za-z0-9])(?!\\.[0-9])",
		.validator = "ssn",
		.context = SSN_WORD,
		.priority = 80,
		.strategy = MW_STRATEGY_PLACEHOLDER,
		.prefilter = "0-9{9,4}",
	},
	{
		.type = "MAC",
		.pattern = "(?<![A-Za-z0-9:])(?<![A-Za-z0-9]-)[0-9A-Fa-f]{2}([:-])[0-9A-Fa-f]{2}(?:\\1[0-9A-Fa-f]{2}){4}(?![A-Za-z0-9])(?![:-][A-Za-z0-9])",
		.validator = "mac",
		.priority = 75,
		.strategy = MW_STRATEGY_PLACEHOLDER,
		.prefilter = ":-{5,3}",
	},
	{
		.type = "MAC",
		.pattern = "(?<![A-Za-z0-9.])[0-9A-Fa-f]{4}\\.[0-9A-Fa-f]{4}\\.[0-9A-Fa-f]{4}(?![A-Za-z0-9])(?!\\.[A-Za-z0-9])",
		.validator = "mac",
		.priority = 75,
		.strategy = MW_STRATEGY_PLACEHOLDER,
		.prefilter = ".{2,5}",
	},
	{
		.type = "IP",
		.pattern = "(?<![A-Za-z0-9.])(?<!version )(?<!Version )[0-9]{1,3}(?:\\.[0-9]{1,3}){3}(?![A-Za-z0-9])(?!\\.[0-9])",
		.validator = "ipv4",
		.priority = 70,
		.strategy = MW_STRATEGY_PLACEHOLDER,
		.prefilter = ".{3,5}",
	},
	{
		.type = "IP",
		.pattern = "(?<![A-Za-z0-9:.])(?:[0-9A-Fa-f]{0,4}:){2,7}(?:[0-9]{1,3}(?:\\.[0-9]{1,3}){3}|[0-9A-Fa-f]{1,4}|:)?(?![A-Za-z0-9])(?!:[A-Za-z0-9:])(?!\\()",
		.validator = "ipv6",
		.priority = 70,
		.strategy = MW_STRATEGY_PLACEHOLDER,
		.prefilter = ":{2,5}",
	},
	{
		/* international: + or 00 and a country */
		.type = "PHONE",
		.pattern = "(?<![A-Za-z0-9+])(?:\\+[1-9]|00 ?[1-9])(?:" TEL_SEP "[0-9]){5,13}[0-9](?![A-Za-z0-9])",
		.validator = "phone",
		.priority = 50,
		.strategy = MW_STRATEGY_PLACEHOLDER,
		.prefilter = "0-9{7,4}",
	},
	{
		/* North America: three, three and four with separators */
		.type = "PHONE",
		.pattern = "(?<![A-Za-z0-9])(?<![0-9][.-])(?:\\+?1[ .\\x{a0}-])?(?:\\([2-9][0-9]{2}\\)[ .\\x{a0}-]?|[2-9][0-9]{2}[ .\\x{a0}\\x{2011}\\x{2013}-])[2-9][0-9]{2}[ .\\x{a0}\\x{2011}\\x{2013}-][0-9]{4}(?![A-Za-z0-9])(?![.-][0-9])",
		.validator = "phone",
		.priority = 50,
		.strategy = MW_STRATEGY_PLACEHOLDER,
		.prefilter = "0-9{10,4}",
	},
	{
		/* anything else only next to a word that names it; a date never */
		.type = "PHONE",
		.pattern = "(?<![A-Za-z0-9+])(?<![0-9][./-])(?![0-9]{4}-[0-9]{2}-[0-9]{2}(?![0-9]))(?![0-9]{1,2}[./][0-9]{1,2}[./][0-9]{2,4}(?![0-9]))"
		"\\(?[0-9](?:" TEL_SEP "[0-9]){5,13}[0-9](?![A-Za-z0-9])(?![.:-][0-9A-Za-z])",
		.validator = "phone",
		.context = TEL_WORD,
		.priority = 40,
		.strategy = MW_STRATEGY_PLACEHOLDER,
		.prefilter = "0-9{7,4}",
	},
};

const int	mw_nbuiltin_recognizers = lengthof(mw_builtin_recognizers);
