/*
 * message_read.h - a message that the caller gave, and what pairing has to know of it.
 */
#ifndef MW_MESSAGE_READ_H
#define MW_MESSAGE_READ_H

#include "call/call.h"

/* A tool call of an assistant's message, while pairing */
typedef struct MwAsked
{
	const char *id;
	const char *name;
	int			answer;			/* the message that answers it; -1: none */
	struct MwAsked *same;			/* next one of the same message with the same id */
} MwAsked;

/* A message with what pairing has to know of it */
typedef struct MwMessageRead
{
	MwMessage	msg;
	const char *answers;		/* role tool: the id that it answers */
	MwAsked    *asked;
	int			nasked;
} MwMessageRead;

/* Its n-th message (from 0); MW001 where it is none */
extern void mw_message_read(int n, JsonbValue *item, MwMessageRead *out);

/* A text of its own, one byte longer than it is */
static inline char *
mw_copy_text(const char *s, int len)
{
	char	   *copy = palloc(len + 1);

	memcpy(copy, s, len);
	copy[len] = '\0';
	return copy;
}

#endif
