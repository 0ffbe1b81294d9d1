/*
 * stored.h - a recorded or cached answer out of its table.
 */
#ifndef MW_STORED_H
#define MW_STORED_H

#include "gateway/transport.h"
#include "util/row.h"

extern MwRowTable mw_table_answer;
extern MwRowTable mw_table_fake_answer;
extern MwRowTable mw_table_cache;
extern MwRowTable mw_table_fake_cache;

/* The n-th that a request_id got for a call_key: found, unusable and the body are set */
extern MwStored mw_stored_answer(MwRowTable *table, const char *tenant, const char *request_id,
								 const MwKey *call_key, int nth);

/* By cache_key: found where it is of the call's epoch and has not expired */
extern MwStored mw_stored_cached(MwRowTable *table, const MwCall *call);

#endif
