/*
 * holds.h - what must hold of every text, whoever wrote it (holds.c).
 *
 * Tests with texts of their own (test/c) and fuzzers (test/fuzz) ask the same
 * questions here.  Each answer goes to "must", with the text that it is about.
 * Memory that is taken is left to mw_alone_reset.
 */
#ifndef MW_ALONE_HOLDS_H
#define MW_ALONE_HOLDS_H

#include "alone.h"

#include "policy/policy.h"
#include "stage/normalise.h"

typedef void (*MwMust) (bool ok, const char *what, const char *s, int len);

/* Redaction: spans, the way back (whole and in pieces), nothing left, nothing more found in what came out */
extern void mw_holds_redaction(const MwPolicy *policy, const char *s, int len, MwMust must);
/* Restoring a text that is no answer to anything: the values come from the map alone */
extern void mw_holds_restoring(const char *s, int len, MwMust must);
/* The normalised view, its hints and n-grams */
extern void mw_holds_normaliser(const char *s, int len, MwMust must);
/* All further views of a view, and of what is decoded from it */
extern void mw_holds_decoder(const char *s, int len, MwMust must);

#endif
