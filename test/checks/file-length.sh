#!/bin/bash
# A C file answers one question, in 150 to 600 lines; over 700 it answers two.
#
# The limit is what a reader holds in mind; what grows beyond it is split by question, not
# by size.
. "$(dirname "$0")/lib.sh"

for file in src/*.c src/*/*.c; do
	lines=$(wc -l <"$file")
	[ "$lines" -le 700 ] || violation "$file: $lines lines"
done
finish
