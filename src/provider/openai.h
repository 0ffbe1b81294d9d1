/*
 * openai.h - between the files of the OpenAI adapter: openai.c writes requests,
 * openai_read.c finds what an answer holds, openai_answer.c says what it is,
 * openai_plain.c does both for the plain ones that are stored, and error_text.c makes a stranger's words fit to be shown.
 */
#ifndef MW_OPENAI_H
#define MW_OPENAI_H

#include "common/jsonapi.h"

#include "provider/provider.h"
#include "util/json.h"

#define MW_OPENAI_KEYS_SHOWN	120

/* What openai_read.c finds in a body */
typedef struct MwOpenaiCall
{
	char	   *id;
	char	   *name;
	const char *args;			/* as sent: the text of a string, or of the value itself */
	int			args_len;
	bool		has_function;
} MwOpenaiCall;

typedef struct MwOpenaiChoice
{
	int64		index;
	char	   *finish;
	bool		has_message;
	const char *bad;			/* what of the message cannot be used */
	char	   *text;
	StringInfo	parts;
	bool		refused;
	bool		function_call;
	MwOpenaiCall *calls;
	int			ncalls;
	int			calls_cap;
} MwOpenaiChoice;

typedef struct MwOpenaiReader
{
	JsonLexContext *lex;
	int			stack[MW_JSON_MAX_DEPTH + 2];	/* of Place, openai_read.c */
	int			depth;
	int			at;				/* where the next value stands */

	bool		is_object;		/* the root */
	bool		has_choices;	/* an array */
	int			nchoices;
	MwOpenaiChoice choice;			/* the one that is being read */
	MwOpenaiChoice best;			/* that of index 0 */
	bool		has_best;

	bool		has_usage;		/* an object */
	double		input;			/* -1: missing or absurd */
	double		output;
	double		total;
	double		cached;
	double		reasoning;
	double		audio_in;
	double		audio_out;

	bool		has_fault;
	char	   *fault_text;
	char	   *fault_code;
	char	   *fault_type;
	char	   *error_text;
	StringInfoData keys;		/* of the root, as they came: for an error */

	/* of the content part, and of the value whose text is kept */
	char	   *part_type;
	char	   *part_text;
	const char *kept_from;
} MwOpenaiReader;

/* openai_read.c: NULL, or what is wrong with the body as JSON; current context */
extern const char *mw_openai_read(MwOpenaiReader *r, const char *body, int len);

/* openai_answer.c */
extern void mw_openai_outcome(const char *body, int len, int http_status, MwOutcome *out);
extern MwAnswer *mw_openai_decode_parsed(const char *body, int len);

/* openai_plain.c: the same, without the parser where the answer is a plain text; then its usage is not read */
extern MwAnswer *mw_openai_decode(const char *body, int len);

/*
 * error_text.c: append to dst (size bytes in all, NUL terminated) what of s can
 * be shown: one line, printable, no secrets, no markup where markup is set.
 */
extern void mw_error_text(char *dst, size_t size, const char *s, int len, bool markup);

/* "Authorization: Bearer KEY" */
extern char *mw_openai_auth_header(const char *key);

#endif
