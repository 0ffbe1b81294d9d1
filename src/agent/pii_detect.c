/*
 * pii_detect.c - the detectors of the pii middleware: five built-in types, and
 * patterns of users.
 *
 * They find what LangChain's find, no more and no less, so that an agent that
 * moved here does as it did; what mw itself finds (stage/detect.c) is more, and
 * is the redact stage's.  Word boundaries are those of ASCII: an address right
 * beside Chinese characters is found.
 *
 * No pattern here goes back and forth over a text: each begins where a run of
 * its characters begins, and nowhere inside of it.
 */
#include "mw.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"

#include "agent/pii.h"
#include "util/regex.h"
#include "util/validate.h"

static List *
add_hit(List *hits, const char *type, int from, int to)
{
	MwPiiHit   *hit = palloc(sizeof(MwPiiHit));

	hit->from = from;
	hit->to = to;
	hit->type = type;
	return lappend(hits, hit);
}

List *
mw_detect_pattern(const char *pattern, const char *type, const char *s, int len)
{
	MwRegex    *re = mw_regex_get(pattern, 0, NULL);
	List	   *hits = NIL;
	int			at = 0;
	int			from;
	int			to;
	int			rc = 0;

	while (re != NULL && at <= len && (rc = mw_regex_find(re, s, len, at, &from, &to)) == 1)
	{
		CHECK_FOR_INTERRUPTS();
		if (to > from)
			hits = add_hit(hits, type, from, to);
		/* an empty match is nobody's data; go on behind the next character */
		at = to > at ? to : at < len ? at + pg_utf_mblen((const unsigned char *) s + at) : len + 1;
	}
	if (rc < 0)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("the detector of pii type \"%s\" takes too long on this text", type),
				 errdetail("Its pattern goes back and forth over the text beyond its limit, so that nobody knows what it would find."),
				 errhint("Let every repetition in it have a bound, and none stand inside another.")));
	return hits;
}

static List *
detect_email(const char *s, int len)
{
	/* from the beginning of a run of characters that a local part may have, over leading marks to the first letter */
	return mw_detect_pattern("(?<![A-Za-z0-9._%+-])[.%+-]*+\\K[A-Za-z0-9_][A-Za-z0-9._%+-]*+@[A-Za-z0-9.-]+\\.[A-Za-z]{2,}\\b",
							 "email", s, len);
}

static List *
detect_card(const char *s, int len)
{
	MwValidator luhn = mw_validator_find("luhn");
	List	   *hits = NIL;
	ListCell   *lc;

	foreach(lc, mw_detect_pattern("\\b\\d{4}[\\s-]?\\d{4}[\\s-]?\\d{4}[\\s-]?\\d{4}\\b", "credit_card", s, len))
	{
		MwPiiHit   *hit = lfirst(lc);

		if (luhn(s + hit->from, hit->to - hit->from) > 0)
			hits = lappend(hits, hit);
	}
	return hits;
}

/* Four numbers up to 255, none with a zero before it */
static bool
is_ipv4(const char *s, int len)
{
	int			value = 0;
	int			digits = 0;

	for (int i = 0; i <= len; i++)
	{
		if (i == len || s[i] == '.')
		{
			if (value > 255 || (digits > 1 && s[i - digits] == '0'))
				return false;
			value = digits = 0;
		}
		else
		{
			value = value * 10 + (s[i] - '0');
			digits++;
		}
	}
	return true;
}

static List *
detect_ip(const char *s, int len)
{
	List	   *hits = NIL;
	ListCell   *lc;

	foreach(lc, mw_detect_pattern("\\b(?:[0-9]{1,3}\\.){3}[0-9]{1,3}\\b", "ip", s, len))
	{
		MwPiiHit   *hit = lfirst(lc);

		if (is_ipv4(s + hit->from, hit->to - hit->from))
			hits = lappend(hits, hit);
	}
	return hits;
}

static List *
detect_mac(const char *s, int len)
{
	return mw_detect_pattern("\\b(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}\\b", "mac_address", s, len);
}

/* A bare host counts as a URL where it has a path or begins with www. */
static bool
is_bare_url(const char *s, int len)
{
	return memchr(s, '/', len) != NULL || (len > 4 && memcmp(s, "www.", 4) == 0);
}

static int
by_place(const ListCell *a, const ListCell *b)
{
	return ((MwPiiHit *) lfirst(a))->from - ((MwPiiHit *) lfirst(b))->from;
}

static List *
detect_url(const char *s, int len)
{
	static const char label[] = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?";
	List	   *schemes = mw_detect_pattern("https?://[^\\s<>\"{}|\\\\^`\\[\\]]+", "url", s, len);
	List	   *bare = mw_detect_pattern(psprintf("\\b(?:www\\.)?%s(?:\\.%s)+(?:/\\S*)?", label, label), "url", s, len);
	List	   *hits = NIL;
	ListCell   *lc;
	int			first = 0;

	foreach(lc, schemes)
	{
		MwPiiHit   *hit = lfirst(lc);
		const char *host = strstr(s + hit->from, "://") + 3;

		if (strchr("/?#", *host) == NULL)
			hits = lappend(hits, hit);
	}
	/* what begins or ends in a URL with a scheme has been found; both lists are in order */
	schemes = list_copy(hits);
	foreach(lc, bare)
	{
		MwPiiHit   *hit = lfirst(lc);
		bool		inside = false;

		while (first < list_length(schemes) && ((MwPiiHit *) list_nth(schemes, first))->to <= hit->from)
			first++;
		for (int i = first; i < list_length(schemes) && !inside; i++)
		{
			MwPiiHit   *scheme = list_nth(schemes, i);

			if (scheme->from >= hit->to)
				break;
			inside = scheme->from <= hit->from || hit->to <= scheme->to;
		}
		if (!inside && is_bare_url(s + hit->from, hit->to - hit->from))
			hits = lappend(hits, hit);
	}
	list_sort(hits, by_place);
	return hits;
}

MwDetector
mw_detector_find(const char *pii_type)
{
	static const struct
	{
		const char *type;
		MwDetector	detect;
	}			detectors[] = {
		{"email", detect_email}, {"credit_card", detect_card}, {"ip", detect_ip}, {"mac_address", detect_mac}, {"url", detect_url},
	};

	for (int i = 0; i < lengthof(detectors); i++)
		if (strcmp(pii_type, detectors[i].type) == 0)
			return detectors[i].detect;
	return NULL;
}
