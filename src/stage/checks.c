/*
 * checks.c - guards that no pattern can say: what is counted, not found.
 *
 * Each is the function of a built-in row of the same name, pure and linear in
 * the text, and leaves at its first look where there is nothing to count.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "mb/pg_wchar.h"

#include "stage/guardrail.h"

/* turns of a made-up conversation that teach a model by example */
#define MANY_SHOTS		12
/* invisible characters that carry something: tags, rows of variation selectors, overrides of direction */
#define SMUGGLED		4
/* zero-width characters inside words */
#define SPLIT_LETTERS	8
/* a text is flooded where so few of its samples differ */
#define FLOOD_MIN		8192	/* bytes */
#define FLOOD_SAMPLES	512
#define FLOOD_BYTES		16

#define is_letter(c) ((unsigned char) (((c) | 0x20) - 'a') < 26)

/* Does a line begin with the name of a speaker?  1: the asking side, 2: the answering one, 0: no */
static int
speaker(const char *s, int len)
{
	static const struct
	{
		const char *name;
		int			side;
	}			names[] = {
		{"user", 1}, {"human", 1}, {"q", 1}, {"question", 1}, {"prompt", 1},
		{"assistant", 2}, {"ai", 2}, {"a", 2}, {"answer", 2}, {"bot", 2}, {"gpt", 2}, {"chatgpt", 2}, {"model", 2}
	};
	int			i = 0;
	int			k;

	while (i < len && (s[i] == ' ' || s[i] == '*' || s[i] == '#' || s[i] == '<' || s[i] == '[' || s[i] == '|'))
		i++;
	for (k = 0; k < (int) lengthof(names); k++)
	{
		int			n = strlen(names[k].name);

		if (len - i > n && pg_strncasecmp(s + i, names[k].name, n) == 0 && !is_letter(s[i + n]))
		{
			for (n += i; n < len && n < i + 16; n++)
				if (s[n] == ':')
					return names[k].side;
				else if (s[n] != ' ' && s[n] != '*' && s[n] != ']' && s[n] != '>' && s[n] != '|' && (s[n] < '0' || s[n] > '9'))
					break;
		}
	}
	return 0;
}

static bool
many_shot(const char *s, int len, int *from, int *to)
{
	int			side = 2;
	int			turns = 0;
	int			i = 0;

	*from = *to = 0;
	while (i < len)
	{
		const char *nl = memchr(s + i, '\n', len - i);
		int			who = speaker(s + i, Min(len - i, 40));

		if (who != 0 && who != side)
		{
			if (turns++ == 0)
				*from = i;
			*to = nl ? (int) (nl - s) : len;
			side = who;
		}
		if (nl == NULL)
			break;
		i = nl - s + 1;
	}
	return turns >= MANY_SHOTS * 2;
}

/* The same few words over and over, to push out what stood before */
static bool
flooded(const char *s, int len, int *from, int *to)
{
	uint32		seen[FLOOD_SAMPLES * 2] = {0};
	int			distinct = 0;
	int			step = (len - FLOOD_BYTES) / FLOOD_SAMPLES;
	int			i;

	*from = 0;
	*to = len;
	if (len < FLOOD_MIN)
		return false;
	for (i = 0; i < FLOOD_SAMPLES; i++)
	{
		uint32		h = hash_bytes((const unsigned char *) s + i * step, FLOOD_BYTES) | 1;
		uint32		k = h % lengthof(seen);

		while (seen[k] != 0 && seen[k] != h)
			k = (k + 1) % lengthof(seen);
		if (seen[k] == 0)
			distinct++;
		seen[k] = h;
	}
	return distinct < FLOOD_SAMPLES / 8;
}

/* Count what is invisible; "split": between Latin letters, else what carries a text of its own. */
static bool
invisible(const char *s, int len, bool split, int *from, int *to)
{
	bool		flag = false;	/* the tags of an emoji flag */
	int			selectors = 0;	/* in a row */
	int			n = 0;
	int			i = 0;

	*from = *to = 0;
	while (i < len)
	{
		const unsigned char *p = (const unsigned char *) s + i;
		int			m = pg_utf_mblen(p);
		uint32		c;
		bool		counts = false;

		if (*p < 0x80 || i + m > len)
		{
			i++;
			selectors = 0;
			flag = false;
			continue;
		}
		c = utf8_to_unicode(p);
		if (split)
			counts = (c == 0x200b || c == 0x200c || c == 0x200d || c == 0x2060 || c == 0xfeff || c == 0xad || c == 0x180e) &&
				i > 0 && is_letter(s[i - 1]) && i + m < len && is_letter(s[i + m]);
		else
		{
			if (c == 0x1f3f4)
				flag = true;
			else if (c < 0xe0000)
				flag = false;
			selectors = (c >= 0xe0100 && c <= 0xe01ef) || (c >= 0xfe00 && c <= 0xfe0f) ? selectors + 1 : 0;
			counts = (c >= 0xe0020 && c <= 0xe007e && !flag) || selectors > 1 ||
				((c == 0x202e || c == 0x202d) && i + m + SMUGGLED < len && is_letter(s[i + m]) && is_letter(s[i + m + 1]));
			if (counts && (c == 0x202e || c == 0x202d))
				n += SMUGGLED;
		}
		if (counts)
		{
			if (*to == 0)
				*from = i;
			*to = i + m;
			n++;
		}
		i += m;
	}
	return n >= (split ? SPLIT_LETTERS : SMUGGLED);
}

static const char *const names[] = {"many_shot", "context_flood", "smuggled_text", "split_letters"};

/* mw_check_text runs the check of a name. */
bool
mw_check_text(const char *name, const MwPolicy *policy, const char *s, int len, const MwView *v, int *from, int *to)
{
	if (strcmp(name, names[0]) == 0)
		return many_shot(s, len, from, to);
	if (strcmp(name, names[1]) == 0)
		return flooded(s, len, from, to);
	/* a view that is the text itself is ASCII */
	if (strcmp(name, names[2]) == 0)
		return v->map != NULL && invisible(s, len, false, from, to);
	if (strcmp(name, names[3]) == 0)
		return v->map != NULL && invisible(s, len, true, from, to);
	return false;
}
