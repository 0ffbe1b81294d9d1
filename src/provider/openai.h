/*
 * openai.h - between the files of the OpenAI adapter: openai.c writes requests,
 * openai_answer.c reads answers, error_text.c makes a stranger's words showable.
 */
#ifndef MW_OPENAI_H
#define MW_OPENAI_H

#include "provider/provider.h"

/* openai_answer.c */
extern void mw_openai_outcome(const char *body, int len, int http_status, MwOutcome *out);
extern MwAnswer *mw_openai_decode(const char *body, int len);

/*
 * error_text.c: append to dst (size bytes in all, NUL terminated) what of s can
 * be shown: one line, printable, no secrets, no markup where markup is set.
 */
extern void mw_error_text(char *dst, size_t size, const char *s, int len, bool markup);

#endif
