/*
 * retry_policy.c - which errors are tried again, after how long, and what is
 * said when that did not help: what model_retry and tool_retry share.
 *
 * An error that is not to be tried again leaves at once and never becomes a
 * message: on_failure is for retries that did not help (LangChain 1.5.2).  What
 * is tried again by default is decided by the SQLSTATE: mw's own codes say
 * whether another try can mend it, every other error is somebody's function and
 * might.  Serialization failures and deadlocks never get here, since only the
 * whole transaction can be tried again.
 */
#include "mw.h"

#include "common/pg_prng.h"
#include "utils/builtins.h"

#include <math.h>

#include "agent/retry_policy.h"
#include "util/duration.h"
#include "util/json.h"
#include "util/json_push.h"
#include "util/sqlstate.h"

#define MAX_RETRY_AFTER_MS	120000	/* as in the retry stage: nobody keeps a connection longer */

/* ---------- options ---------- */

void
mw_error_check_names(MwMiddleware *m, const char *key, List *names)
{
	ListCell   *lc;

	foreach(lc, names)
	{
		if (!mw_condition_known(lfirst(lc)))
			mw_opt_wrong(m, key, psprintf("made of SQLSTATEs and PostgreSQL's condition names, such as \"57014\" or \"query_canceled\"; \"%s\" is neither",
										  (char *) lfirst(lc)));
	}
}

#define RETRY_ON "\"always\", \"never\", a list of error names, {\"status\": [503], \"names\": [...], \"message_contains\": \"...\"} or {\"function\": \"schema.name\"}"

static void
read_retry_on(MwMiddleware *m, Jsonb *options, MwRetryPolicy *p)
{
	static const char *const keys[] = {"message_contains", "names", "status", NULL};
	JsonbValue *v = mw_json_get(options, "retry_on");
	Jsonb	   *on;

	p->on = MW_RETRY_DEFAULT;
	if (v == NULL)
		return;
	if (v->type == jbvString)
	{
		static const char *const words[] = {"never", "always", NULL};

		p->on = mw_opt_choice(m, options, "retry_on", 0, words) == 1 ? MW_RETRY_ALWAYS : MW_RETRY_NEVER;
		return;
	}
	if (v->type != jbvBinary)
		mw_opt_wrong(m, "retry_on", RETRY_ON);
	p->on = MW_RETRY_MATCH;
	if (JsonContainerIsArray(v->val.binary.data))
		p->names = mw_opt_texts(m, options, "retry_on");
	else if ((p->on_function = mw_opt_function(m, options, "retry_on")) != NULL)
		p->on = MW_RETRY_FUNCTION;
	else
	{
		on = JsonbValueToJsonb(v);
		mw_json_check_keys(on, "member", psprintf("option \"retry_on\" of middleware \"%s\"", m->name), keys);
		p->statuses = mw_opt_statuses(m, on, "status");
		p->names = mw_opt_texts(m, on, "names");
		p->message_contains = mw_opt_text(m, on, "message_contains", NULL);
		if (p->statuses == NIL && p->names == NIL && p->message_contains == NULL)
			mw_opt_wrong(m, "retry_on", RETRY_ON);
	}
	mw_error_check_names(m, "retry_on", p->names);
}

static void
read_on_failure(MwMiddleware *m, Jsonb *options, MwRetryPolicy *p)
{
	/* the last two are how tool_retry spelled them before */
	static const char *const words[] = {"continue", "error", "return_message", "raise", NULL};
	static const char *const keys[] = {"message", NULL};
	JsonbValue *v = mw_json_get(options, "on_failure");

	p->failure = MW_FAILURE_CONTINUE;
	if (v == NULL)
		return;
	if (v->type != jbvBinary)
	{
		p->failure = mw_opt_choice(m, options, "on_failure", 0, words) % 2 == 0 ? MW_FAILURE_CONTINUE : MW_FAILURE_ERROR;
		return;
	}
	if ((p->failure_function = mw_opt_function(m, options, "on_failure")) != NULL)
	{
		p->failure = MW_FAILURE_FUNCTION;
		return;
	}
	p->failure = MW_FAILURE_MESSAGE;
	if (JsonContainerIsObject(v->val.binary.data))
	{
		Jsonb	   *json = JsonbValueToJsonb(v);

		mw_json_check_keys(json, "member", psprintf("option \"on_failure\" of middleware \"%s\"", m->name), keys);
		p->failure_message = mw_json_get_text(json, "message");
	}
	if (p->failure_message == NULL)
		mw_opt_wrong(m, "on_failure", "\"continue\", \"error\", {\"message\": \"...\"} or {\"function\": \"schema.name\"}");
}

MwRetryPolicy *
mw_retry_read(MwMiddleware *m, Jsonb *options)
{
	MwRetryPolicy *p = palloc0(sizeof(MwRetryPolicy));

	p->max_retries = mw_opt_int(m, options, "max_retries", 2, 0, PG_INT32_MAX);
	p->initial_delay = mw_opt_number(m, options, "initial_delay", 1, 0, INFINITY);
	p->max_delay = mw_opt_number(m, options, "max_delay", 60, 0, INFINITY);
	p->backoff_factor = mw_opt_number(m, options, "backoff_factor", 2, 0, INFINITY);
	p->jitter = mw_opt_bool(m, options, "jitter", true);
	read_retry_on(m, options, p);
	read_on_failure(m, options, p);
	return p;
}

/* ---------- which errors ---------- */

static bool
mends_by_itself(const MwError *err)
{
	if (!mw_errcode_is_ours(err->edata->sqlerrcode))
		return true;
	switch (err->edata->sqlerrcode)
	{
		case ERRCODE_MW_PROVIDER_REFUSED:
			/* LangChain's list, which is shorter than that of the retry stage */
			return err->http_status != 400 && err->http_status != 401 && err->http_status != 403 && err->http_status != 404;
		case ERRCODE_MW_PROVIDER_FAILED:
		case ERRCODE_MW_BREAKER_OPEN:
		case ERRCODE_MW_DEADLINE:
		case ERRCODE_MW_BAD_ANSWER:
		case ERRCODE_MW_TOOL_FAILED:
		case ERRCODE_MW_HOOK_FAILED:
			return true;
		default:
			return false;		/* budgets, guards, rights, arguments: the next try gets the same */
	}
}

static bool
matches(const MwRetryPolicy *p, const MwError *err)
{
	ListCell   *lc;

	if (list_member_int(p->statuses, err->http_status))
		return true;
	foreach(lc, p->names)
	{
		if (mw_condition_match(lfirst(lc), err->edata->sqlerrcode) > 0)
			return true;
	}
	/* a provider's own words are in the detail */
	return p->message_contains != NULL && p->message_contains[0] != '\0' &&
		((err->edata->message != NULL && strstr(err->edata->message, p->message_contains) != NULL) ||
		 (err->edata->detail != NULL && strstr(err->edata->detail, p->message_contains) != NULL));
}

static bool
is_true(Jsonb *verdict)
{
	JsonbValue *v;

	if (verdict == NULL || !JB_ROOT_IS_SCALAR(verdict))
		return false;
	v = getIthJsonbValueFromContainer(&verdict->root, 0);
	return v->type == jbvBool && v->val.boolean;
}

bool
mw_retry_applies(MwRun *run, MwMiddleware *m, const MwRetryPolicy *p, const MwError *err, const MwToolCall *call)
{
	switch (p->on)
	{
		case MW_RETRY_NEVER:
			return false;
		case MW_RETRY_ALWAYS:
			return true;
		case MW_RETRY_MATCH:
			return matches(p, err);
		case MW_RETRY_FUNCTION:
			return is_true(mw_option_call(run, p->on_function, mw_error_json(err, call),
										  psprintf("option \"retry_on\" of middleware \"%s\"", m->name)));
		case MW_RETRY_DEFAULT:
			break;
	}
	return mends_by_itself(err);
}

/* ---------- how long ---------- */

/* In milliseconds; the cap comes before the jitter, and what the provider asked for after both */
static int64
delay_ms(const MwRetryPolicy *p, int64 n, const MwError *err)
{
	double		s = p->backoff_factor == 0 ? p->initial_delay : p->initial_delay * pow(p->backoff_factor, (double) n);

	s = Min(isnan(s) ? p->max_delay : s, p->max_delay);
	if (p->jitter)
		s *= 0.75 + 0.5 * pg_prng_double(&pg_global_prng_state);
	return Max((int64) Min(ceil(s * 1000), (double) PG_INT32_MAX), err->retry_after_ms);
}

bool
mw_retry_wait(MwRun *run, const MwRetryPolicy *p, int64 n, const MwError *err)
{
	int64		ms = delay_ms(p, n, err);

	if (err->retry_after_ms > MAX_RETRY_AFTER_MS || (run->wall_ms > 0 && mw_ms_until(run->wall) <= ms))
		return false;
	mw_wait_ms(ms);
	return true;
}

/* ---------- what is said ---------- */

Jsonb *
mw_error_json(const MwError *err, const MwToolCall *call)
{
	const ErrorData *e = err->edata;
	JsonbParseState *st = NULL;

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_member(&st, "sqlstate", pstrdup(unpack_sql_state(e->sqlerrcode)));
	push_member(&st, "condition", mw_condition_name(e->sqlerrcode));
	push_member(&st, "message", e->message != NULL ? e->message : "");
	if (e->detail != NULL)
		push_member(&st, "detail", e->detail);
	if (e->hint != NULL)
		push_member(&st, "hint", e->hint);
	if (err->http_status != 0)
		push_int(&st, "status", err->http_status);
	if (call != NULL)
	{
		push_key(&st, "tool_call");
		pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
		push_member(&st, "id", call->id);
		push_member(&st, "name", call->name);
		if (call->args != NULL)
		{
			JsonbValue	args;

			args.type = jbvBinary;
			args.val.binary.data = &call->args->root;
			args.val.binary.len = VARSIZE(call->args) - VARHDRSZ;
			push_key(&st, "args");
			pushJsonbValue(&st, WJB_VALUE, &args);
		}
		pushJsonbValue(&st, WJB_END_OBJECT, NULL);
	}
	return JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
}

char *
mw_error_fill(const char *template, const MwError *err, const MwToolCall *call)
{
	StringInfoData buf;

	/* in one pass, so that an error's text is never taken for a template */
	initStringInfo(&buf);
	for (const char *s = template; *s != '\0';)
	{
		if (strncmp(s, "{error}", 7) == 0)
		{
			appendStringInfoString(&buf, err->edata->message != NULL ? err->edata->message : "");
			s += 7;
		}
		else if (call != NULL && strncmp(s, "{tool}", 6) == 0)
		{
			appendStringInfoString(&buf, call->name);
			s += 6;
		}
		else
			appendStringInfoChar(&buf, *s++);
	}
	return buf.data;
}

char *
mw_retry_story(int64 attempts, const MwError *err)
{
	return psprintf(INT64_FORMAT " %s with %s: %s", attempts, attempts == 1 ? "attempt" : "attempts",
					mw_condition_name(err->edata->sqlerrcode), err->edata->message != NULL ? err->edata->message : "");
}

char *
mw_retry_failure(MwRun *run, MwMiddleware *m, const MwRetryPolicy *p, const MwError *err, const MwToolCall *call,
				 const char *otherwise)
{
	Jsonb	   *text;
	JsonbValue *v;
	char	   *what;

	switch (p->failure)
	{
		case MW_FAILURE_ERROR:
			return NULL;
		case MW_FAILURE_MESSAGE:
			return mw_error_fill(p->failure_message, err, call);
		case MW_FAILURE_FUNCTION:
			what = psprintf("option \"on_failure\" of middleware \"%s\"", m->name);
			text = mw_option_call(run, p->failure_function, mw_error_json(err, call), what);
			if (text == NULL)
				return NULL;
			v = JB_ROOT_IS_SCALAR(text) ? getIthJsonbValueFromContainer(&text->root, 0) : NULL;
			if (v == NULL || v->type != jbvString)
				ereport(ERROR,
						(errcode(ERRCODE_MW_HOOK_FAILED),
						 errmsg("the function of %s returned something other than a text", what),
						 errdetail("It is %s.", p->failure_function),
						 errhint("It returns the text that the model reads, or NULL to let the error go on.")));
			return mw_value_string(v);
		case MW_FAILURE_CONTINUE:
			break;
	}
	return pstrdup(otherwise);
}
