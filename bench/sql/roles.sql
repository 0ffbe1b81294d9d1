SET ROLE bench_a;
SET ROLE bench_b;
