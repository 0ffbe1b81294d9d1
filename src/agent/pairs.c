/*
 * pairs.c - which message of a list answers which.
 *
 * Providers refuse a transcript in which a tool's message stands without the
 * call that it answers, so whoever cuts or edits a list has to know.  Ids of
 * calls may come again in a long thread (some models number them from one each
 * time): the nearest assistant's message before counts.
 */
#include "mw.h"

#include "common/hashfn.h"
#include "utils/hsearch.h"

#include "agent/context.h"
#include "agent/run.h"

typedef struct CallKey
{
	uint32		hash;
	const char *id;
} CallKey;

typedef struct CallEntry
{
	CallKey		key;
	int			at;				/* mw_pairs: the message that made it last; mw_results_of: its number in the message */
} CallEntry;

static uint32
call_hash(const void *key, Size keysize)
{
	return ((const CallKey *) key)->hash;
}

static int
call_compare(const void *a, const void *b, Size keysize)
{
	return strcmp(((const CallKey *) a)->id, ((const CallKey *) b)->id);
}

static CallKey
key_of(const char *id)
{
	return (CallKey) {hash_bytes((const unsigned char *) id, strlen(id)), id};
}

static HTAB *
table_of_calls(void)
{
	HASHCTL		ctl = {
		.keysize = sizeof(CallKey), .entrysize = sizeof(CallEntry),
		.hash = call_hash, .match = call_compare, .hcxt = CurrentMemoryContext,
	};

	return hash_create("mw calls of a thread", 64, &ctl, HASH_ELEM | HASH_FUNCTION | HASH_COMPARE | HASH_CONTEXT);
}

int *
mw_pairs(List *msgs)
{
	int		   *pairs = palloc(sizeof(int) * Max(1, list_length(msgs)));
	HTAB	   *calls = NULL;
	ListCell   *lc;

	foreach(lc, msgs)
	{
		MwMsg	   *msg = lfirst(lc);
		int			at = foreach_current_index(lc);
		CallEntry  *entry = NULL;
		CallKey		key;

		for (int i = 0; i < msg->ncalls + msg->ninvalid; i++)
		{
			if (calls == NULL)
				calls = table_of_calls();
			key = key_of(i < msg->ncalls ? msg->calls[i].id : msg->invalid[i - msg->ncalls].id);
			entry = hash_search(calls, &key, HASH_ENTER, NULL);
			entry->at = at;
		}
		entry = NULL;
		if (calls != NULL && msg->tool_call_id != NULL)
		{
			key = key_of(msg->tool_call_id);
			entry = hash_search(calls, &key, HASH_FIND, NULL);
		}
		pairs[at] = entry == NULL ? -1 : entry->at;
	}
	if (calls != NULL)
		hash_destroy(calls);
	return pairs;
}

MwMsg	  **
mw_results_of(List *msgs, int at)
{
	MwMsg	   *answer = list_nth(msgs, at);
	MwMsg	  **results = palloc0(sizeof(MwMsg *) * Max(1, answer->ncalls));
	HTAB	   *calls = NULL;

	/* an answer may hold 100,000 calls */
	for (int i = at + 1; i < list_length(msgs); i++)
	{
		MwMsg	   *msg = list_nth(msgs, i);
		CallEntry  *entry;
		CallKey		key;

		if (mw_msg_is(msg, "assistant"))
			break;
		if (msg->tool_call_id == NULL)
			continue;
		if (calls == NULL)
		{
			calls = table_of_calls();
			for (int j = answer->ncalls - 1; j >= 0; j--)
			{
				key = key_of(answer->calls[j].id);
				entry = hash_search(calls, &key, HASH_ENTER, NULL);
				entry->at = j;
			}
		}
		key = key_of(msg->tool_call_id);
		entry = hash_search(calls, &key, HASH_FIND, NULL);
		if (entry != NULL && results[entry->at] == NULL)
			results[entry->at] = msg;
	}
	/* calls of one id have one result */
	for (int j = 0; calls != NULL && j < answer->ncalls; j++)
	{
		CallKey		key = key_of(answer->calls[j].id);

		results[j] = results[((CallEntry *) hash_search(calls, &key, HASH_FIND, NULL))->at];
	}
	if (calls != NULL)
		hash_destroy(calls);
	return results;
}

void
mw_pairs_close(MwRun *run, List *said, const char *what)
{
	MwPatch    *patch = mw_patch_new();
	int			at = mw_msgs_last(run->msgs, "assistant");
	MwMsg	   *answer;
	MwMsg	  **results;
	const char **before;

	if (at < 0)
		return;
	answer = list_nth(run->msgs, at);
	results = mw_results_of(list_concat(list_copy(run->msgs), said), at);
	before = palloc0(sizeof(char *) * (answer->ncalls + 1));
	for (int i = answer->ncalls - 1; i >= 0; i--)
		before[i] = results[i] != NULL ? results[i]->id : before[i + 1];
	for (int i = 0; i < answer->ncalls; i++)
		if (results[i] == NULL)
			mw_patch_put_before(patch, mw_msg_tool(run, &answer->calls[i], psprintf("Tool call %s with id %s %s.", answer->calls[i].name, answer->calls[i].id, what), true),
								before[i]);
	mw_thread_apply(run, patch->msgs);
}
