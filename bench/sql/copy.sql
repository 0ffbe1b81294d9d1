\set k random(0, 999)
SELECT floor_copy(:p || translate(:k::text, '0123456789', 'abcdefghij'));
