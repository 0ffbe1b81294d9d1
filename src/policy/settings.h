/*
 * settings.h - the settings of a tenant and of a model: reading and checking
 * are one piece of code, so that what was accepted is what is obeyed.
 */
#ifndef MW_SETTINGS_H
#define MW_SETTINGS_H

#include "mw.h"
#include "policy/policy.h"

/* Fill the fields of a policy from settings, defaults where they are silent.  Raises MW001. */
extern void mw_settings_tenant(Jsonb *settings, MwPolicy *policy);
/* Likewise a model's */
extern void mw_settings_model(Jsonb *settings, MwModel *model);

/* What alter does: patch's keys replace, objects merge, null removes.  NULL for an absent old one. */
extern Jsonb *mw_settings_merge(Jsonb *old, Jsonb *patch);

/* "server:model" with neither part empty; else MW001, naming what it is */
extern void mw_check_model_name(const char *model, const char *what);

/* Text of a member, NULL where it is absent; MW001 where it is no string */
extern char *mw_settings_text(Jsonb *jb, const char *key);
/* An integer member within bounds, or the default */
extern int64 mw_settings_int(Jsonb *jb, const char *key, int64 min, int64 max, int64 absent);
extern bool mw_settings_bool(Jsonb *jb, const char *key, bool absent);
/* A duration within bounds, in milliseconds: a number of seconds or the text of an interval */
extern int64 mw_settings_duration(Jsonb *jb, const char *key, int64 min_ms, int64 max_ms, int64 absent);

/* Of an option that means one of a few words: the word, or absent; MW001 lists them (NULL-terminated) */
extern char *mw_settings_word(Jsonb *jb, const char *key, const char *const *words, const char *absent);

#endif
