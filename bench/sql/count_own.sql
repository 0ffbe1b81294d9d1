\set k random(0, 999)
SELECT mw_invoke('requests', 's' || :client_id::text, :p || translate(:k::text, '0123456789', 'abcdefghij'));
