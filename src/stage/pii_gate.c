/*
 * pii_gate.c - reading gates (pii_gate.h says what they are).
 */
#include "postgres.h"

#include "stage/pii_gate.h"

static const struct
{
	const char *name;
	MwPiiGateKind	kind;
}			kinds[] = {
	{"number", MW_PII_GATE_NUMBER}, {"word", MW_PII_GATE_WORD}, {"run", MW_PII_GATE_RUN}, {"key", MW_PII_GATE_KEY},
	{"at", MW_PII_GATE_AT}, {"colon", MW_PII_GATE_COLON}, {"dash", MW_PII_GATE_DASH}, {"named", MW_PII_GATE_NAMED},
	{"scheme", MW_PII_GATE_SCHEME}, {"pem", MW_PII_GATE_PEM}, {"caps", MW_PII_GATE_CAPS},
	{"spelled", MW_PII_GATE_SPELLED}, {"said", MW_PII_GATE_SAID},
};

/* 3,5-9 as bits */
static const char *
read_lengths(const char *p, uint64 *bits)
{
	*bits = 0;
	for (;;)
	{
		long		lo = strtol(p, (char **) &p, 10);
		long		hi = lo;

		if (*p == '-')
			hi = strtol(p + 1, (char **) &p, 10);
		for (; lo <= hi && lo <= MW_LEN_LONG; lo++)
			*bits |= UINT64CONST(1) << lo;
		if (*p != ',')
			return p;
		p++;
	}
}

static uint8
prev_bit(char c)
{
	switch (c)
	{
		case '.':
			return MW_PREV_DOT;
		case '-':
			return MW_PREV_DASH;
		case '/':
			return MW_PREV_SLASH;
		case ':':
			return MW_PREV_COLON;
		case '+':
			return MW_PREV_PLUS;
		case ',':
			return MW_PREV_COMMA;
		case '_':
			return MW_PREV_UNDER;
		default:
			return 0;
	}
}

static uint8
sep_bit(char c)
{
	switch (c)
	{
		case '_':
			return MW_SEP_NONE;
		case '~':
			return MW_SEP_SPACE;
		case '-':
			return MW_SEP_DASH;
		case '.':
			return MW_SEP_DOT;
		case '/':
			return MW_SEP_SLASH;
		case ')':
			return MW_SEP_PAREN;
		default:
			return 0;
	}
}

static bool
is(const char *p, const char *word)
{
	return strncmp(p, word, strlen(word)) == 0;
}

/* mw_pii_gate_read reads one. */
bool
mw_pii_gate_read(const char *spec, MwPiiGate *gate)
{
	const char *p = spec;
	size_t		n;
	size_t		i;

	memset(gate, 0, sizeof(*gate));
	gate->len = gate->two = ~UINT64CONST(0);
	gate->digits = 0x3ff;
	gate->letters = true;
	gate->sep = gate->prev = 0xff;
	if (p == NULL)
		return false;

	n = strcspn(p, " ");
	for (i = 0; i < lengthof(kinds); i++)
		if (strlen(kinds[i].name) == n && strncmp(p, kinds[i].name, n) == 0)
			gate->kind = kinds[i].kind;
	if (gate->kind == MW_PII_GATE_NONE)
		return false;
	p += n;

	while (*p == ' ')
	{
		p++;
		if (is(p, "len="))
			p = read_lengths(p + 4, &gate->len);
		else if (is(p, "two="))
			p = read_lengths(p + 4, &gate->two);
		else if (is(p, "min="))
			gate->min = strtol(p + 4, (char **) &p, 10);
		else if (is(p, "first="))
		{
			gate->digits = 0;
			gate->letters = false;
			for (p += 6; *p && *p != ' '; p++)
			{
				if (*p == 'a')
					gate->letters = true;
				else if (p[1] == '-')
				{
					for (int d = p[0] - '0'; d <= p[2] - '0'; d++)
						gate->digits |= 1 << d;
					p += 2;
				}
				else if (*p != ',')
				{
					Assert(*p >= '0' && *p <= '9');
					gate->digits |= 1 << (*p - '0');
				}
			}
		}
		else if (is(p, "sep="))
			for (p += 4, gate->sep = 0; *p && *p != ' '; p++)
				gate->sep |= sep_bit(*p);
		else if (is(p, "prev!="))
			for (p += 6; *p && *p != ' '; p++)
				gate->prev &= ~prev_bit(*p);
		else if (is(p, "start="))
		{
			gate->start = p + 6;
			p += strcspn(p, " ");
		}
		else if (is(p, "before"))
			gate->before = true, p += 6;
		else if (is(p, "lead"))
			gate->lead = true, p += 4;
		else if (is(p, "plus"))
			gate->lead = gate->plus = true, p += 4;
		else if (is(p, "high"))
			gate->high = true, p += 4;
		else
			return false;
	}
	return *p == '\0';
}
