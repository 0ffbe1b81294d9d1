\set k random(0, 999)
SELECT mw_ask('bench', 's1', :p || translate(:k::text, '0123456789', 'abcdefghij'));
