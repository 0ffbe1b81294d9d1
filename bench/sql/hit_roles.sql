\set k random(0, 999)
SET ROLE bench_a;
SELECT mw_invoke('bench', 's1', :p || translate(:k::text, '0123456789', 'abcdefghij'));
SET ROLE bench_b;
SELECT mw_invoke('bench', 's1', :p || translate(:k::text, '0123456789', 'abcdefghij'));
