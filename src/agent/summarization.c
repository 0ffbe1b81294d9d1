/*
 * summarization.c - the middleware that puts a summary in the place of the
 * older part of a thread.
 *
 * Before a model call: is the thread as large as a trigger says, where may it be
 * cut so that no call loses its answer, what does the summariser say of the part
 * before the cut.  The patch replaces that part by one message of the user's;
 * the rows of the originals stay in the thread's table, as with any message that
 * is removed.  Nothing changes before the summary is there: where it fails, the
 * error leaves the run and the thread is as it was.
 */
#include "mw.h"

#include "mb/pg_wchar.h"
#include "utils/builtins.h"

#include "agent/context.h"
#include "agent/registry.h"
#include "agent/retry_policy.h"
#include "agent/texts.h"
#include "util/json.h"
#include "util/json_push.h"

#define KEEP_MESSAGES	20
#define TRIM_TOKENS		4000

typedef struct Summarization
{
	const char *model;			/* fractions are of what it can read; NULL: the run's */
	const char *writer;			/* the model that writes summaries: that one, unless "summarizer" names another ... */
	Jsonb	   *settings;
	const char *function;		/* ... or a function, which is NULL else */
	List	   *trigger;		/* of MwSize *, one is enough; NIL: never */
	MwSize	   *keep;
	const char *counter;
	const char *prompt;
	const char *prefix;
	int64		trim;			/* tokens that the summariser is shown at most; 0: all */
	bool		in_parts;
} Summarization;

static const char *const option_names[] = {
	"in_parts", "keep", "max_tokens_before_summary", "messages_to_keep", "model", "summarizer", "summary_prefix", "summary_prompt",
	"token_counter", "trigger", "trim_tokens_to_summarize", NULL
};

/* ---------- options ---------- */

static void
read_trigger(MwMiddleware *m, Jsonb *options, Summarization *c)
{
	int64		old = mw_opt_int(m, options, "max_tokens_before_summary", 0, 1, PG_INT32_MAX);
	ListCell   *lc;

	c->trigger = mw_sizes_read(m, "trigger", mw_json_get(options, "trigger"));
	if (!mw_opt_given(options, "trigger") && old > 0)
	{
		MwSize	   *size = palloc0(sizeof(MwSize));

		size->tokens = old;
		c->trigger = list_make1(size);
	}
	foreach(lc, c->trigger)
		mw_size_check(m, "trigger", lfirst(lc), c->model);
}

static void
read_keep(MwMiddleware *m, Jsonb *options, Summarization *c)
{
	int64		old = mw_opt_int(m, options, "messages_to_keep", KEEP_MESSAGES, 1, PG_INT32_MAX);
	JsonbValue *v = mw_json_get(options, "keep");

	if (v != NULL)
		c->keep = mw_size_read(m, "keep", v, false);
	else
	{
		c->keep = palloc0(sizeof(MwSize));
		c->keep->messages = old;
	}
	mw_size_check(m, "keep", c->keep, c->model);
}

static void
read_options(MwMiddleware *m, Jsonb *options)
{
	Summarization *c = palloc0(sizeof(Summarization));
	JsonbValue *trim = getKeyJsonValueFromContainer(&options->root, "trim_tokens_to_summarize", strlen("trim_tokens_to_summarize"), NULL);
	Jsonb	   *settings;

	m->conf = c;
	c->model = c->writer = mw_opt_model(m, options, "model", &c->settings);
	if (c->model == NULL)
		c->model = m->model;
	c->function = mw_opt_function(m, options, "summarizer");
	if (c->function == NULL && mw_opt_given(options, "summarizer"))
	{
		c->writer = mw_opt_model(m, options, "summarizer", &settings);
		c->settings = settings;
	}
	read_trigger(m, options, c);
	read_keep(m, options, c);
	c->counter = mw_opt_counter(m, options);
	c->prompt = mw_opt_text(m, options, "summary_prompt", mw_text_summary_prompt);
	if (strstr(c->prompt, "{messages}") == NULL)
		mw_opt_wrong(m, "summary_prompt", "a text with {messages} where the conversation is to stand");
	c->prefix = mw_opt_text(m, options, "summary_prefix", "Here is a summary of the conversation to date:");
	/* null is no absence here: it asks for all */
	c->trim = trim != NULL && trim->type == jbvNull ? 0 :
		mw_opt_int(m, options, "trim_tokens_to_summarize", TRIM_TOKENS, 1, PG_INT32_MAX);
	c->in_parts = mw_opt_bool(m, options, "in_parts", false);
	if (c->in_parts && c->trim == 0)
		mw_opt_wrong(m, "in_parts", "left out where trim_tokens_to_summarize is null, since it is the size of a part");
}

/* ---------- when ---------- */

static bool
asks_for_tokens(List *sizes)
{
	ListCell   *lc;

	foreach(lc, sizes)
	{
		MwSize	   *size = lfirst(lc);

		if (size->tokens > 0 || size->fraction > 0)
			return true;
	}
	return false;
}

/*
 * The tokens of a thread: our count, corrected upwards, by a quarter at most,
 * where the provider counted more for the part up to its last answer.
 * *reported: what it said.
 */
static int64
count_thread(MwRun *run, const Summarization *c, int64 *reported)
{
	int64		total = mw_count_by(run, c->counter, run->msgs);

	*reported = 0;
	for (int i = list_length(run->msgs) - 1; i >= 0; i--)
	{
		MwMsg	   *msg = list_nth(run->msgs, i);

		if (!mw_msg_is(msg, "assistant"))
			continue;
		*reported = mw_reported_tokens(msg);
		if (*reported > 0 && c->counter == NULL)
		{
			int64		ours = mw_count_msgs(list_truncate(list_copy(run->msgs), i + 1));

			total = (int64) ((double) total * Min(1.25, Max(1.0, (double) *reported / (double) ours)));
		}
		break;
	}
	return total;
}

/* ---------- where ---------- */

/* The first of the messages that stay, as far as their number or size goes */
static int
wanted_cut(MwRun *run, const Summarization *c, int64 total, int64 context)
{
	int			n = list_length(run->msgs);
	int64		target = mw_size_tokens(c->keep, context);
	int			cut = n;
	int64		tokens = 0;

	if (c->keep->messages > 0)
		return n - (int) Min(n, c->keep->messages);
	if (total <= target)
		return 0;
	while (cut > 0)
	{
		tokens += mw_count_by(run, c->counter, list_make1(list_nth(run->msgs, cut - 1)));
		if (tokens > target)
			break;
		cut--;
	}
	/* the last one stays in any case */
	return Min(cut, n - 1);
}

/*
 * The same, moved so that no answer stands on the other side than its call.
 * Backwards to the call; over answers that have no call at all, forwards.
 */
static int
safe_cut(List *msgs, int cut)
{
	int			n = list_length(msgs);
	int		   *pairs = mw_pairs(msgs);
	int			end = cut;
	bool		orphans = true;

	while (end < n && mw_msg_is(list_nth(msgs, end), "tool"))
		orphans &= pairs[end++] < 0;
	if (orphans)
		cut = end;
	for (int i = n - 1; i >= cut; i--)
		if (pairs[i] >= 0)
			cut = Min(cut, pairs[i]);
	pfree(pairs);
	return cut;
}

/* ---------- what ---------- */

/*
 * The prompt with a transcript in it, as Python's format() would write it: braces
 * that are doubled are braces.  What is quoted of the conversation is no more
 * trusted than it was there; the rest is the developer's.
 */
static void
fill_prompt(MwRun *run, MwModelRequest *req, const char *prompt, const char *transcript)
{
	StringInfoData buf;
	const char *p = prompt;
	int			end = 0;

	req->quote_at = -1;
	initStringInfo(&buf);
	while (*p != '\0')
	{
		if (strncmp(p, "{messages}", strlen("{messages}")) == 0)
		{
			if (req->quote_at < 0)
				req->quote_at = buf.len;
			appendStringInfoString(&buf, transcript);
			end = buf.len;
			p += strlen("{messages}");
		}
		else
		{
			appendStringInfoChar(&buf, *p);
			p += (p[0] == '{' && p[1] == '{') || (p[0] == '}' && p[1] == '}') ? 2 : 1;
		}
	}
	while (buf.len > 0 && strchr(" \t\r\n", buf.data[buf.len - 1]) != NULL)
		buf.data[--buf.len] = '\0';
	req->quote_len = Min(end, buf.len) - req->quote_at;
	req->messages = list_make1(mw_msg_text(run, "user", buf.data));
}

/* A transcript without its middle, of half its tokens and no more than 2/5 of what the model reads: the beginning mostly says what it is all about */
static char *
without_middle(const char *transcript, int64 context)
{
	int			len = strlen(transcript);
	int64		tokens = Max(1, len / 4);
	int64		budget = context > 0 ? Min(tokens / 2, context * 2 / 5) : tokens / 2;
	int			keep = (int) ((int64) len * budget / tokens);
	int			head = pg_mbcliplen(transcript, len, keep / 4);
	int			tail = len - (keep - keep / 4);

	while (tail < len && (transcript[tail] & 0xc0) == 0x80)
		tail++;
	return psprintf("%.*s\n\n[... middle of conversation omitted ...]\n\n%s", head, transcript, transcript + tail);
}

/* Whether the provider says that the request is more than its model can read */
static bool
is_overflow(const MwError *err)
{
	static const char *const phrases[] = {
		"context_length_exceeded", "maximum context length", "Input tokens exceed the configured limit",
		"prompt is too long", "ContextWindowExceededError", "exceeds the context window",
	};

	if (err->edata->sqlerrcode != ERRCODE_MW_PROVIDER_REFUSED || err->edata->detail == NULL)
		return false;
	for (int i = 0; i < lengthof(phrases); i++)
		if (strstr(err->edata->detail, phrases[i]) != NULL)
			return true;
	return false;
}

/* What a further call may mend is tried again, twice */
static char *
ask_model(MwRun *run, const Summarization *c, const char *transcript)
{
	MwModelRequest req = {
		.model = c->writer != NULL ? c->writer : run->first_model,
		.model_settings = c->writer != NULL ? c->settings : run->first_settings, .purpose = "summary", .once = true,
	};
	static const MwRetryPolicy again = {
		.max_retries = 2, .initial_delay = 0.5, .backoff_factor = 2, .max_delay = 60, .jitter = true, .on = MW_RETRY_DEFAULT
	};
	bool		cut = false;

	fill_prompt(run, &req, c->prompt, transcript);
	for (int retry = 0;; retry++)
	{
		MwError    *err = NULL;
		MwMsg	   *answer = mw_try_ask(run, &req, &err);

		if (answer != NULL)
			return answer->text;
		if (is_overflow(err) && !cut)
		{
			cut = true;
			retry = -1;
			fill_prompt(run, &req, c->prompt, without_middle(transcript, mw_model_context(run, req.model)));
			continue;
		}
		if (!mw_retry_applies(run, NULL, &again, err, NULL) || retry == again.max_retries || !mw_retry_wait(run, &again, retry, err))
			mw_rethrow(run, err);
		req.fresh = true;
	}
}

static char *
ask_function(MwRun *run, const Summarization *c, List *msgs)
{
	Jsonb	   *answer = mw_option_call(run, c->function, mw_msgs_json(msgs), "option \"summarizer\"");
	JsonbValue *v = answer != NULL && JB_ROOT_IS_SCALAR(answer) ? getIthJsonbValueFromContainer(&answer->root, 0) : NULL;

	if (v == NULL || v->type != jbvString)
		ereport(ERROR,
				(errcode(ERRCODE_MW_HOOK_FAILED),
				 errmsg("the function of option \"summarizer\" returned no text"),
				 errdetail("It must return the summary of the messages that it is given.")));
	return pnstrdup(v->val.string.val, v->val.string.len);
}

/* The message that stands in the place of so many */
static MwMsg *
summary_message(MwRun *run, const Summarization *c, const char *summary, int messages)
{
	JsonbParseState *st = NULL;
	MwMsg	   *msg = mw_msg_text(run, "user", psprintf("%s\n\n%s", c->prefix, summary));

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_int(&st, "messages", messages);
	return mw_msg_with_metadata(run, msg, "summarization", JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL)));
}

static char *
stripped(const char *s)
{
	int			len;

	while (*s != '\0' && strchr(" \t\r\n\f\v", *s) != NULL)
		s++;
	len = strlen(s);
	while (len > 0 && strchr(" \t\r\n\f\v", s[len - 1]) != NULL)
		len--;
	return pnstrdup(s, len);
}

static char *
summary_of(MwRun *run, const Summarization *c, List *msgs)
{
	return stripped(c->function != NULL ? ask_function(run, c, msgs) : ask_model(run, c, mw_transcript(msgs)));
}

/*
 * In one go of what fits, or part by part: each further part is shown together
 * with the summary of all before it, so that nothing is left out.
 */
static char *
summarise(MwRun *run, const Summarization *c, List *msgs)
{
	char	   *summary = NULL;
	int			from = 0;

	if (!c->in_parts)
	{
		List	   *shown = c->trim == 0 ? msgs : mw_trim_to_last(run, msgs, c->trim, c->counter);

		return shown == NIL ? "Previous conversation was too long to summarize." : summary_of(run, c, shown);
	}
	while (from < list_length(msgs))
	{
		List	   *part = summary == NULL ? NIL : list_make1(summary_message(run, c, summary, from));
		int64		tokens = mw_count_by(run, c->counter, part);
		int			end = from;

		do
		{
			MwMsg	   *msg = list_nth(msgs, end);

			tokens += mw_count_by(run, c->counter, list_make1(msg));
			if (tokens > c->trim && end > from)
				break;
			part = lappend(part, msg);
		} while (++end < list_length(msgs));
		summary = summary_of(run, c, part);
		from = end;
	}
	return summary;
}

static MwPatch *
before_model(MwRun *run, MwMiddleware *m)
{
	const Summarization *c = m->conf;
	int			n = list_length(run->msgs);
	const char *model = c->model != NULL ? c->model : run->first_model;
	int64		context = mw_model_context(run, model);
	int64		reported = 0;
	int64		total = 0;
	int			cut;
	MwPatch    *patch;
	ListCell   *lc;

	if (c->trigger == NIL)
		return NULL;
	foreach(lc, c->trigger)
		mw_size_check(m, "trigger", lfirst(lc), model);
	mw_size_check(m, "keep", c->keep, model);
	if (asks_for_tokens(c->trigger) || c->keep->messages == 0)
		total = count_thread(run, c, &reported);
	if (!mw_sizes_reached(c->trigger, Max(total, reported), n, context))
		return NULL;
	cut = wanted_cut(run, c, total, context);
	if (cut > 0)
		cut = safe_cut(run->msgs, cut);
	if (cut <= 0)
		return NULL;

	patch = mw_patch_new();
	mw_patch_remove_all(patch);
	mw_patch_put(patch, summary_message(run, c, summarise(run, c, list_truncate(list_copy(run->msgs), cut)), cut));
	for (int i = cut; i < n; i++)
		mw_patch_put(patch, list_nth(run->msgs, i));
	return patch;
}

const MwMiddlewareType mw_summarization = {
	.type = "summarization",
	.options = option_names,
	.read = read_options,
	.before_model = before_model,
};
