/*
 * error_text.c - what of a stranger's error text can be shown.
 *
 * A provider's message ends in SQL errors, in the ledger and in logs, and what
 * stands in it is the provider's choice: some quote the key they were given, some
 * proxies send a page of HTML.  So it becomes one line of printable characters,
 * words that look like a secret are masked, and tags are left out.  Masking goes
 * by shape and errs towards masking; model names, UUIDs and addresses stay.
 *
 * Linear, and stops when dst is full.
 */
#include "mw.h"

#include "provider/openai.h"

#define MASK "[secret]"

/* a run of letters and digits this long, with both in it, is no word */
#define SECRET_RUN		20
/* nor is anything of this length, hyphens and underscores included, with a digit */
#define SECRET_LENGTH	40

static const char *const secret_prefixes[] = {
	"sk-", "sk_", "pk-", "rk-", "csk-", "gsk_", "xai-", "pplx-", "nvapi-", "hf_", "r8_", "key-",
	"AIza", "AKIA", "ghp_", "gho_", "glpat-", "xoxb-", "xoxp-", "eyJ", NULL
};

/* what stands after "NAME=" or "NAME: " */
static const char *const secret_names[] = {
	"api_key", "apikey", "api-key", "x-api-key", "access_token", "password", "secret", "authorization", NULL
};

static bool
ends_word(unsigned char c)
{
	return c <= ' ' || c == 0x7f || strchr("\"'`<>()[]{},;=:", c) != NULL;
}

static bool
is_named(const char *word, int len, const char *const *names)
{
	for (; *names != NULL; names++)
	{
		if (strlen(*names) == len && pg_strncasecmp(word, *names, len) == 0)
			return true;
	}
	return false;
}

static bool
is_secret(const char *w, int len)
{
	int			run = 0;
	bool		digit_in_run = false;
	bool		letter_in_run = false;
	bool		digit = false;
	bool		odd = false;	/* other than letters, digits, "_" and "-" */

	for (int i = 0; secret_prefixes[i] != NULL; i++)
	{
		int			n = strlen(secret_prefixes[i]);

		if (len >= n + 4 && strncmp(w, secret_prefixes[i], n) == 0)
			return true;
	}
	for (int i = 0; i < len; i++)
	{
		bool		is_digit = w[i] >= '0' && w[i] <= '9';
		bool		is_letter = (w[i] >= 'a' && w[i] <= 'z') || (w[i] >= 'A' && w[i] <= 'Z');

		if (is_digit || is_letter)
		{
			run++;
			digit |= is_digit;
			digit_in_run |= is_digit;
			letter_in_run |= is_letter;
			if (run >= SECRET_RUN && digit_in_run && letter_in_run)
				return true;
		}
		else
		{
			run = 0;
			digit_in_run = letter_in_run = false;
			odd |= w[i] != '_' && w[i] != '-';
		}
	}
	return len >= SECRET_LENGTH && digit && !odd;
}

/* Bytes of a character that is left out: C1 controls, zero-width, direction and line separators; 0 for others */
static int
hidden_bytes(const unsigned char *s, int len)
{
	if (len >= 2 && s[0] == 0xc2 && s[1] < 0xa0)
		return 2;
	if (len >= 3 && s[0] == 0xe2 && s[1] == 0x80 &&
		((s[2] >= 0x8b && s[2] <= 0x8f) || (s[2] >= 0xa8 && s[2] <= 0xae)))
		return 3;
	if (len >= 3 && s[0] == 0xe2 && s[1] == 0x81 && s[2] >= 0xa0 && s[2] <= 0xaf)
		return 3;
	if (len >= 3 && s[0] == 0xef && s[1] == 0xbb && s[2] == 0xbf)
		return 3;
	return 0;
}

/* Where the markup that begins at s ends: a tag, or an element whose content is not for reading */
static const char *
skip_markup(const char *s, const char *end)
{
	static const char *const unread[] = {"script", "style", "svg", NULL};

	for (int i = 0; unread[i] != NULL; i++)
	{
		int			n = strlen(unread[i]);

		if (end - s > n + 1 && pg_strncasecmp(s + 1, unread[i], n) == 0)
		{
			for (const char *p = s + 1; p + n + 2 < end; p++)
			{
				if (p[0] == '<' && p[1] == '/' && pg_strncasecmp(p + 2, unread[i], n) == 0)
				{
					s = p;
					break;
				}
			}
			break;
		}
	}
	s = memchr(s, '>', end - s);
	return s != NULL ? s + 1 : end;
}

void
mw_error_text(char *dst, size_t size, const char *s, int len, bool markup)
{
	const char *end = s + len;
	size_t		n = strlen(dst);
	bool		mask_next = false;	/* the last word announces a secret */
	bool		assigned = false;	/* "=" or ":" came since */
	bool		blank = false;

	while (s < end && n + 1 < size)
	{
		const char *word = s;
		const char *from;
		int			fromlen;

		if (markup && *s == '<')
		{
			s = skip_markup(s, end);
			blank = true;
			continue;
		}
		if (ends_word((unsigned char) *s))
		{
			if ((unsigned char) *s <= ' ' || *s == 0x7f)
				blank = true;
			else
			{
				if (blank && n > 0 && dst[n - 1] != ' ' && n + 1 < size)
					dst[n++] = ' ';
				blank = false;
				if (n + 1 < size)
					dst[n++] = *s;
				assigned |= *s == '=' || *s == ':';
			}
			s++;
			continue;
		}
		while (s < end && !ends_word((unsigned char) *s))
			s++;
		from = word;
		fromlen = s - word;
		if (blank && n > 0 && dst[n - 1] != ' ' && n + 1 < size)
			dst[n++] = ' ';
		blank = false;

		if (fromlen == 6 && pg_strncasecmp(word, "bearer", 6) == 0)
			mask_next = assigned = true;
		else
		{
			if ((mask_next && assigned) || is_secret(word, fromlen))
			{
				from = MASK;
				fromlen = strlen(MASK);
			}
			mask_next = is_named(word, s - word, secret_names);
			assigned = false;
		}
		while (fromlen > 0)
		{
			int			hidden = hidden_bytes((const unsigned char *) from, fromlen);
			int			bytes = hidden ? hidden : 1;

			/* whole characters only */
			if (!hidden)
				while (bytes < fromlen && ((unsigned char) from[bytes] & 0xc0) == 0x80)
					bytes++;
			if (!hidden)
			{
				if (n + bytes >= size)
				{
					s = end;	/* full */
					break;
				}
				memcpy(dst + n, from, bytes);
				n += bytes;
			}
			from += bytes;
			fromlen -= bytes;
		}
	}
	while (n > 0 && dst[n - 1] == ' ')
		n--;
	dst[n] = '\0';
}
