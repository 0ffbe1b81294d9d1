/*
 * fallback.c - another model, where the one before could not answer.
 *
 * Each model's call is a call of its own: numbered in the run, priced and
 * reserved as itself, with its own cache key and its own attempts, under the
 * deadline of the first.  The budget stage runs them one after another; here
 * stands which one comes next.  Only a failure whose outcome is known leads on,
 * and none that is the request's own fault, unless the list says so ("on").
 *
 * A request_id that is repeated begins where the earlier run had got to: what a
 * fallback answered for it was paid for, and asking the first model again might
 * be answered, and paid, a second time.
 */
#include "mw.h"

#include "lib/stringinfo.h"

#include "gateway/transport.h"
#include "policy/server.h"
#include "stage/stages.h"

/* From here on the call is that of the i-th model */
static void
adopt(MwCall *call, int i)
{
	const MwChoice *c = &call->choices[i];

	mw_call_number(call, call->call_no + i - call->chosen);
	call->chosen = i;
	call->model = c->model;
	call->model_name = c->model_name;
	call->server = c->server;
	call->provider = c->provider;
	call->transport = c->transport;
	call->params = c->params;
	call->max_tokens = call->send_max_tokens = c->max_tokens;
	call->retry_unknown = c->server->retry_unknown;

	call->attempt = 0;
	call->reply = NULL;
	call->failure = NULL;
	call->alone = false;
	call->had = false;
	call->body = NULL;
}

void
mw_fallback_start(MwCall *call)
{
	int			first = call->chosen;

	if (!call->recorded || call->nchoices == 0)
		return;
	for (int i = first + 1; i < call->nchoices; i++)
	{
		MwStored	stored;

		adopt(call, i);
		mw_call_encode(call);
		stored = call->transport->recorded(call);
		if (stored.found || stored.running || (stored.unknown && !call->resend_unknown))
			return;				/* the budget stage finds the same, and acts on it */
	}
	adopt(call, first);
}

/* What failed before the model that answers, or that fails last */
char *
mw_fallback_story(const MwCall *call)
{
	StringInfoData s;
	ListCell   *lc;

	if (call->failures == NIL)
		return NULL;
	initStringInfo(&s);
	foreach(lc, call->failures)
	{
		const MwFailure *f = lfirst(lc);

		appendStringInfo(&s, "%s%s failed before (%s: %s)", s.len > 0 ? "\n" : "",
						 f->model, unpack_sql_state(f->sqlstate), f->message);
	}
	return s.data;
}

void
mw_fallback_next(MwCall *call)
{
	MwFailure  *f = call->failure;

	if (!f->elsewhere || call->chosen + 1 >= call->nchoices || mw_passed(call->deadline))
		mw_failure_raise(f);

	if (call->failures == NIL)
		call->notices = list_concat(call->notices, call->left_out);
	call->failures = lappend(call->failures, f);
	call->notices = lappend(call->notices,
							psprintf("%s failed (%s: %s); the next model was asked",
									 f->model, unpack_sql_state(f->sqlstate), f->message));
	if (call->reply != NULL && call->reply->kind == MW_OUTCOME_FAILED)
	{
		call->failed_usage.input_tokens += call->reply->usage.input_tokens;
		call->failed_usage.output_tokens += call->reply->usage.output_tokens;
	}
	adopt(call, call->chosen + 1);
}
