/*
 * openai_answer.c - reading a chat completion.
 *
 * One reader serves both sides.  The gateway asks for the outcome (usage, may it
 * be cached, what went wrong), a backend for the answer itself; were they two
 * readers, a body that one could use and the other could not would be paid for
 * and lost.  It hangs on PostgreSQL's own JSON parser as a set of semantic
 * actions and builds no tree: a hit is decoded each time it is read, and most of
 * a body is text that nobody looks at.
 *
 * What is looked at is a table of places: a key inside a place leads to another.
 * As in jsonb the last of several equal keys counts.
 *
 * The bytes are a stranger's.  Nesting is checked before the parser, which
 * recurses, sees them; the parser reports a mistake and does not raise; what
 * kind of value stands where is checked at each place.  All that is allocated is
 * linear in the body.
 */
#include "mw.h"

#include <math.h>

#include "mb/pg_wchar.h"
#include "utils/memutils.h"

#include "provider/openai.h"
#include "util/json.h"

#define MAX_TOKENS		9007199254740992.0	/* 2^53: above it a JSON number is no exact integer */
#define MAX_ERROR		200
#define MAX_KEYS_SHOWN	120

typedef enum Place
{
	ELSEWHERE,
	ROOT,
	ERROR_TEXT, ERRORS, DETAIL,
	CHOICES, CHOICE, INDEX, FINISH, MESSAGE,
	CONTENT, PART, PART_TYPE, PART_TEXT, REFUSAL, FUNCTION_CALL,
	CALLS, CALL, CALL_ID, FUNCTION, FUNCTION_NAME, ARGUMENTS,
	USAGE, INPUT, OUTPUT, TOTAL, INPUT_DETAILS, OUTPUT_DETAILS, CACHED, REASONING,
	FAULT, FAULT_TEXT, FAULT_CODE, FAULT_TYPE
} Place;

static const struct
{
	Place		in;
	const char *key;			/* NULL: an element of an array */
	Place		at;
}			places[] = {
	{ROOT, NULL, ROOT},			/* [{"error": …}], as Google sends */
	{ROOT, "choices", CHOICES},
	{ROOT, "usage", USAGE},
	{ROOT, "error", FAULT},
	{ROOT, "message", ERROR_TEXT},
	{ROOT, "detail", DETAIL},
	{ROOT, "errors", ERRORS},
	{ERRORS, NULL, FAULT},
	{DETAIL, NULL, DETAIL},
	{DETAIL, "msg", ERROR_TEXT},
	{DETAIL, "message", ERROR_TEXT},
	{FAULT, "message", FAULT_TEXT},
	{FAULT, "code", FAULT_CODE},
	{FAULT, "type", FAULT_TYPE},
	{FAULT, "status", FAULT_TYPE},
	{CHOICES, NULL, CHOICE},
	{CHOICE, "index", INDEX},
	{CHOICE, "message", MESSAGE},
	{CHOICE, "finish_reason", FINISH},
	{MESSAGE, "content", CONTENT},
	{MESSAGE, "refusal", REFUSAL},
	{MESSAGE, "tool_calls", CALLS},
	{MESSAGE, "function_call", FUNCTION_CALL},
	{CONTENT, NULL, PART},
	{PART, "type", PART_TYPE},
	{PART, "text", PART_TEXT},
	{CALLS, NULL, CALL},
	{CALL, "id", CALL_ID},
	{CALL, "function", FUNCTION},
	{FUNCTION, "name", FUNCTION_NAME},
	{FUNCTION, "arguments", ARGUMENTS},
	{USAGE, "prompt_tokens", INPUT},
	{USAGE, "completion_tokens", OUTPUT},
	{USAGE, "total_tokens", TOTAL},
	{USAGE, "prompt_tokens_details", INPUT_DETAILS},
	{USAGE, "completion_tokens_details", OUTPUT_DETAILS},
	{INPUT_DETAILS, "cached_tokens", CACHED},
	{OUTPUT_DETAILS, "reasoning_tokens", REASONING},
};

typedef struct Call
{
	char	   *id;
	char	   *name;
	const char *args;			/* as sent: the text of a string, or of the value itself */
	int			args_len;
	bool		has_function;
} Call;

typedef struct Choice
{
	int64		index;
	char	   *finish;
	bool		has_message;
	const char *bad;			/* what of the message cannot be used */
	char	   *text;
	StringInfo	parts;
	bool		refused;
	bool		function_call;
	Call	   *calls;
	int			ncalls;
	int			calls_cap;
} Choice;

typedef struct Reader
{
	JsonLexContext *lex;
	Place		stack[MW_JSON_MAX_DEPTH + 2];
	int			depth;
	Place		at;				/* where the next value stands */

	bool		is_object;		/* the root */
	bool		has_choices;	/* an array */
	int			nchoices;
	Choice		choice;			/* the one that is being read */
	Choice		best;			/* that of index 0 */
	bool		has_best;

	bool		has_usage;		/* an object */
	double		input;			/* -1: missing or absurd */
	double		output;
	double		total;
	double		cached;
	double		reasoning;

	bool		has_fault;
	char	   *fault_text;
	char	   *fault_code;
	char	   *fault_type;
	char	   *error_text;
	char		keys[MAX_KEYS_SHOWN];	/* of the root, for an error */

	/* of the content part, and of the value whose text is kept */
	char	   *part_type;
	char	   *part_text;
	const char *kept_from;
} Reader;

/* ---------- places ---------- */

static void
forget_usage(Reader *r)
{
	r->has_usage = false;
	r->input = r->output = r->total = r->cached = r->reasoning = -1;
}

static void
forget_message(Choice *c)
{
	c->has_message = false;
	c->bad = NULL;
	c->text = NULL;
	c->parts = NULL;
	c->refused = c->function_call = false;
	c->ncalls = 0;
}

/* A value is about to come: what an earlier equal key brought is forgotten */
static void
begin_value(Reader *r)
{
	Choice	   *c = &r->choice;

	switch (r->at)
	{
		case CHOICES:
			r->has_choices = r->has_best = false;
			r->nchoices = 0;
			break;
		case CHOICE:
			memset(c, 0, sizeof(*c));
			c->index = r->nchoices++;
			break;
		case MESSAGE:
			forget_message(c);
			break;
		case CONTENT:
			c->text = NULL;
			c->parts = NULL;
			c->bad = NULL;
			break;
		case CALLS:
			c->ncalls = 0;
			break;
		case FUNCTION:
			c->calls[c->ncalls - 1].has_function = false;
			c->calls[c->ncalls - 1].name = NULL;
			c->calls[c->ncalls - 1].args = NULL;
			c->calls[c->ncalls - 1].args_len = 0;
			break;
		case USAGE:
			forget_usage(r);
			break;
		case FAULT:
			r->has_fault = false;
			r->fault_text = r->fault_code = r->fault_type = NULL;
			break;
		case PART:
			r->part_type = r->part_text = NULL;
			break;
		default:
			break;
	}
}

static void
lead_to(Reader *r, const char *key)
{
	Place		in = r->stack[r->depth];

	r->at = ELSEWHERE;
	if (in == ELSEWHERE)
		return;
	for (int i = 0; i < lengthof(places); i++)
	{
		if (places[i].in == in &&
			(key == NULL ? places[i].key == NULL : places[i].key != NULL && strcmp(places[i].key, key) == 0))
		{
			r->at = places[i].at;
			begin_value(r);
			return;
		}
	}
}

static MW_JSON_ACTION
on_field(void *state, char *key, bool isnull)
{
	Reader	   *r = state;

	if (r->depth == 1 && r->stack[1] == ROOT && strlen(r->keys) + 3 < sizeof(r->keys))
	{
		if (r->keys[0] != '\0')
			strlcat(r->keys, ", ", sizeof(r->keys));
		mw_error_text(r->keys, sizeof(r->keys), key, strlen(key), false);
	}
	lead_to(r, key);
	MW_JSON_OK;
}

static MW_JSON_ACTION
on_element(void *state, bool isnull)
{
	lead_to(state, NULL);
	MW_JSON_OK;
}

/* ---------- containers ---------- */

static Call *
add_call(Choice *c)
{
	if (c->ncalls == c->calls_cap)
	{
		c->calls_cap = c->calls_cap ? c->calls_cap * 2 : 4;
		c->calls = c->calls ? repalloc(c->calls, c->calls_cap * sizeof(Call)) : palloc(c->calls_cap * sizeof(Call));
	}
	memset(&c->calls[c->ncalls], 0, sizeof(Call));
	return &c->calls[c->ncalls++];
}

static void
open_container(Reader *r, bool object)
{
	Choice	   *c = &r->choice;
	Place		at = r->at;

	switch (at)
	{
		case ROOT:
			if (r->depth == 0)
				r->is_object = object;
			break;
		case CHOICES:
			r->has_choices = !object;
			at = object ? ELSEWHERE : at;
			break;
		case MESSAGE:
			c->has_message = object;
			break;
		case CONTENT:
			if (object)
				c->bad = "its content is an object";
			else
				c->parts = makeStringInfo();
			break;
		case CALLS:
			if (object)
				c->bad = "its tool_calls are no array";
			break;
		case CALL:
			if (object)
				add_call(c);
			else
				c->bad = "a tool call is no object";
			break;
		case FUNCTION:
			if (object)
				c->calls[c->ncalls - 1].has_function = true;
			break;
		case FUNCTION_CALL:
			c->function_call = true;
			break;
		case ARGUMENTS:
			r->kept_from = r->lex->token_start;
			break;
		case USAGE:
			r->has_usage = object;
			break;
		case FAULT:
			r->has_fault = true;
			break;
		default:
			break;
	}

	/* the wrong kind of container holds nothing that is looked for */
	if ((at == CONTENT || at == CHOICES || at == CALLS || at == ERRORS) == object &&
		at != ROOT && at != DETAIL && at != ARGUMENTS)
		at = ELSEWHERE;
	r->stack[++r->depth] = at;
}

static void
close_container(Reader *r)
{
	/* a place whose container was of the wrong kind was pushed as ELSEWHERE: nothing to end */
	Place		at = r->stack[r->depth--];
	Choice	   *c = &r->choice;

	if (at == CHOICE)
	{
		if (!r->has_best || (c->index == 0 && r->best.index != 0))
		{
			r->best = *c;
			r->has_best = true;
		}
	}
	else if (at == PART && r->part_text != NULL && c->parts != NULL &&
			 (r->part_type == NULL || strcmp(r->part_type, "text") == 0 || strcmp(r->part_type, "output_text") == 0))
		appendStringInfoString(c->parts, r->part_text);
}

/* The text of an ARGUMENTS value that is no string */
static void
keep_arguments(Reader *r, const char *end)
{
	Call	   *call = &r->choice.calls[r->choice.ncalls - 1];

	call->args = r->kept_from;
	call->args_len = end - r->kept_from;
	r->kept_from = NULL;
}

static MW_JSON_ACTION
on_object_start(void *state)
{
	open_container(state, true);
	MW_JSON_OK;
}

static MW_JSON_ACTION
on_array_start(void *state)
{
	open_container(state, false);
	MW_JSON_OK;
}

static MW_JSON_ACTION
on_container_end(void *state)
{
	Reader	   *r = state;

	if (r->kept_from != NULL && r->stack[r->depth] == ARGUMENTS)
		keep_arguments(r, r->lex->prev_token_terminator);
	close_container(r);
	MW_JSON_OK;
}

/* ---------- scalars ---------- */

/* A count of tokens; -1 for what is none */
static double
count_of(const char *token, JsonTokenType type)
{
	double		d;

	if (type != JSON_TOKEN_NUMBER)
		return -1;
	d = strtod(token, NULL);
	if (!(d >= 0) || d >= MAX_TOKENS || d != floor(d))
		return -1;
	return d;
}

static MW_JSON_ACTION
on_scalar(void *state, char *token, JsonTokenType type)
{
	Reader	   *r = state;
	Choice	   *c = &r->choice;
	Call	   *call = c->ncalls > 0 ? &c->calls[c->ncalls - 1] : NULL;
	char	   *text = type == JSON_TOKEN_STRING ? token : NULL;

	switch (r->at)
	{
		case INDEX:
			c->index = type == JSON_TOKEN_NUMBER ? (int64) Max(Min(strtod(token, NULL), 1e9), -1) : c->index;
			break;
		case FINISH:
			c->finish = text;
			break;
		case CONTENT:
			c->text = text;
			if (text == NULL && type != JSON_TOKEN_NULL)
				c->bad = "its content is no text";
			break;
		case PART:
			if (text != NULL && c->parts != NULL)
				appendStringInfoString(c->parts, text);
			break;
		case PART_TYPE:
			r->part_type = text;
			break;
		case PART_TEXT:
			r->part_text = text;
			break;
		case REFUSAL:
			c->refused = text != NULL && text[0] != '\0';
			break;
		case CALLS:
			if (type != JSON_TOKEN_NULL)
				c->bad = "its tool_calls are no array";
			break;
		case CALL:
			c->bad = "a tool call is no object";
			break;
		case CALL_ID:
			call->id = text;
			break;
		case FUNCTION_NAME:
			call->name = text;
			break;
		case ARGUMENTS:
			call->args = type == JSON_TOKEN_NULL ? NULL : token;
			call->args_len = call->args ? strlen(call->args) : 0;
			break;
		case INPUT:
			r->input = count_of(token, type);
			break;
		case OUTPUT:
			r->output = count_of(token, type);
			break;
		case TOTAL:
			r->total = count_of(token, type);
			break;
		case CACHED:
			r->cached = count_of(token, type);
			break;
		case REASONING:
			r->reasoning = count_of(token, type);
			break;
		case FAULT:
			r->has_fault = type == JSON_TOKEN_TRUE || (text != NULL && text[0] != '\0');
			r->fault_text = text;
			break;
		case FAULT_TEXT:
			r->fault_text = text;
			break;
		case FAULT_CODE:
			r->fault_code = type == JSON_TOKEN_STRING || type == JSON_TOKEN_NUMBER ? token : NULL;
			break;
		case FAULT_TYPE:
			r->fault_type = text;
			break;
		case ERROR_TEXT:
		case DETAIL:
			if (text != NULL)
				r->error_text = text;
			break;
		default:
			break;
	}
	MW_JSON_OK;
}

/* ---------- reading ---------- */

/* Returns NULL, or what is wrong with the body as JSON */
static const char *
read_body(Reader *r, const char *body, int len)
{
	JsonSemAction sem;
	JsonParseErrorType rc;

	memset(r, 0, sizeof(*r));
	forget_usage(r);
	r->at = ROOT;
	if (mw_json_too_deep(body, len))
		return "it is nested too deeply";

	r->lex = mw_json_lexer(unconstify(char *, body), len, PG_UTF8, true);
	memset(&sem, 0, sizeof(sem));
	sem.semstate = r;
	sem.object_start = on_object_start;
	sem.object_end = on_container_end;
	sem.array_start = on_array_start;
	sem.array_end = on_container_end;
	sem.object_field_start = on_field;
	sem.array_element_start = on_element;
	sem.scalar = on_scalar;
	rc = pg_parse_json(r->lex, &sem);
	return rc == JSON_SUCCESS ? NULL : "it is not JSON";
}

/* NULL when the chosen answer can be used, else why not; "" stands for "the shape is not that of a completion" */
static const char *
why_unusable(const Reader *r)
{
	const Choice *c = &r->best;

	if (!r->is_object || !r->has_choices || !r->has_best || !c->has_message)
		return "";
	if (c->bad != NULL)
		return c->bad;
	for (int i = 0; i < c->ncalls; i++)
	{
		if (!c->calls[i].has_function || c->calls[i].name == NULL || c->calls[i].name[0] == '\0')
			return "a tool call names no function";
	}
	return NULL;
}

static const char *
text_of(const Choice *c)
{
	return c->parts != NULL ? c->parts->data : c->text;
}

/*
 * Usage counts only where both halves are whole, plain numbers.  Nothing at all,
 * or no output beside a text, is what servers send that do not count.
 */
static void
read_usage(const Reader *r, bool has_text, MwOutcome *out)
{
	MwUsage    *u = &out->usage;

	if (!r->has_usage || r->input < 0 || r->output < 0 ||
		(r->input == 0 && r->output == 0) || (has_text && r->output == 0))
		return;
	out->has_usage = true;
	u->input_tokens = (int64) r->input;
	u->output_tokens = (int64) r->output;
	u->cached_tokens = (int64) Max(Min(r->cached, r->input), 0);
	u->reasoning_tokens = (int64) Max(r->reasoning, 0);

	/* some count reasoning beside the completion instead of in it; their total tells */
	if (r->reasoning > 0 && r->total == r->input + r->output + r->reasoning)
		u->output_tokens += (int64) r->reasoning;
	u->reasoning_tokens = Min(u->reasoning_tokens, u->output_tokens);
}

/* The HTTP status that an error inside a 200 stands for; 0 for none known */
static int
inner_status(const Reader *r)
{
	static const struct
	{
		const char *word;
		int			status;
	}			words[] = {
		{"insufficient_quota", 429}, {"rate_limit_exceeded", 429}, {"rate_limit_error", 429}, {"rate_limit", 429},
		{"too_many_requests", 429}, {"resource_exhausted", 429}, {"tokens", 429}, {"requests", 429},
		{"server_error", 500}, {"internal_error", 500}, {"internal_server_error", 500}, {"api_error", 500}, {"internal", 500},
		{"overloaded", 503}, {"overloaded_error", 503}, {"service_unavailable", 503}, {"unavailable", 503}, {"bad_gateway", 502},
		{"timeout", 408}, {"timeout_error", 408}, {"request_timeout", 408}, {"deadline_exceeded", 504},
		{"invalid_api_key", 401}, {"authentication_error", 401}, {"unauthorized", 401}, {"unauthenticated", 401},
		{"billing_hard_limit_reached", 402}, {"permission_error", 403}, {"permission_denied", 403}, {"access_denied", 403},
		{"model_not_found", 404}, {"not_found_error", 404}, {"not_found", 404},
		{"context_length_exceeded", 400}, {"content_policy_violation", 400}, {"content_filter", 400},
		{"invalid_request_error", 400}, {"invalid_argument", 400}, {"bad_request", 400}
	};
	const char *given[2] = {r->fault_code, r->fault_type};

	for (int g = 0; g < 2; g++)
	{
		double		d;
		char	   *end;

		if (given[g] == NULL || given[g][0] == '\0')
			continue;
		d = strtod(given[g], &end);
		if (*end == '\0' && d >= 400 && d <= 599)
			return (int) d;
		for (int i = 0; i < lengthof(words); i++)
		{
			if (pg_strcasecmp(given[g], words[i].word) == 0)
				return words[i].status;
		}
	}
	return 0;
}

/* What the provider says is wrong; false when it says nothing */
static bool
provider_words(const Reader *r, MwOutcome *out)
{
	const char *s = r->fault_text != NULL && r->fault_text[0] != '\0' ? r->fault_text :
		r->error_text != NULL && r->error_text[0] != '\0' ? r->error_text :
		r->fault_type != NULL ? r->fault_type : r->fault_code;

	if (s == NULL || s[0] == '\0')
		return false;
	mw_error_text(out->error, MAX_ERROR, s, strlen(s), false);
	return out->error[0] != '\0';
}

void
mw_openai_outcome(const char *body, int len, int http_status, MwOutcome *out)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mw outcome", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	Reader	   *r = palloc(sizeof(Reader));
	const char *wrong = read_body(r, body, len);
	bool		success = http_status >= 200 && http_status < 300;
	const char *unusable = wrong != NULL ? wrong : why_unusable(r);
	const char *text = NULL;

	memset(out, 0, sizeof(*out));
	if (unusable == NULL)
		text = text_of(&r->best);
	if (wrong == NULL)
		read_usage(r, text != NULL && text[0] != '\0', out);

	if (success && unusable == NULL)
	{
		const Choice *c = &r->best;

		out->usable = true;
		out->cacheable = c->finish != NULL && strcmp(c->finish, "stop") == 0 &&
			text != NULL && text[0] != '\0' && c->ncalls == 0 && !c->refused && !c->function_call;
	}
	else if (success && wrong == NULL && r->has_fault)
	{
		out->inner_status = inner_status(r);
		if (!provider_words(r, out))
			strlcpy(out->error, "the answer holds an error without a message", sizeof(out->error));
	}
	else if (success && wrong == NULL)
	{
		if (unusable[0] != '\0')
			snprintf(out->error, sizeof(out->error), "the answer cannot be used: %s", unusable);
		else if (!r->is_object)
			strlcpy(out->error, "the answer cannot be used: it is no JSON object", sizeof(out->error));
		else
			snprintf(out->error, sizeof(out->error), "the answer has no choice with a message (its keys: %s)",
					 r->keys[0] ? r->keys : "none");
	}
	else if (success)
	{
		snprintf(out->error, sizeof(out->error), "the answer cannot be used: %s%s", wrong, len > 0 ? ": " : "");
		mw_error_text(out->error, sizeof(out->error), body, len, true);
	}
	else if (!provider_words(r, out) && wrong != NULL)
		mw_error_text(out->error, MAX_ERROR, body, len, true);

	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

/* ---------- the answer itself ---------- */

static void
decode_call(const Call *from, int n, MwToolCall *to)
{
	char	   *why;
	int			len = from->args_len;
	const char *s = from->args;

	/* a few servers leave the id out: pairing needs one */
	to->id = from->id != NULL && from->id[0] != '\0' ? from->id : psprintf("call_%d", n);
	to->name = from->name;

	/* no arguments is legal and comes in many spellings */
	while (len > 0 && isspace((unsigned char) s[len - 1]))
		len--;
	while (len > 0 && isspace((unsigned char) *s))
	{
		s++;
		len--;
	}
	if (len == 0)
	{
		s = "{}";
		len = 2;
	}
	to->args = mw_json_parse(s, len, &why);
	if (to->args == NULL || !mw_json_is_object(to->args))
	{
		to->args = NULL;
		to->raw_args = pnstrdup(from->args, from->args_len);
	}
}

MwAnswer *
mw_openai_decode(const char *body, int len)
{
	Reader	   *r = palloc(sizeof(Reader));
	const char *wrong = read_body(r, body, len);
	MwAnswer   *answer;
	Choice	   *c;
	MwOutcome	usage;

	if (wrong == NULL)
		wrong = why_unusable(r);
	if (wrong != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ANSWER),
				 errmsg("the provider's answer cannot be used"),
				 wrong[0] != '\0' ? errdetail("The answer is no chat completion: %s.", wrong) :
				 errdetail("The answer has no choice with a message (its keys: %s).", r->keys[0] ? r->keys : "none"),
				 errhint("Check that base_url of the server is that of an OpenAI-compatible API.")));

	c = &r->best;
	answer = palloc0(sizeof(MwAnswer));
	answer->text = unconstify(char *, text_of(c));
	answer->len = answer->text != NULL ? strlen(answer->text) : 0;
	answer->finish = c->finish != NULL ? c->finish : c->ncalls > 0 ? "tool_calls" : NULL;
	answer->ntool_calls = c->ncalls;
	if (c->ncalls > 0)
		answer->tool_calls = palloc0(c->ncalls * sizeof(MwToolCall));
	for (int i = 0; i < c->ncalls; i++)
		decode_call(&c->calls[i], i, &answer->tool_calls[i]);
	memset(&usage, 0, sizeof(usage));	/* for its half about usage alone */
	read_usage(r, answer->len > 0, &usage);
	answer->usage = usage.usage;
	answer->usage.estimated = !usage.has_usage;
	pfree(r);
	return answer;
}
