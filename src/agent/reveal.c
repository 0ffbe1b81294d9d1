/*
 * reveal.c - what a reviewer whose grant says so sees in place of placeholders.
 *
 * mw.inbox passes what it shows through here.  The values are opened as the role
 * that asked, which may act for its tenant, and for this session alone: the
 * reviewer gets no right by it.
 *
 * Each reveal is a row of mw.approval_log and a line of the server's log; the
 * line is there, too, where the reviewer's transaction rolls back.  What cannot
 * be put down is not shown: in a read-only transaction, and while another
 * transaction writes the session's log, placeholders stand.  So looking waits
 * for nobody.
 */
#include "mw.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "agent/approval.h"
#include "policy/policy.h"
#include "policy/reviewers.h"
#include "stage/redact.h"
#include "util/json.h"
#include "util/spi.h"

/* (tenant, session, tool, requested_by, interrupt_id, place, what): the arguments of both functions */
typedef struct Look
{
	char	   *tenant;
	char	   *session;
	char	   *tool;
	Oid			requested_by;
	char	   *interrupt_id;
	int			place;
} Look;

static Look
look_of(FunctionCallInfo fcinfo)
{
	Look		l;

	l.tenant = text_to_cstring(PG_GETARG_TEXT_PP(0));
	l.session = text_to_cstring(PG_GETARG_TEXT_PP(1));
	l.tool = text_to_cstring(PG_GETARG_TEXT_PP(2));
	l.requested_by = PG_GETARG_OID(3);
	l.interrupt_id = text_to_cstring(PG_GETARG_TEXT_PP(4));
	l.place = PG_GETARG_INT32(5);
	return l;
}

static bool
may_see_values(const Look *l)
{
	return mw_review_right(l->tenant, l->tool).reveal && !XactReadOnly && !RecoveryInProgress() && !IsInParallelMode();
}

/* What the session's placeholders stand for; false where there is nothing */
static bool
open_values(const Look *l, MwPiiMap *map)
{
	MwRoleSave	save;

	mw_pii_map_init(map, CurrentMemoryContext);
	mw_become_role(l->requested_by, &save);
	if (mw_may_act(l->tenant))
		mw_pii_session_load(map, l->tenant, l->session, false);
	mw_become_caller(&save);
	return map->n > 0;
}

/* One row a look: arguments and description of a call are shown by one statement, one after the other */
static bool
logged(const Look *l)
{
	static char last_id[64];
	static int	last_place;
	static TimestampTz last_statement;
	static SubTransactionId last_subxact;
	MwGate		gate = {.interrupt_id = l->interrupt_id, .place = l->place, .session = l->session};

	if (last_statement == GetCurrentStatementStartTimestamp() && last_subxact == GetCurrentSubTransactionId() &&
		last_place == l->place && strcmp(last_id, l->interrupt_id) == 0)
		return true;
	if (!mw_approval_log_at_once(l->tenant, &gate, "revealed", NULL))
		return false;
	ereport(LOG_SERVER_ONLY,
			(errmsg("role \"%s\" was shown the values of interrupt %s of tenant \"%s\"",
					GetUserNameFromId(GetUserId(), false), l->interrupt_id, l->tenant),
			 errhidestmt(true),
			 errhidecontext(true)));
	strlcpy(last_id, l->interrupt_id, sizeof(last_id));
	last_place = l->place;
	last_statement = GetCurrentStatementStartTimestamp();
	last_subxact = GetCurrentSubTransactionId();
	return true;
}

static char *
restore_leaf(char *s, int len, int *newlen, void *arg)
{
	return mw_restore_text(arg, s, len, newlen, NULL);
}

PG_FUNCTION_INFO_V1(mw_inbox_args);

Datum
mw_inbox_args(PG_FUNCTION_ARGS)
{
	Look		l = look_of(fcinfo);
	Jsonb	   *args = PG_GETARG_JSONB_P(6);
	MwPiiMap	map;
	Jsonb	   *shown;

	if (!may_see_values(&l) || strchr(mw_json_canonical(args), '<') == NULL || !open_values(&l, &map))
		PG_RETURN_JSONB_P(args);
	shown = mw_json_map_strings(args, true, restore_leaf, &map);
	if (strcmp(mw_json_canonical(shown), mw_json_canonical(args)) == 0 || !logged(&l))
		PG_RETURN_JSONB_P(args);
	PG_RETURN_JSONB_P(shown);
}

PG_FUNCTION_INFO_V1(mw_inbox_text);

Datum
mw_inbox_text(PG_FUNCTION_ARGS)
{
	Look		l = look_of(fcinfo);
	text	   *given = PG_GETARG_TEXT_PP(6);
	char	   *s = text_to_cstring(given);
	MwPiiMap	map;
	char	   *shown;
	int			len;

	if (!may_see_values(&l) || strchr(s, '<') == NULL || !open_values(&l, &map))
		PG_RETURN_TEXT_P(given);
	shown = mw_restore_text(&map, s, strlen(s), &len, NULL);
	if (shown == s || !logged(&l))
		PG_RETURN_TEXT_P(given);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(shown, len));
}
