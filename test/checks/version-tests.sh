#!/bin/bash
# Tests of a version stand in compat.h and nowhere else.
#
# One source serves three versions of PostgreSQL and several of libcurl.  Spread over the
# code, #if's hide which of them is tested at all; in one file they read as a list of what
# changed, and go away together with the oldest version.
. "$(dirname "$0")/lib.sh"

grep -nE '#[[:space:]]*(el)?if.*(PG_VERSION_NUM|PG_MAJORVERSION|CATALOG_VERSION_NO|LIBCURL_VERSION_NUM|CURL_AT_LEAST_VERSION|PCRE2_(MAJOR|MINOR)|SODIUM_LIBRARY_VERSION)' -r src |
	grep -v '^src/compat\.h:' | violations "belongs into compat.h"
grep -nE '\b(PG_VERSION_NUM|LIBCURL_VERSION_NUM)\b' -r src | grep -vE '^src/compat\.h:|#[[:space:]]*(el)?if' | violations "belongs into compat.h"
finish
