/*
 * openai_answer.c - what a chat completion is: its outcome, its answer.
 *
 * One reader (openai_read.c) serves both sides.  The gateway asks for the outcome
 * (usage, may it be cached, what went wrong), a backend for the answer itself;
 * were they two readers, a body that one could use and the other could not would
 * be paid for and lost.
 */
#include "mw.h"

#include <ctype.h>

#include "utils/memutils.h"

#include "provider/openai.h"

#define MAX_ERROR		200

/* NULL when the chosen answer can be used, else why not; "" stands for "the shape is not that of a completion" */
static const char *
why_unusable(const MwOpenaiReader *r)
{
	const MwOpenaiChoice *c = &r->best;

	if (!r->is_object || !r->has_choices || !r->has_best || !c->has_message)
		return "";
	if (c->bad != NULL)
		return c->bad;
	for (int i = 0; i < c->ncalls; i++)
	{
		if (!c->calls[i].has_function || c->calls[i].name == NULL || c->calls[i].name[0] == '\0')
			return "a tool call names no function";
	}

	/* its arguments may be whole by chance and lack what came later: nobody may run it */
	if (c->ncalls > 0 && c->finish != NULL && strcmp(c->finish, "length") == 0)
		return "a tool call was cut off at max_tokens";
	return NULL;
}

static const char *
shown_keys(const MwOpenaiReader *r)
{
	char	   *shown = palloc0(MW_OPENAI_KEYS_SHOWN);

	mw_error_text(shown, MW_OPENAI_KEYS_SHOWN, r->keys.data, r->keys.len, false);
	return shown[0] != '\0' ? shown : "none";
}

static const char *
text_of(const MwOpenaiChoice *c)
{
	return c->parts != NULL ? c->parts->data : c->text;
}

/*
 * Usage counts only where both halves are whole, plain numbers.  Nothing at all,
 * or no output beside a text, is what servers send that do not count.
 *
 * Some, and what translates other vendors' figures, count reasoning beside the
 * completion instead of in it, and not all of them name it.  Their total tells:
 * what it has more than the halves is output, and billed as such.
 */
static void
read_usage(const MwOpenaiReader *r, bool has_text, MwOutcome *out)
{
	MwUsage    *u = &out->usage;
	double		output = r->output;

	if (!r->has_usage || r->input < 0 || r->output < 0)
		return;
	if (r->total > r->input + r->output)
		output = r->total - r->input;
	else if (r->total < 0 && r->reasoning > r->output)
		output += r->reasoning;
	if ((r->input == 0 && output == 0) || (has_text && output == 0))
		return;
	out->has_usage = true;
	u->input_tokens = (int64) r->input;
	u->output_tokens = (int64) output;
	u->cached_tokens = (int64) Max(Min(r->cached, r->input), 0);
	u->reasoning_tokens = (int64) Max(Min(r->reasoning, output), 0);
	u->audio_input_tokens = (int64) Max(Min(r->audio_in, r->input), 0);
	u->audio_output_tokens = (int64) Max(Min(r->audio_out, output), 0);
}

/* The HTTP status that an error inside a 200 stands for; 0 for none known */
static int
inner_status(const MwOpenaiReader *r)
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
provider_words(const MwOpenaiReader *r, MwOutcome *out)
{
	const char *s = r->fault_text != NULL && r->fault_text[0] != '\0' ? r->fault_text :
		r->error_text != NULL && r->error_text[0] != '\0' ? r->error_text :
		r->fault_type != NULL ? r->fault_type : r->fault_code;

	if (s == NULL || s[0] == '\0')
		return false;
	mw_error_text(out->error, MAX_ERROR, s, strlen(s), false);
	return out->error[0] != '\0';
}

/*
 * OpenAI says 429 for a limit that time mends and for an account without credit;
 * others have taken its words over.
 */
static bool
is_hopeless(const MwOpenaiReader *r)
{
	static const char *const words[] = {"insufficient_quota", "billing_not_active", "billing_hard_limit_reached"};

	for (int i = 0; i < lengthof(words); i++)
		if ((r->fault_code != NULL && strcmp(r->fault_code, words[i]) == 0) ||
			(r->fault_type != NULL && strcmp(r->fault_type, words[i]) == 0))
			return true;
	return false;
}

void
mw_openai_outcome(const char *body, int len, int http_status, MwOutcome *out)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mw outcome", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	MwOpenaiReader	   *r = palloc(sizeof(MwOpenaiReader));
	const char *wrong = mw_openai_read(r, body, len);
	bool		success = http_status >= 200 && http_status < 300;
	const char *unusable = wrong != NULL ? wrong : why_unusable(r);
	const char *text = NULL;

	memset(out, 0, sizeof(*out));
	out->hopeless = wrong == NULL && r->has_fault && is_hopeless(r);
	if (unusable == NULL)
		text = text_of(&r->best);
	if (wrong == NULL)
		read_usage(r, text != NULL && text[0] != '\0', out);

	if (success && unusable == NULL)
	{
		const MwOpenaiChoice *c = &r->best;

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
					 shown_keys(r));
	}
	else if (success)
	{
		/* a proxy's page of HTML says what is wrong; anything else may hold the model's words */
		bool		page = (len > 5 && pg_strncasecmp(body, "<html", 5) == 0) ||
			(len > 9 && pg_strncasecmp(body, "<!doctype", 9) == 0);

		snprintf(out->error, sizeof(out->error), "the answer cannot be used: %s%s", wrong, page ? ": " : "");
		if (page)
			mw_error_text(out->error, MAX_ERROR, body, len, true);
	}
	else if (!provider_words(r, out) && wrong != NULL)
		mw_error_text(out->error, MAX_ERROR, body, len, true);

	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

/* ---------- the answer itself ---------- */

static void
decode_call(const MwOpenaiCall *from, int n, MwToolCall *to)
{
	char	   *why;
	int			len = from->args_len;
	const char *s = from->args;

	/* a few servers leave the id out: pairing needs one */
	to->unnamed = from->id == NULL || from->id[0] == '\0';
	to->id = to->unnamed ? psprintf("call_%d", n) : from->id;
	to->name = from->name;

	/* no arguments is legal and comes in many spellings */
	while (len > 0 && isspace((unsigned char) s[len - 1]))
		len--;
	while (len > 0 && isspace((unsigned char) *s))
	{
		s++;
		len--;
	}
	if (len == 0 || (len == 4 && memcmp(s, "null", 4) == 0))
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
mw_openai_decode_parsed(const char *body, int len)
{
	MwOpenaiReader	   *r = palloc(sizeof(MwOpenaiReader));
	const char *wrong = mw_openai_read(r, body, len);
	MwAnswer   *answer;
	MwOpenaiChoice	   *c;
	MwOutcome	usage;

	if (wrong == NULL)
		wrong = why_unusable(r);
	if (wrong != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ANSWER),
				 errmsg("the provider's answer cannot be used"),
				 wrong[0] != '\0' ? errdetail("The answer is no chat completion: %s.", wrong) :
				 errdetail("The answer has no choice with a message (its keys: %s).", shown_keys(r)),
				 errhint("Check that base_url of the server is that of an OpenAI-compatible API.")));

	c = &r->best;
	answer = palloc0(sizeof(MwAnswer));
	answer->body = body;
	answer->body_len = len;
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
