/*
 * messages.c - what the caller said, as messages that a provider accepts.
 *
 * The transcript is paired (invariant 11): the tool calls of a message are
 * followed by exactly one answer each, in the order in which they came.  A late
 * answer moves up to its message, an open call is answered for, an answer that
 * nobody asked for is left out.  No provider gets a request of ours that it must refuse.
 */
#include "mw.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "call/message_read.h"
#include "call/request.h"
#include "util/json.h"
#include "util/json_push.h"

#define MAX_MESSAGES 65536		/* more than any model's context holds; bounds what is allocated */

/* id of a call -> the newest call that has it and waits for an answer */
typedef struct OpenCall
{
	const char *id;				/* hash key */
	uint32		hash;
	char		status;
	int			owner;			/* message that asks */
	MwAsked	   *first;
	MwAsked	   *last;
} OpenCall;

#define SH_PREFIX opencalls
#define SH_ELEMENT_TYPE OpenCall
#define SH_KEY_TYPE const char *
#define SH_KEY id
#define SH_HASH_KEY(tb, key) hash_bytes((const unsigned char *) (key), strlen(key))
#define SH_EQUAL(tb, a, b) (strcmp(a, b) == 0)
#define SH_STORE_HASH
#define SH_GET_HASH(tb, a) (a)->hash
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* ---------- pairing ---------- */

/* The answer to a call that has none */
static MwMessage
not_completed(const MwAsked *asked)
{
	MwMessage	msg = {.role = "tool"};
	JsonbParseState *state = NULL;
	char	   *text = psprintf("Tool call %s with id %s was not completed.", asked->name, asked->id);

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	push_member(&state, "role", "tool");
	push_member(&state, "content", text);
	push_member(&state, "tool_call_id", asked->id);
	msg.json = JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
	msg.from_caller = true;		/* name and id are the caller's words */
	return msg;
}

/* Find for each call its answer: the first one after it, before another message asks under that id. */
static void
find_answers(MwMessageRead *reads, int n)
{
	opencalls_hash *open = opencalls_create(CurrentMemoryContext, 64, NULL);

	for (int m = 0; m < n; m++)
	{
		OpenCall   *entry;

		if (reads[m].answers != NULL)
		{
			entry = opencalls_lookup(open, reads[m].answers);
			if (entry == NULL || entry->first == NULL)
				continue;
			entry->first->answer = m;
			entry->first = entry->first->same;
		}
		for (int i = 0; i < reads[m].nasked; i++)
		{
			MwAsked	   *asked = &reads[m].asked[i];
			bool		found;

			entry = opencalls_insert(open, asked->id, &found);
			if (found && entry->owner == m && entry->first != NULL)
				entry->last->same = asked;
			else
				entry->first = asked;
			entry->owner = m;
			entry->last = asked;
		}
	}
	opencalls_destroy(open);
}

static int
by_number(const void *a, const void *b)
{
	int			x = *(const int *) a;
	int			y = *(const int *) b;

	return x < y ? -1 : x > y;
}

/* The messages in an order that every provider takes; returns their number */
static int
pair(MwMessageRead *reads, int n, MwMessage *out)
{
	int		   *came = palloc(sizeof(int) * n);	/* the answers to one message's calls */
	int			k = 0;

	find_answers(reads, n);
	for (int m = 0; m < n; m++)
	{
		int			ncame = 0;

		if (reads[m].answers != NULL)
			continue;			/* stands beside its call, or is left out */
		out[k++] = reads[m].msg;
		for (int i = 0; i < reads[m].nasked; i++)
			if (reads[m].asked[i].answer >= 0)
				came[ncame++] = reads[m].asked[i].answer;
		qsort(came, ncame, sizeof(int), by_number);
		ncame = 0;
		for (int i = 0; i < reads[m].nasked; i++)
		{
			MwAsked	   *asked = &reads[m].asked[i];

			out[k++] = asked->answer >= 0 ? reads[came[ncame++]].msg : not_completed(asked);
		}
	}
	return k;
}

/* ---------- all of them ---------- */

static void
take(MwCall *call, MwMessageRead *reads, int n, int nasked, bool paired)
{
	call->messages = palloc((n + nasked) * sizeof(MwMessage));
	if (paired)
	{
		for (int i = 0; i < n; i++)
			call->messages[i] = reads[i].msg;
		call->nmessages = n;
	}
	else
		call->nmessages = pair(reads, n, call->messages);
}

void
mw_messages_take(MwCall *call, const char *system_prompt, Jsonb **messages, const bool *answered, int n)
{
	MwMessageRead	   *reads = palloc0((n + 1) * sizeof(MwMessageRead));
	int			first = 0;
	int			nasked = 0;
	bool		paired = true;

	if (system_prompt != NULL)
	{
		reads[0].msg.role = "system";
		reads[0].msg.text = pstrdup(system_prompt);
		reads[0].msg.len = strlen(system_prompt);
		reads[0].msg.from_caller = true;
		first = 1;
	}
	for (int i = 0; i < n; i++)
	{
		MwMessageRead	   *read = &reads[first + i];
		JsonbValue	item;

		CHECK_FOR_INTERRUPTS();
		item.type = jbvBinary;
		item.val.binary.data = &messages[i]->root;
		item.val.binary.len = VARSIZE(messages[i]) - VARHDRSZ;
		mw_message_read(i, &item, read);
		read->msg.answered = answered[i];
		nasked += read->nasked;
		if (read->nasked > 0 || read->answers != NULL)
			paired = false;
	}
	take(call, reads, first + n, nasked, paired);
}

/* The last message in pieces: what a developer wrote, the quote, and what a developer wrote behind it */
void
mw_messages_quote(MwCall *call, int from, int len)
{
	MwMessage	whole = call->messages[call->nmessages - 1];
	int			ends[] = {from, from + len, whole.len};
	int			at = 0;
	bool		first = true;

	call->messages = repalloc(call->messages, (call->nmessages + 2) * sizeof(MwMessage));
	call->nmessages--;
	for (int i = 0; i < lengthof(ends); i++)
	{
		MwMessage  *piece;

		if (ends[i] == at)
			continue;
		piece = &call->messages[call->nmessages++];
		*piece = whole;
		piece->text = mw_copy_text(whole.text + at, ends[i] - at);
		piece->len = ends[i] - at;
		piece->developers = i != 1;
		piece->joins = !first;
		first = false;
		at = ends[i];
	}
}

void
mw_messages_read(MwCall *call, Jsonb *messages, char *prompt, int prompt_len, bool has_prompt)
{
	MwMessageRead	   *reads;
	int			given = 0;
	int			n = 0;
	int			nasked = 0;
	bool		paired = true;

	if (messages != NULL)
	{
		if (!mw_json_is_array(messages))
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("messages must be a JSON array"),
					 errhint("Such as '[{\"role\": \"user\", \"content\": \"…\"}]'.")));
		given = JB_ROOT_COUNT(messages);
		if (given > MAX_MESSAGES)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("too many messages"),
					 errdetail("There are %d, and at most %d can be given.", given, MAX_MESSAGES),
					 errhint("Leave older ones out, or give a summary of them.")));
	}
	if (!has_prompt && given == 0)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("there are no messages"),
				 errdetail("The argument messages is NULL or empty."),
				 errhint("Such as '[{\"role\": \"user\", \"content\": \"…\"}]'.")));
	if (prompt == NULL && given == 0)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("there is nothing to ask"),
				 errdetail("The prompt is NULL and messages is NULL or empty."),
				 errhint("Give a prompt, or messages, or both.")));
	if (prompt != NULL && prompt_len == 0)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("the prompt is empty"),
				 errhint("Where messages say everything, the prompt is NULL.")));

	if (given == 0)
	{
		call->messages = palloc0(sizeof(MwMessage));
		call->nmessages = 1;
		call->messages[0].role = "user";
		call->messages[0].text = prompt;
		call->messages[0].len = prompt_len;
		call->messages[0].from_caller = true;
		return;
	}

	reads = palloc0((given + 1) * sizeof(MwMessageRead));
	{
		MwJsonEach	each = mw_json_each(&messages->root);

		while (mw_json_next(&each))
		{
			CHECK_FOR_INTERRUPTS();
			mw_message_read(n, &each.value, &reads[n]);
			nasked += reads[n].nasked;
			if (reads[n].nasked > 0 || reads[n].answers != NULL)
				paired = false;
			n++;
		}
	}
	if (prompt != NULL)
	{
		reads[n].msg.role = "user";
		reads[n].msg.text = prompt;
		reads[n].msg.len = prompt_len;
		reads[n].msg.from_caller = true;
		n++;
	}

	take(call, reads, n, nasked, paired);
	if (call->nmessages == 0)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("there is nothing to ask"),
				 errdetail("The messages are results of tool calls that none of them asks for."),
				 errhint("Send the whole history: the message with the tool calls stands before their results.")));
}
