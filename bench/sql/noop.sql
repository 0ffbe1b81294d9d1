\set k random(0, 999)
SELECT floor_noop(:p || translate(:k::text, '0123456789', 'abcdefghij'));
