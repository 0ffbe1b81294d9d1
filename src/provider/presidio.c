/*
 * presidio.c - Presidio's analyzer: texts in, places of personal data out.
 *
 * POST /analyze takes one text or a list of them, a language, the entities that are
 * meant and the least score; it answers with a list of places a text, in
 * characters (code points).  It is no model: it has no messages, no usage and no
 * price, and only stage/analyzer.c calls it.
 */
#include "mw.h"

#include "provider/openai.h"
#include "provider/presidio.h"
#include "provider/provider.h"
#include "util/json.h"

void
mw_presidio_encode(StringInfo body, const MwPresidioText *texts, int ntexts, const char *language,
				   const List *entities, double least_score)
{
	ListCell   *lc;

	appendStringInfoString(body, "{\"text\":");
	/* a list of one is a text: servers of before 2024 know no lists */
	if (ntexts > 1)
		appendStringInfoChar(body, '[');
	for (int i = 0; i < ntexts; i++)
	{
		if (i > 0)
			appendStringInfoChar(body, ',');
		mw_json_string(body, texts[i].s, texts[i].len);
	}
	if (ntexts > 1)
		appendStringInfoChar(body, ']');
	appendStringInfoString(body, ",\"language\":");
	mw_json_string(body, language, strlen(language));
	appendStringInfoString(body, ",\"entities\":[");
	foreach(lc, entities)
	{
		if (lc != list_head(entities))
			appendStringInfoChar(body, ',');
		mw_json_string(body, lfirst(lc), strlen(lfirst(lc)));
	}
	appendStringInfo(body, "],\"score_threshold\":%g}", least_score);
}

/* In the gateway: whether it can be worth handing out.  Nothing of the body is shown: it may quote what it was sent. */
static void
outcome(const char *body, int len, int http_status, MwOutcome *out)
{
	int			i = 0;

	memset(out, 0, sizeof(*out));
	while (i < len && (body[i] == ' ' || body[i] == '\n' || body[i] == '\r' || body[i] == '\t'))
		i++;
	out->usable = i < len && body[i] == '[';
	if (http_status >= 200 && http_status < 300 && !out->usable)
		strlcpy(out->error, "the answer is no JSON array", sizeof(out->error));
}

const MwProvider mw_provider_presidio = {
	.api = "presidio",
	.path = "/analyze",
	.auth_header = mw_openai_auth_header,
	.outcome = outcome
};
