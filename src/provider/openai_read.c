/*
 * openai_read.c - finding what is looked for in a chat completion.
 *
 * It hangs on PostgreSQL's own JSON parser as a set of semantic actions and
 * builds no tree: a hit is decoded each time it is read, and most of a body is
 * text that nobody looks at.  What is looked at is a table of places: a key
 * inside a place leads to another.  As in jsonb the last of several equal keys
 * counts.
 *
 * The bytes are a stranger's.  Nesting is checked before the parser, which
 * recurses, sees them; the parser reports a mistake and does not raise; what
 * kind of value stands where is checked at each place.  All that is allocated is
 * linear in the body.
 */
#include "mw.h"

#include <math.h>

#include "mb/pg_wchar.h"

#include "provider/openai.h"

#define MAX_TOKENS		1e9		/* nobody reads or writes so much in one exchange: such a count is absurd, and not billed */

typedef enum Place
{
	ELSEWHERE,
	ROOT,
	ERROR_TEXT, ERRORS, DETAIL,
	CHOICES, CHOICE, INDEX, FINISH, MESSAGE,
	CONTENT, PART, PART_TYPE, PART_TEXT, REFUSAL, FUNCTION_CALL,
	CALLS, CALL, CALL_ID, FUNCTION, FUNCTION_NAME, ARGUMENTS,
	USAGE, INPUT, OUTPUT, TOTAL, INPUT_DETAILS, OUTPUT_DETAILS, CACHED, REASONING, AUDIO_IN, AUDIO_OUT,
	FAULT, FAULT_TEXT, FAULT_CODE, FAULT_TYPE,
	NPLACES
} Place;

static const struct
{
	Place		in;
	const char *key;			/* NULL: an element of an array */
	Place		at;
}			places[] = {				/* those in one place stand together */
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
	{INPUT_DETAILS, "audio_tokens", AUDIO_IN},
	{OUTPUT_DETAILS, "audio_tokens", AUDIO_OUT},
	{OUTPUT_DETAILS, "reasoning_tokens", REASONING},
};

/* ---------- places ---------- */

static void
forget_usage(MwOpenaiReader *r)
{
	r->has_usage = false;
	r->input = r->output = r->total = r->cached = r->reasoning = r->audio_in = r->audio_out = -1;
}

static void
forget_message(MwOpenaiChoice *c)
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
begin_value(MwOpenaiReader *r)
{
	MwOpenaiChoice	   *c = &r->choice;

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
lead_to(MwOpenaiReader *r, const char *key)
{
	static uint8 first[NPLACES];	/* row of each place that leads somewhere, and 1 */
	Place		in = r->stack[r->depth];

	if (first[ROOT] == 0)
		for (int i = lengthof(places); i > 0; i--)
			first[places[i - 1].in] = i;

	r->at = ELSEWHERE;
	if (first[in] == 0)
		return;
	for (int i = first[in] - 1; i < lengthof(places) && places[i].in == in; i++)
	{
		if (key == NULL ? places[i].key == NULL : places[i].key != NULL && strcmp(places[i].key, key) == 0)
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
	MwOpenaiReader	   *r = state;

	if (r->depth == 1 && r->stack[1] == ROOT && r->keys.len < MW_OPENAI_KEYS_SHOWN)
	{
		if (r->keys.len > 0)
			appendStringInfoString(&r->keys, ", ");
		appendStringInfoString(&r->keys, key);
	}
	lead_to(r, key);
	MW_JSON_OK;
}

/* The parser leaves names and values to us; of a large body they are much more than itself */
static MW_JSON_ACTION
on_field_end(void *state, char *key, bool isnull)
{
	pfree(key);
	MW_JSON_OK;
}

static MW_JSON_ACTION
on_element(void *state, bool isnull)
{
	lead_to(state, NULL);
	MW_JSON_OK;
}

/* ---------- containers ---------- */

static MwOpenaiCall *
add_call(MwOpenaiChoice *c)
{
	if (c->ncalls == c->calls_cap)
	{
		c->calls_cap = c->calls_cap ? c->calls_cap * 2 : 4;
		c->calls = c->calls ? repalloc(c->calls, c->calls_cap * sizeof(MwOpenaiCall)) : palloc(c->calls_cap * sizeof(MwOpenaiCall));
	}
	memset(&c->calls[c->ncalls], 0, sizeof(MwOpenaiCall));
	return &c->calls[c->ncalls++];
}

static void
open_container(MwOpenaiReader *r, bool object)
{
	MwOpenaiChoice	   *c = &r->choice;
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
close_container(MwOpenaiReader *r)
{
	/* a place whose container was of the wrong kind was pushed as ELSEWHERE: nothing to end */
	Place		at = r->stack[r->depth--];
	MwOpenaiChoice	   *c = &r->choice;

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
keep_arguments(MwOpenaiReader *r, const char *end)
{
	MwOpenaiCall	   *call = &r->choice.calls[r->choice.ncalls - 1];

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
	MwOpenaiReader	   *r = state;

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
	MwOpenaiReader	   *r = state;
	MwOpenaiChoice	   *c = &r->choice;
	MwOpenaiCall	   *call = c->ncalls > 0 ? &c->calls[c->ncalls - 1] : NULL;
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
		case AUDIO_IN:
			r->audio_in = count_of(token, type);
			break;
		case AUDIO_OUT:
			r->audio_out = count_of(token, type);
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
		case ELSEWHERE:
			if (token != NULL)
				pfree(token);
			break;
		default:
			break;
	}
	MW_JSON_OK;
}

/* ---------- reading ---------- */

const char *
mw_openai_read(MwOpenaiReader *r, const char *body, int len)
{
	JsonSemAction sem;
	JsonParseErrorType rc;

	memset(r, 0, sizeof(*r));
	forget_usage(r);
	r->at = ROOT;
	initStringInfo(&r->keys);
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
	sem.object_field_end = on_field_end;
	sem.array_element_start = on_element;
	sem.scalar = on_scalar;
	rc = pg_parse_json(r->lex, &sem);
	return rc == JSON_SUCCESS ? NULL : "it is not JSON";
}
