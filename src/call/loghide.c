/*
 * loghide.c - keeps prompts out of the server's log.
 *
 * An error in a statement that calls mw is logged with that statement, and the
 * statement holds the prompt as it was typed; with bound parameters it stands
 * in the context line.  Neither is mw's own text, so nothing that mw says can
 * keep it out.  A hook that sees each entry before it is written hides both:
 * for mw's own errors, for everything that happens while a call runs (a lock
 * wait that is logged, a terminate), and for whatever else the same message
 * from the client brings about, such as the division by zero next to the call
 * or the deferred constraint after it.  A deadlock is reported with what the
 * others were running, by a process that may never have called.  The
 * postmaster, which tells what a process that crashed was running, has the same
 * hook.
 *
 * What the log still holds is what the server was told to log as such:
 * log_statement and log_min_duration_statement print statements in the entry's
 * own text.  The client gets its own statement's context as ever.
 */
#include "mw.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "tcop/tcopprot.h"

#include "call/call.h"

#define MW_CATEGORY		MAKE_SQLSTATE('M', 'W', '0', '0', '0')

static emit_log_hook_type next_emit_log_hook;

/* When the client's message that called mw last arrived: names the message */
static TimestampTz hidden_message;
static bool any_hidden;

void
mw_loghide_statement(void)
{
	hidden_message = GetCurrentStatementStartTimestamp();
	any_hidden = true;
}

/*
 * Whether the client's statement calls mw by name.  One that fails before mw
 * runs (a function that does not exist, a constant that cannot be folded) holds
 * the prompt all the same, and so does one of the pure pieces.
 */
static bool
names_mw(const char *statement)
{
	for (const char *p = statement; p && (p = strchr(p, '_')) != NULL; p++)
	{
		if (p - statement >= 2 && (p[-1] | 0x20) == 'w' && (p[-2] | 0x20) == 'm')
			return true;
	}
	return false;
}

static void
hide(ErrorData *edata)
{
	if (ERRCODE_TO_CATEGORY(edata->sqlerrcode) == MW_CATEGORY ||
		(any_hidden &&
		 (mw_call_depth() > 0 || hidden_message == GetCurrentStatementStartTimestamp())) ||
		(!edata->hide_stmt && names_mw(debug_query_string)))
	{
		edata->hide_stmt = true;
		edata->hide_ctx = true;
	}
	/* of a deadlock: what each of the processes was running; the client's detail, which has the locks, is logged instead */
	if (edata->detail_log != NULL && names_mw(edata->detail_log))
	{
		pfree(edata->detail_log);
		edata->detail_log = NULL;
	}
	if (!IsUnderPostmaster && edata->detail != NULL && names_mw(edata->detail))
	{
		pfree(edata->detail);
		edata->detail = NULL;
	}
	if (next_emit_log_hook)
		next_emit_log_hook(edata);
}

void
mw_loghide_init(void)
{
	next_emit_log_hook = emit_log_hook;
	emit_log_hook = hide;
}
