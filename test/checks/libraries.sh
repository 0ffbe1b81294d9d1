#!/bin/bash
# Only the gateway includes libcurl; a provider touches neither SPI nor shared memory nor the network.
#
# libcurl starts threads and opens sockets, which no backend may.  Adapters run in both, the
# backend and the gateway, and on bytes that a stranger sent: what they cannot reach they
# cannot break.
. "$(dirname "$0")/lib.sh"

grep -nE '#[[:space:]]*include[[:space:]]*[<"]curl/' -r src | grep -v '^src/gateway/' | violations "only src/gateway includes libcurl"
grep -nE '\b(curl_[a-z]+_|CURL[A-Z_]*\b)' -r src --include='*.c' --include='*.h' | grep -vE '^src/(gateway/|compat\.h)' |
	violations "only src/gateway calls libcurl"
grep -nE '#[[:space:]]*include[[:space:]]*[<"](executor/spi|util/spi|storage/(shmem|lwlock|dsm|ipc|latch|proc)|utils/dsa|lib/dshash|access/(heapam|table|relation|genam)|sys/socket|netdb)' -r src/provider |
	violations "a provider is pure"
grep -nE '\b(SPI_|mw_spi_|LWLock|ShmemInit|dsa_|mw_shared\b|ereport\((FATAL|PANIC))' -r src/provider | violations "a provider is pure"
finish
