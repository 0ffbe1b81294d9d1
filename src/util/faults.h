/*
 * faults.h - places at the border of each stage where a test can make
 * something go wrong.  Compiled in by FAULTS=1 only; else they cost nothing.
 *
 * SET mw.fault = 'http_send:error' raises there, ':crash' sends the process
 * SIGKILL, ':oom' raises out of memory, ':sleep' sleeps a minute (on the latch);
 * a number after it skips as many passes: 'settle:crash:2'.  In the gateway the
 * setting comes from postgresql.conf.
 *
 * mw.fault_clock = '2026-10-25 02:59:59+02' is the moment that budgets take for now.
 */
#ifndef MW_FAULTS_H
#define MW_FAULTS_H

#include "datatype/timestamp.h"

#ifdef MW_FAULT_POINTS
extern void mw_fault_hit(const char *point);
extern void mw_fault_init(void);
extern TimestampTz mw_fault_now(TimestampTz now);
#define mw_fault(point)	mw_fault_hit(point)
#else
#define mw_fault(point)	((void) 0)
#define mw_fault_init()	((void) 0)
#define mw_fault_now(now)	(now)
#endif

#endif
