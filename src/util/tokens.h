/*
 * tokens.h - our own count of tokens.
 */
#ifndef MW_TOKENS_H
#define MW_TOKENS_H

#include "mw.h"

/* an upper-bound estimate for common tokenizers; see tokens.c for what it promises */
extern int64 mw_tokens_of_text(const char *s, int len);

#endif
