SELECT mw.bench_record('bench', 1);
