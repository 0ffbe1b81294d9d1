#!/bin/bash
# Each known bug report has a test that is there, or the reason why it has none.
#
# test/REPORTS.md is what a reader looks at; a row that names a test which was renamed, or a
# report that nobody took up, would promise what nothing holds.
. "$(dirname "$0")/lib.sh"

[ -x test/reports/make ] || exit 77
test/reports/make --check | violations
finish
