/*
 * inbox_html.h - what pages of the inbox and of one interrupt share.
 */
#ifndef MW_INBOX_HTML_H
#define MW_INBOX_HTML_H

#include "mw.h"

#include "executor/spi.h"

#include "agent/html.h"

typedef struct MwInboxPage
{
	StringInfoData out;
	const char *tenant;
	const char *action;			/* where links and forms go; NULL: nowhere */
	Jsonb	   *fields;			/* hidden ones of each form; NULL */
	const char *notice;			/* NULL: none */
	const char *comment;		/* what was typed as a note so far; NULL: nothing */
} MwInboxPage;

/* Of a page: a link, where there is somewhere to go; its first and last part */
extern void mw_page_link(MwInboxPage *page, const char *query, const char *value, const char *text);
extern void mw_page_begin(MwInboxPage *page, const char *title);
extern void mw_page_end(MwInboxPage *page);

/* interrupt_html.c: a whole page; decisions are shown and recorded by nobody, NULL for none */
extern void mw_page_interrupt(MwInboxPage *page, const char *interrupt_id, Jsonb *decisions);

/* The first so many bytes of a text, whole characters, and a word about the rest */
extern char *mw_page_shortened(char *s, int limit);

/* A row of a result */
typedef struct Row
{
	HeapTuple	tuple;
	TupleDesc	desc;
} Row;

static inline Row
row_at(uint64 n)
{
	return (Row) {SPI_tuptable->vals[n], SPI_tuptable->tupdesc};
}

/* NULL for NULL */
static inline char *
text_at(Row row, const char *column)
{
	return SPI_getvalue(row.tuple, row.desc, SPI_fnumber(row.desc, column));
}

static inline Datum
datum_at(Row row, const char *column, bool *isnull)
{
	return SPI_getbinval(row.tuple, row.desc, SPI_fnumber(row.desc, column), isnull);
}

static inline Jsonb *
jsonb_at(Row row, const char *column)
{
	bool		isnull;
	Datum		d = datum_at(row, column, &isnull);

	return isnull ? NULL : DatumGetJsonbP(d);
}

static inline bool
true_at(Row row, const char *column)
{
	bool		isnull;

	return DatumGetBool(datum_at(row, column, &isnull)) && !isnull;
}

static inline int
int_at(Row row, const char *column)
{
	bool		isnull;

	return DatumGetInt32(datum_at(row, column, &isnull));
}

#define MW_PAGE_FACTS \
	" i.interrupt_id, i.session, i.agent, i.tool, i.requested_by::text AS requested_by, i.approvals, i.on_expiry," \
	" to_char(i.requested_at, 'YYYY-MM-DD HH24:MI TZ') AS requested, to_char(i.expires_at, 'YYYY-MM-DD HH24:MI TZ') AS expires," \
	" to_char(i.claimed_until, 'HH24:MI TZ') AS claimed,"

/* Who asked for it, where and until when: columns of MW_PAGE_FACTS, approved and claimed_by */
extern void mw_page_facts(MwInboxPage *page, Row row);

#endif
